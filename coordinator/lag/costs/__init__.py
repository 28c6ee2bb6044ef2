"""What lag makes of what stops a group: how bad it is, and what it cost."""
