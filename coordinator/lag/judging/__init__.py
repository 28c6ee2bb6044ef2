"""What the lag of a group says: partitions that stand still or fall behind, records lost, topics unowned."""
