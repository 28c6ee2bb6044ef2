"""Checks of a group's present assignment and subscriptions."""
