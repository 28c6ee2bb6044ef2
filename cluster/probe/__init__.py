"""The live probe: what the brokers answer between batches."""
