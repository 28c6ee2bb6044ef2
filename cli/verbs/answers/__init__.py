"""Answers about groups: what rebalances, why, and since when."""
