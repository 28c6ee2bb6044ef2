"""Scenarios: files, steps, faults, and the runner that plays them with real clients."""
