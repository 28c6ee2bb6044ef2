"""Positions, windows and ends of partitions, packed: below 100 bytes of memory each (`bench/core/lag.py`)."""
