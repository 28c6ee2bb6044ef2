"""The configuration of alerts as rules and receivers."""
