"""Suites of many scenarios, the demo, and the campaigns of the accuracy page."""
