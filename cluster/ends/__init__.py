"""The ends of the consumed topics: what the brokers answer to ListOffsets between batches."""
