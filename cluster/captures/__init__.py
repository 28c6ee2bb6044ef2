"""Captures: the offsets topic in a folder."""
