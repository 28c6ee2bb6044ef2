"""Sinks: where notifications go. Each is one class behind `Sink`; nothing here decides what is sent."""
