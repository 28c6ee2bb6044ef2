"""Commit runs as signs of life: whose they are, how often they come, which client library sends them."""
