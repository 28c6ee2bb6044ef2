"""Everything known of one group, and advice."""
