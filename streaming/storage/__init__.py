"""What Spark keeps or writes: state read back from a checkpoint, and Delta tables."""
