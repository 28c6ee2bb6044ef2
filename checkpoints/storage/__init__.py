"""Where the files of a job are: local folders, mounts, object stores; their owner."""
