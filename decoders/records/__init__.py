"""The layouts of every record type, by family."""
