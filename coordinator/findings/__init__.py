"""Findings: their kinds, causes, fields, wording, and what leaves the coordinator beside them."""
