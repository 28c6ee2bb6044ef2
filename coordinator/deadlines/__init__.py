"""Deadlines of members and rebalances, and what is reported when one passes."""
