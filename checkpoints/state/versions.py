"""Versions of the state's form, for the codec and for the manifest. Light to import."""

CODEC_VERSION = 8
"""Version of the blob; goes up with any change to it or to the fields of the state."""

OLDEST_READ = 7
"""What is read still: the version before, whose groups are upgraded as they are read (`upgrade.py`)."""
