"""Versions of the state's form, for the codec and for the manifest. Light to import."""

CODEC_VERSION = 7
"""Version of the blob; goes up with any change to it or to the fields of the state."""

OLDEST_READ = 3
"""What is read still. A group that nothing touches keeps its bytes over an upgrade: fields that came later
take their defaults when it is. So this goes up with any change but a new last field with a default."""
