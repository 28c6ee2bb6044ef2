"""A batch on the driver: its rows, the pure parts that see all shards, and the writer that commits it."""
