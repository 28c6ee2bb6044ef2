"""Examples of every message."""
