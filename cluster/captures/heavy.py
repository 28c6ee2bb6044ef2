"""Finds the record that Spark's JVM could not hold: a few KB on the wire that unpack to hundreds of MB.

Brokers bound what a batch of records has on the wire (`message.max.bytes`), not what it unpacks to. Java's
consumer unpacks without a bound, so one record can end the JVM, at every start again. Our reader refuses more
than 100 MB and names the offset. The range is read by a child process with a memory limit of its own,
partition by partition: whatever a record does to a reader, it does it there, and the last partition that the
child began is known. A skip must cover the whole batch of a record, because a batch is unpacked at once.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from rebalance_monitor.cluster.clients.admin import OFFSETS_TOPIC
from rebalance_monitor.cluster.clients.reader import Reading, UnpackError, last_of_batch, read_records
from rebalance_monitor.cluster.errors import DependencyError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

MB = 1 << 20
# A record of the offsets topic has some KB. What is not compressed brokers refuse from 1 MB on by default.
HEAVY_BYTES = 8 * MB
# Of addresses, most of which threads only reserve: 1 MB of gzip or lz4 unpacks to 1 GB at most.
LIMIT_BYTES = 2_048 * MB
PATIENCE_S = 300.0
WRITTEN = ("partition", "offset", "bytes", "last")
Spans = dict[int, tuple[int, int]]
"""Partition -> first offset (-1: the first there is), offset to stop before."""


@dataclass(frozen=True, slots=True)
class HeavyRecord:
    """Where it stands, its bytes unpacked (-1: more than a reader may take), and its batch's last offset.

    offset: of the first record of its batch where the batch cannot be unpacked; -1 where only the partition
    is known, because the child ended while it read it. skip: what to skip, of every partition that was read
    and holds a record at least half as heavy: partition -> offset.
    """

    partition: int
    offset: int
    bytes: int
    last: int = -1
    skip: dict[int, int] = field(default_factory=dict, compare=False)

    def sentence(self) -> str:
        """Say where it is and how large."""
        where = f"partition {self.partition}"
        if self.offset < 0:
            return f"A process with {LIMIT_BYTES // MB:,} MB of memory ended while it read {where}."
        size = f"has {self.bytes / MB:,.0f} MB" if self.bytes >= 0 else "unpacks to more than 100 MB"
        return f"The record at {where}, offset {self.offset:,} {size}."

    @property
    def weight(self) -> float:
        """Its bytes, as far as they are known."""
        return self.bytes if self.bytes >= 0 else float("inf")


def find_heavy(
    properties: Mapping[str, str], spans: Spans, topic: str = OFFSETS_TOPIC, patience_s: float = PATIENCE_S
) -> HeavyRecord | None:
    """Return the heaviest record of `spans`, None where none is heavy. Blocks for a child process.

    Raises DependencyError where the range cannot be read.
    """
    asked = json.dumps({"properties": dict(properties), "topic": topic, "spans": sorted(spans.items())})
    # What the properties hold stands on no command line.
    command = [sys.executable, "-P", "-c", f"from {__name__} import main; main()"]
    try:
        done = subprocess.run(
            command, input=asked, capture_output=True, text=True, timeout=patience_s, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise DependencyError(f"The range was not read within {patience_s:.0f} s.") from error
    return _answer([json.loads(line) for line in done.stdout.splitlines()], done.returncode)


def _answer(lines: list[dict[str, Any]], code: int) -> HeavyRecord | None:
    if code == 0 and lines and "found" in lines[-1]:
        return _heaviest([HeavyRecord(**one) for one in lines[-1]["found"]])
    if lines and "error" in lines[-1]:
        raise DependencyError(str(lines[-1]["error"]))
    if lines:
        return HeavyRecord(lines[-1]["began"], -1, -1)
    raise DependencyError(f"The process that was to read the range ended with code {code}.")


def _heaviest(found: Sequence[HeavyRecord]) -> HeavyRecord | None:
    """Return the heaviest, with what to skip; `found` in the order of offsets."""
    if not found:
        return None
    best = max(found, key=lambda one: one.weight)
    return replace(best, skip={one.partition: one.last for one in found if one.weight >= best.weight / 2})


def heavy_records(
    properties: Mapping[str, str], topic: str, partition: int, span: tuple[int, int]
) -> Iterator[HeavyRecord]:
    """Yield the heavy records of one partition's span, in order. Raises DependencyError."""
    first, end = max(span[0], 0), span[1]
    while first < end:
        try:
            for batch in read_records(properties, Reading({partition: first}, until={partition: end}), topic):
                columns = (batch.column(name).to_pylist() for name in ("offset", "key", "value"))
                for offset, key, value in zip(*columns, strict=True):
                    if (size := len(key or b"") + len(value or b"")) >= HEAVY_BYTES:
                        last = last_of_batch(properties, topic, partition, offset)
                        yield HeavyRecord(partition, offset, size, last)
        except UnpackError as error:
            yield HeavyRecord(error.partition, error.offset, -1, error.last)
            # The last offset is unknown where no leader answers.
            first = max(error.last, first) + 1
        else:
            return


def main() -> None:
    """Read what stdin asks for; print which partition is begun, then what was found, as JSON lines."""
    resource.setrlimit(resource.RLIMIT_AS, (LIMIT_BYTES, LIMIT_BYTES))
    asked = json.load(sys.stdin)
    found: list[dict[str, object]] = []
    try:
        for partition, span in asked["spans"]:
            _print({"began": partition})
            records = heavy_records(asked["properties"], asked["topic"], partition, span)
            found += [{name: getattr(one, name) for name in WRITTEN} for one in records]
    except DependencyError as error:
        _print({"error": error.what})
        return
    _print({"found": found})


def _print(line: dict[str, object]) -> None:
    print(json.dumps(line), flush=True)  # noqa: T201 - the parent reads it
