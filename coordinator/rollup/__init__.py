"""What no single shard can see: one cause in many groups, and incidents over a rebuild of the state."""
