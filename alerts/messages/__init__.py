"""Messages: what a notification says, independent of the medium."""
