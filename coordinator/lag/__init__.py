"""How far groups are behind the ends of their topics, and what that says."""
