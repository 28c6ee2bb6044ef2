"""Renderers: functions from a message to one medium each."""
