"""What Spark's own checkpoint says: which batches were begun and committed, and how far they had read.

Layout (Spark 3.5 to 4.x): `offsets/<batch>` = a line `v1`, a JSON line of the batch's metadata, then one line
per source; `commits/<batch>` appears when the batch is done. Only read here: Spark alone writes it. A file
that cannot be read is an error, because guessing how far a job had read would hide lost records.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from rebalance_monitor.checkpoints.errors import REBUILD, StoreError
from rebalance_monitor.checkpoints.state.spark_files import state_problems
from rebalance_monitor.checkpoints.storage.sealed import parsed
from rebalance_monitor.config.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable

    from rebalance_monitor.checkpoints.storage.places import Place

VERSION = "v1"
T = TypeVar("T")


class SparkLogError(ConfigError):
    """Spark's log in the checkpoint cannot be read; the first sentence names the file."""


@dataclass(frozen=True, slots=True)
class SparkLog:
    """The newest batch. begun, committed: batch ids, -1 for none; at: its timestamp (ms), -1 for none.

    ends: topic -> partition -> next offset, as far as the newest *committed* batch has read. query: the id of
    the query that wrote it, "" where it is not known.
    """

    begun: int = -1
    committed: int = -1
    at: int = -1
    ends: dict[str, dict[int, int]] | None = None
    query: str = ""

    def read(self, topic: str) -> dict[int, int]:
        """Return partition -> next offset to read of `topic`."""
        return (self.ends or {}).get(topic, {})


def read_spark_log(checkpoint: Place) -> SparkLog:
    """Return what the checkpoint folder says; an empty log where it has none. Raises SparkLogError."""
    begun, committed = _newest(checkpoint / "offsets"), _newest(checkpoint / "commits")
    metadata = checkpoint / "metadata"
    query = _read(metadata, lambda text: str(parsed(text)["id"])) if metadata.is_file() else ""
    if committed < 0:
        return SparkLog(begun, query=query)
    _read(checkpoint / "commits" / str(committed), _require_json)
    if begun > committed:
        _read(checkpoint / "offsets" / str(begun), _parsed)
    at, ends = _read(checkpoint / "offsets" / str(committed), _parsed)
    return SparkLog(begun, committed, at, ends, query)


def require_whole(checkpoint: Place, log: SparkLog, partitions: int) -> None:
    """Raise SparkLogError where a file that a start after `log` reads is missing or damaged."""
    if problems := state_problems(checkpoint, log.committed, partitions):
        raise SparkLogError(f"{problems[0]} The checkpoint is damaged.", REBUILD)


def unfinished(checkpoint: Place, topic: str) -> dict[int, tuple[int, int]]:
    """Return partition -> (first offset, offset to stop before) of the batch that was begun last.

    Only partitions with something to read, none if the batch is committed. The first offset is -1 where the
    batch is the first. Raises SparkLogError.
    """
    log = read_spark_log(checkpoint)
    if log.begun == log.committed:
        return {}
    _, ends = _read(checkpoint / "offsets" / str(log.begun), _parsed)
    read = log.read(topic)
    spans = {p: (read.get(p, -1), end) for p, end in ends.get(topic, {}).items()}
    return {p: (first, end) for p, (first, end) in spans.items() if first < end and end > 0}


def batches(checkpoint: Place) -> list[int]:
    """Return the batches that the checkpoint still holds offsets of, oldest first."""
    return _numbers(checkpoint / "offsets")


def _read(path: Place, parse: Callable[[str], T]) -> T:
    """Return what a file of the log says. Raises SparkLogError, naming it."""
    try:
        return parse(path.read_text(encoding="utf-8"))
    except StoreError:
        # Storage that does not answer says nothing about the file.
        raise
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        damaged = f"{path} cannot be read ({error}): the checkpoint is damaged."
        raise SparkLogError(damaged, REBUILD) from error


def _require_json(text: str) -> None:
    version, *lines = text.splitlines()
    if version != VERSION:
        raise ValueError(f"version {version}")
    parsed("\n".join(lines))


def _parsed(text: str) -> tuple[int, dict[str, dict[int, int]]]:
    version, metadata, *sources = text.splitlines()
    if version != VERSION:
        raise ValueError(f"version {version}")
    return int(parsed(metadata)["batchTimestampMs"]), _offsets(sources)


def _offsets(lines: list[str]) -> dict[str, dict[int, int]]:
    found: dict[str, dict[int, int]] = {}
    for line in lines:
        tree: Any = parsed(line) if line != "-" else None
        for topic, offsets in tree.items() if isinstance(tree, dict) else ():
            if isinstance(offsets, dict):
                found[topic] = {int(partition): int(offset) for partition, offset in offsets.items()}
    return found


def _newest(folder: Place) -> int:
    return max(_numbers(folder), default=-1)


def _numbers(folder: Place) -> list[int]:
    return sorted(int(path.name) for path in folder.glob("[0-9]*") if path.name.isdigit())
