"""One small worker per client family, each a process of its own with the same flags, commands and journal."""
