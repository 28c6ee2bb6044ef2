"""The edge to Kafka outside Spark: admin calls, live probe, capture folders, jar resolution."""
