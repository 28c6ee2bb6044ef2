"""Findings against facts: what was found, missed and wrong."""
