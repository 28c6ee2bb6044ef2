"""The dispatcher without threads, files and clock: notifications, threads of messages, retries."""
