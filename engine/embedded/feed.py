"""Batches of records, each with a time that it is proven to have read up to.

Before a batch the brokers are asked for the ends of the topic. Once these ends have been reached, every
record that was readable at that time has been read, so silence until then is silence. That time is the
batch's timestamp. An event "end of partition" is no proof: a quiet partition sends none. If the ends are not
reached in time, or are unknown, the batch is limited: time goes on with records alone. A partition without a
leader has no end: its own time stands still, and that of the others goes on.

The rate of reading can be capped (bytes of keys and values a second), because the topic's leaders serve the
groups.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rebalance_monitor.engine.batch.step import Extent

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Mapping

    import pyarrow as pa

    from rebalance_monitor.cluster.clients.ends import LogEnds, PlainLogEnds
    from rebalance_monitor.cluster.clients.reader import RecordReader

WAIT_S = 0.5
"""What a commit waits for other records at most: batches of commits are no closer together, unless full.

A batch costs some 12 CPU-ms whatever it holds, and no finding comes of a commit within a second.
"""

CHANGE_S = 0.15
"""A record that tells of a group's members ends the batch, so long after the one before at the earliest."""

LEAD_S = 0.05
"""The ends are asked for so long before that wait is over: what they prove then lies in a fetch under way."""

SLICE_S = 0.05
"""So often the reader looks at what has come: a record of a group's members is not seen before."""

BURST_S = 0.003
"""The partitions of a fetch are handed over one after the other within so long."""

NAP_S = 0.5
"""While nothing comes the reader wakes this often, to see whether it shall stop."""

SHORT_S = 0.05
PATIENCE_S = 1.0

AWAY_S = 10.0
"""Brokers that say for so long nothing of where the topic ends are away; a dead leader has a successor."""

HISTORY_BYTES = 12_000_000
"""While much is to be read, a batch holds cuts of the reader with so many bytes of keys and values together.

Of usual commits that is some 130,000 records, four cuts; of large records it is one cut.
"""

FETCHING = {
    # A fetch waits for more records up to 75 ms: without it the client's thread takes an eighth of a core.
    "fetch.min.bytes": "1000000",
    "fetch.wait.max.ms": "75",
    # What is asked for while the queue has room comes on top, by default 50 MB of it, and a small message
    # takes several times its bytes.
    "queued.max.messages.kbytes": "4096",
    "fetch.max.bytes": "4000000",
    # As much of one partition: the more commits of a group a batch of history has, the less each costs.
    "fetch.message.max.bytes": "4000000",
    # The queue is empty long before the client would look again, after a second.
    "fetch.queue.backoff.ms": "20",
}
"""librdkafka's settings for a reader that follows the topic."""


@dataclass(frozen=True, slots=True)
class Fed:
    """One batch: its records, its timestamp (ms), and what that time is worth.

    until: partition -> next offset. lag: offsets that are still to be read, None where no broker says. unled:
    partitions of which no leader says where they end.
    """

    records: tuple[pa.RecordBatch, ...]
    now: int
    extent: Extent
    until: Mapping[int, int] = field(default_factory=dict)
    lag: int | None = None
    unled: tuple[int, ...] = ()


