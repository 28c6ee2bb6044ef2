"""Kafka on this machine: broker processes, their properties, a proxy for the network."""
