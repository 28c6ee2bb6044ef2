"""What a job saves: the state codec, the manifest, and the logs by which a restart finds its batch."""