class Feed:
    """`every_s`: the longest time between two batches. `most`: bytes a second, None for no cap.

    silence: that no broker has answered for long, in one sentence, "" where one has. abandoned: partitions
    whose leaders alone have not.
    """

    def __init__(
        self,
        reader: RecordReader,
        ends: LogEnds | PlainLogEnds,
        stop: threading.Event,
        *,
        every_s: float = 1.0,
        most: float | None = None,
        wall_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._reader, self._ends, self._stop = reader, ends, stop
        self._every_s, self._most = every_s, most
        self._wall_ms = wall_ms
        self._due = self._free_at = self._ended = time.monotonic()
        self._silent_since: float | None = None
        self._unled_since: float | None = None
        self.silence, self.abandoned = "", tuple[int, ...]()
        self._cuts: list[pa.RecordBatch] = []
        self._bytes = 0

    def next(self) -> Fed:
        """Return the next batch, perhaps without records. Blocks, but not for long once `stop` is set."""
        gathers = self._await_records()
        at, asked_at = self._wall_ms(), time.monotonic()
        ends = self._ends.ask(self._reader.reading.start)
        if gathers and (left := self._wait_left()) > 0:
            self._gather(left)
        unled = self._hear(ends, asked_at)
        is_read = ends is not None and self._read_to(ends)
        self._ended = time.monotonic()
        self._due = self._ended + self._every_s
        extent = Extent.USUAL if is_read else Extent.LIMITED
        reading = self._reader.reading
        until = {**reading.start, **reading.reached}
        lag = None if ends is None else sum(max(end - until.get(p, end), 0) for p, end in ends.items())
        return Fed(self._taken(), at, extent, until, lag, unled)

    def _hear(self, ends: Mapping[int, int] | None, asked_at: float) -> tuple[int, ...]:
        """Note who answers; return the partitions of which no leader said where they end.

        Silence begins with a question: what passed before it was perhaps a batch that took long.
        """
        now = time.monotonic()
        unled = () if ends is None else tuple(sorted(self._reader.reading.start.keys() - ends.keys()))
        self._silent_since = _since(self._silent_since, asked_at, lasts=ends is None)
        self._unled_since = _since(self._unled_since, asked_at, lasts=bool(unled))
        silent_s = now - (now if self._silent_since is None else self._silent_since)
        said = f"No broker has said for {silent_s:.0f} s where the topic ends."
        self.silence = said if silent_s > AWAY_S else ""
        is_long = self._unled_since is not None and now - self._unled_since > AWAY_S
        self.abandoned = unled if is_long else ()
        return unled

    def _await_records(self) -> bool:
        """Take the available records, at once if the batch is due; else wait for a first one and for others.

        After a record that follows a lull there is no wait for others, and a short one once a record tells
        of a group's members. True where more may be gathered.
        """
        reader = self._reader
        while not (reader.rows or self._stop.is_set()):
            left = self._due - time.monotonic()
            if left <= 0:
                reader.take(0.0)
                return False
            reader.take(min(NAP_S, left), 1)
        has_more = reader.take(0.0)
        while not (reader.is_full or self._stop.is_set()) and (left := self._wait_left() - LEAD_S) > 0:
            has_more = self._gather(0.0 if has_more else min(SLICE_S, left))
        return not (reader.is_full or self._stop.is_set())

    def _gather(self, seconds: float) -> bool:
        """Let records come for a while and take them; True where more are there.

        A client that is asked to wait for many wakes for each partition of a fetch, fifty times in place of
        once.
        """
        self._stop.wait(seconds)
        return self._reader.take(0.0)

    def _wait_left(self) -> float:
        """Return how long the batch may still wait for more, in seconds."""
        wait = CHANGE_S if self._reader.tells_of_members else WAIT_S
        return self._ended + wait - time.monotonic()

    def _read_to(self, ends: Mapping[int, int]) -> bool:
        patience, has_more = time.monotonic() + PATIENCE_S, False
        while not (is_read := self._reader.reading.has_reached(ends)):
            if self._is_full() or self._stop.is_set() or time.monotonic() > patience:
                break
            # Asked for many, the client waits for as many; asked for one, until there is one.
            if not has_more:
                self._reader.take(SHORT_S, 1)
            has_more = self._gather(0.0 if has_more else BURST_S)
        return is_read

    def _is_full(self) -> bool:
        """Whether the batch has as much as it may have; what the reader has is cut where only that is."""
        reader = self._reader
        if reader.is_full and self._bytes + reader.bytes < HISTORY_BYTES:
            self._cuts.append(self._cut())
        return reader.is_full

    def _taken(self) -> tuple[pa.RecordBatch, ...]:
        if self._reader.rows:
            self._cuts.append(self._cut())
        found = tuple(self._cuts)
        self._cuts, self._bytes = [], 0
        return found

    def _cut(self) -> pa.RecordBatch:
        self._throttle(self._reader.bytes)
        self._bytes += self._reader.bytes
        return self._reader.cut()

    def _throttle(self, taken: int) -> None:
        """Wait until `taken` bytes are within what may be read."""
        if self._most is None:
            return
        now = time.monotonic()
        self._free_at = max(self._free_at, now) + taken / self._most
        # A second's worth may come at once: live batches are not delayed.
        if (ahead := self._free_at - now - 1.0) > 0:
            self._stop.wait(ahead)


def _since(before: float | None, now: float, *, lasts: bool) -> float | None:
    """Return since when something lasts that began `before`, or begins `now`; None where it does not."""
    if not lasts:
        return None
    return now if before is None else before
