"""Where records come from: Spark's Kafka source, or a Python data source."""
