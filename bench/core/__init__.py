"""What runs without Spark: decoding, the coordinator, the driver."""
