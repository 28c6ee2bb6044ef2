"""Contracts on what is read and what is written, checked with great-expectations on samples."""
