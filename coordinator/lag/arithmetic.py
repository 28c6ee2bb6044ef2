"""Lag of a partition, in records and in seconds, from its committed offset and the ends of its topic.

Lag is to the high watermark, as in Kafka's own tool. Three things are unknown, never a number: the lag of a
partition without a committed offset (end - 0 would be made up), of one whose end no broker answered, and of
one whose committed offset lies beyond an end that was asked for after the commit: the topic was truncated or
made anew. An end that is older than the commit may be smaller: then nothing waits, as far as anybody knows.

Seconds are the age of the oldest record that waits. When it was written is not asked for; it lies between the
last sample whose end had not passed the committed offset and the first that had, and is interpolated there.
"""

from __future__ import annotations

from typing import NamedTuple

from rebalance_monitor.coordinator.lag.ends import UNKNOWN

SKEW_MS = 2_000
"""A commit and a sample within this time of each other may be in either order: two clocks wrote them."""


class Seconds(NamedTuple):
    """Age (ms) of the oldest waiting record: estimate and bounds; `high` None where it is not known."""

    estimate: int
    low: int
    high: int | None


def records(offset: int, committed_at: int, end: int, asked_at: int) -> int | None:
    """Return how many records wait behind `offset`, committed at `committed_at`, at an `end` asked for then.

    None where it is unknown. Times in ms.
    """
    if offset < 0 or end == UNKNOWN:
        return None
    if offset <= end:
        return end - offset
    return 0 if committed_at >= asked_at - SKEW_MS else None


def total(values: list[int | None]) -> int | None:
    """Return the sum of the values that are known, None where none is."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def most(values: list[int | None]) -> int | None:
    """Return the largest of the values that are known, None where none is."""
    return max([value for value in values if value is not None], default=None)
