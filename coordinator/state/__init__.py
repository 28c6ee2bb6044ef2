"""What the shadow coordinator remembers of a shard, a group and a member; the group state machine as data."""
