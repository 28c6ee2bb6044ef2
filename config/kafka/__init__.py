"""Kafka client properties: addresses, logins and values, read once for every client that uses them."""
