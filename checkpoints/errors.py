"""Errors about the folder where a job keeps its files: who configured it must act."""

from __future__ import annotations

import errno

from rebalance_monitor.config.errors import ConfigError


class FolderInUseError(ConfigError):
    """Another process works on this folder."""


class StoreError(OSError):
    """A remote file system does not answer, or refuses, after several attempts."""


class TakenError(Exception):
    """Another process has written the file since it was read."""


class FolderError(ConfigError):
    """The folder cannot be made, reached or written."""


class UnreachableError(FolderError):
    """A remote file system that Spark itself would use does not answer, or not at this address."""

    def __init__(self, uri: str, error: Exception) -> None:
        words = first_line(error).removeprefix(f"{uri}: ").rstrip(".")
        super().__init__(
            f"{uri} cannot be reached by Hadoop's client in Spark's JVM: {words}. Check the URI, Hadoop's "
            "configuration (HADOOP_CONF_DIR, spark.hadoop.…), the login, and that the file system is up."
        )


class FolderGoneError(FolderError, OSError):
    """The folder that this process has locked is not at its name any more: nothing may be written there.

    It is an OSError: code that can do without a write continues until the main loop ends the job.
    """

    def __init__(self, folder: object) -> None:
        super().__init__(
            f"{folder} was moved, unmounted or replaced while the job ran: it is not the folder that the job "
            "has locked, and nothing more is written. Bring that one back before you start again: a start on "
            "an empty folder knows nothing of what was published."
        )


REBUILD = (
    "Start once with --rebuild-state, or with a new word in storage.rebuild: state is rebuilt from the "
    "compacted topic in a new folder; findings, tables and ledger are kept."
)
OTHERWISE = f"Otherwise s{REBUILD[1:]}"
"""The same after a way to go on with the state that there is."""

OTHER_BROKERS = (
    "If these are not the brokers that were meant, correct kafka.bootstrap_servers; a second cluster needs "
    "a job and a storage.path of its own."
)
MAKE_ROOM = "Free space there and start again: the job continues with its last batch."


class NoRoomError(Exception):
    """The disk of the folder is full, or a quota is used up. The configuration is right."""

    def __init__(self, folder: object) -> None:
        super().__init__(f"The disk of {folder} is full, or a quota used up.\n{MAKE_ROOM}")


def is_full(error: OSError) -> bool:
    """Whether the error says that the disk is full."""
    return error.errno in {errno.ENOSPC, errno.EDQUOT}


def first_line(error: Exception, most: int = 300) -> str:
    """Return what an error says, in one line of at most so many characters."""
    return str(error).strip().partition("\n")[0][:most]
