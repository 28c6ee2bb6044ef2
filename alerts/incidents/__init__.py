"""Findings to alerts, and which alerts explain others."""
