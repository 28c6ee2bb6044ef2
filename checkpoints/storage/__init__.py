"""Where the files of a job lie: local folders, mounts, object stores, who owns them, how one is replaced."""
