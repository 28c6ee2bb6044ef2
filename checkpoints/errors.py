"""What is wrong with the place where a job keeps its files; whoever set it must act."""

from __future__ import annotations

from rebalance_monitor.config.errors import ConfigError


class FolderInUseError(ConfigError):
    """Another process works on this folder."""


class StoreError(OSError):
    """A remote file system is away or refuses, after some tries."""


class FolderError(ConfigError):
    """The folder cannot be made, reached or written."""


def first_line(error: Exception, most: int = 300) -> str:
    """Return what an error says, in one line of at most so many characters."""
    return str(error).strip().partition("\n")[0][:most]
