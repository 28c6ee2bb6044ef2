"""What the monitor knows now: groups, newest findings, open incidents."""
