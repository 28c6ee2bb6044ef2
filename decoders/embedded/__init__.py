"""Protocols that clients embed in group records: the broker stores them and never looks inside."""
