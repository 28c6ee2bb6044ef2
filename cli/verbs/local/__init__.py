"""A Kafka on this machine, for the demo and for trials."""
