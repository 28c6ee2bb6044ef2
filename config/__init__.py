"""The configuration model and its reference file."""
