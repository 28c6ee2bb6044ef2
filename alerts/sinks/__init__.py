"""Sinks: where notifications go. Each is one class behind `base.Sink`; nothing here decides what is told."""
