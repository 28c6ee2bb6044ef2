"""Metrics of the monitor: their definitions, tallies and collector."""
