"""Findings to incidents to routed, deduplicated notifications to sinks."""
