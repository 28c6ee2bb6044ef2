"""Kafka clients: connections, admin calls, readers."""
