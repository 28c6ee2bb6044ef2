"""The dispatcher's thread and its files: inbox, journal, memory, silences."""
