"""The terminal view: groups, live, those in trouble first."""
