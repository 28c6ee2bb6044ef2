"""What the brokers say about the offsets topic, and whether what was read is what they have."""
