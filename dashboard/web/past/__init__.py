"""Findings of the past for the API: from memory or from the table."""
