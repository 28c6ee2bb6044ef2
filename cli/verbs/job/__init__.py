"""The production job, and upkeep of what it stores."""
