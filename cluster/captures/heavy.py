"""Finds the record that Spark's JVM could not hold: a few KB on the wire that unpack to hundreds of MB.

Brokers bound what a batch of records has on the wire (`message.max.bytes`), not what it unpacks to. Java's
consumer unpacks without a bound, so one record can end the JVM, at every start again. librdkafka unpacks at
most `receive.message.max.bytes` (100 MB) and names the offset of what is larger. The range is read by a child
process with a memory limit of its own, partition by partition: whatever a record does to a reader, it does
it there, and the last partition that the child began is known.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from rebalance_monitor.cluster.clients.admin import OFFSETS_TOPIC
from rebalance_monitor.cluster.clients.reader import Reading, UnpackError, read_records
from rebalance_monitor.cluster.errors import DependencyError

if TYPE_CHECKING:
    from collections.abc import Mapping

MB = 1 << 20
# A record of the offsets topic has some KB. What is not compressed brokers refuse from 1 MB on by default.
HEAVY_BYTES = 8 * MB
# Of addresses, most of which threads only reserve: librdkafka itself unpacks 100 MB at most.
LIMIT_BYTES = 2_048 * MB
PATIENCE_S = 300.0
Spans = dict[int, tuple[int, int]]
"""Partition -> first offset (-1: the first there is), offset to stop before."""


@dataclass(frozen=True, slots=True)
class HeavyRecord:
    """Where it stands, and its bytes unpacked; -1 for more than a reader may take.

    offset: of the first record of its batch where the batch cannot be unpacked; -1 where only the partition
    is known, because the child ended while it read it.
    """

    partition: int
    offset: int
    bytes: int

    def sentence(self) -> str:
        """Say where it is and how large."""
        where = f"partition {self.partition}"
        if self.offset < 0:
            return f"A process with {LIMIT_BYTES // MB:,} MB of memory ended while it read {where}."
        size = f"has {self.bytes / MB:,.0f} MB" if self.bytes >= 0 else "unpacks to more than 100 MB"
        return f"The record at {where}, offset {self.offset:,} {size}."


def find_heavy(
    properties: Mapping[str, str], spans: Spans, topic: str = OFFSETS_TOPIC, patience_s: float = PATIENCE_S
) -> HeavyRecord | None:
    """Return the heaviest record of `spans`, None where none is heavy. Blocks for a child process.

    Raises DependencyError where the range cannot be read.
    """
    asked = json.dumps({"properties": dict(properties), "topic": topic, "spans": sorted(spans.items())})
    # What the properties hold stands on no command line.
    command = [sys.executable, "-c", f"from {__name__} import main; main()"]
    try:
        done = subprocess.run(
            command, input=asked, capture_output=True, text=True, timeout=patience_s, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise DependencyError(f"The range was not read within {patience_s:.0f} s.") from error
    return _answer([json.loads(line) for line in done.stdout.splitlines()], done.returncode)


def _answer(lines: list[dict[str, Any]], code: int) -> HeavyRecord | None:
    if code == 0 and lines and "found" in lines[-1]:
        found = lines[-1]["found"]
        return HeavyRecord(**found) if found else None
    if lines and "error" in lines[-1]:
        raise DependencyError(str(lines[-1]["error"]))
    if lines:
        return HeavyRecord(lines[-1]["began"], -1, -1)
    raise DependencyError(f"The process that was to read the range ended with code {code}.")


def heaviest(properties: Mapping[str, str], topic: str, partition: int, span: tuple[int, int]) -> HeavyRecord:
    """Return the heaviest record of one partition's span; of 0 bytes where there is none. DependencyError."""
    first, end = span
    found = HeavyRecord(partition, -1, 0)
    try:
        for batch in read_records(
            properties, Reading({partition: max(first, 0)}, until={partition: end}), topic
        ):
            columns = (batch.column(name).to_pylist() for name in ("offset", "key", "value"))
            for offset, key, value in zip(*columns, strict=True):
                size = len(key or b"") + len(value or b"")
                if size > found.bytes:
                    found = HeavyRecord(partition, offset, size)
    except UnpackError as error:
        return HeavyRecord(error.partition, error.offset, -1)
    return found


def main() -> None:
    """Read what stdin asks for; print which partition is begun, then what was found, as JSON lines."""
    resource.setrlimit(resource.RLIMIT_AS, (LIMIT_BYTES, LIMIT_BYTES))
    asked = json.load(sys.stdin)
    best: HeavyRecord | None = None
    try:
        for partition, span in asked["spans"]:
            _print({"began": partition})
            found = heaviest(asked["properties"], asked["topic"], partition, span)
            best = found if best is None or _weight(found) > _weight(best) else best
            if found.bytes < 0:
                break
    except DependencyError as error:
        _print({"error": error.what})
        return
    _print({"found": asdict(best) if best and _weight(best) >= HEAVY_BYTES else None})


def _weight(record: HeavyRecord) -> float:
    return record.bytes if record.bytes >= 0 else float("inf")


def _print(line: dict[str, object]) -> None:
    print(json.dumps(line), flush=True)  # noqa: T201 - the parent reads it
