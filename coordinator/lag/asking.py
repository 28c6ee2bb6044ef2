"""Groups whose positions the brokers are asked for, and what their answers say.

A transaction writes the offsets that it commits before it ends, and no record says that a group commits that
way. So the topic's newest commit may belong to an open or an aborted transaction. OffsetFetch knows: pending
commits never appear in its answer. Groups with lag are asked in turns. A transaction's marker takes one
offset of the topic, so groups whose commits had a hole of one offset behind them are asked first.

A group commits by transactions if an answer was older than the topic: a larger offset had been written before
the question, and nothing that was read since explains it. From then on it is asked every `AGAIN_MS`,
and its positions are the answers.
"""

from __future__ import annotations

from heapq import nsmallest
from typing import TYPE_CHECKING

from rebalance_monitor.coordinator.commits.positions import Position
from rebalance_monitor.coordinator.lag.arithmetic import SKEW_MS
from rebalance_monitor.coordinator.lag.consumed import Asked, Doubt
from rebalance_monitor.coordinator.lag.ends import A_SECOND, AGAIN_MS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rebalance_monitor.coordinator.commits.positions import Places
    from rebalance_monitor.coordinator.lag.consumed import Consumed
    from rebalance_monitor.coordinator.lag.ends import EndsSample
    from rebalance_monitor.coordinator.lag.packed.places import Packed

MOST = 500
MARKED_MS = 60_000
TURN_MS = 600_000
"""A group that has lag, and was not found to commit by transactions, is asked again after so long."""

IN_TURN_A_SECOND = 10
"""So many of these are asked at most: hardly one commits by transactions and leaves no hole."""

READ_MS = 8_000
"""What was committed before an answer has been read and published by then."""

STALE_MS = 120_000
"""Positions are taken from the topic again where the brokers have answered nothing for so long."""


def choose(groups: Mapping[str, Consumed], at: int, since_ms: int) -> tuple[str, ...]:
    """Return the groups to ask for, the most urgent first, at `at` (ms), `since_ms` after the last ones."""
    most = min(MOST, max(1, since_ms * A_SECOND // 1000))
    urgent: list[tuple[int, int, str]] = []
    in_turn: list[tuple[int, str]] = []
    # Nearly all were asked lately: nothing more is read of these.
    for name, one in groups.items():
        asked = one.asked
        since = at - asked.at if asked.at >= 0 else TURN_MS
        if since < AGAIN_MS:
            continue
        if asked.transactional:
            urgent.append((0, asked.at, name))
        elif one.marked and since >= MARKED_MS:
            urgent.append((1, asked.at, name))
        elif since >= TURN_MS and one.waiting:
            in_turn.append((asked.at, name))
    first = [name for _, _, name in nsmallest(most, urgent)]
    left = min(most - len(first), max(1, since_ms * IN_TURN_A_SECOND // 1000))
    return (*first, *(name for _, name in nsmallest(left, in_turn)))


def take(groups: Mapping[str, Consumed], sample: EndsSample) -> None:
    """Take the answers of a sample, and decide the doubts of the samples before."""
    for consumed in groups.values():
        if consumed.asked.transactional or consumed.asked.doubts:
            _judge(consumed, sample.asked_at)
    for group in groups.keys() & sample.refused.keys():
        groups[group].asked.at = sample.fetched_at
    for group in groups.keys() & sample.fetched.keys():
        _answer(groups[group], sample.fetched[group], sample.fetched_at)


def _answer(consumed: Consumed, offsets: dict[str, dict[int, int]], at: int) -> None:
    asked = consumed.asked
    asked.at = asked.answered = at
    asked.offsets = offsets
    if asked.transactional:
        consumed.place(_positions(consumed))
        return
    asked.doubts = tuple(
        Doubt(topic, partition, place)
        for topic, partition, place in consumed.written
        if offsets.get(topic, {}).get(partition, -1) < place.offset and place.at <= at - SKEW_MS
    )
    if not asked.doubts:
        asked.offsets = {}
        asked.agreed += 1


def _judge(consumed: Consumed, now: int) -> None:
    """Decide whether the group commits by transactions, once what it had committed by then has been read."""
    asked = consumed.asked
    if asked.transactional and now >= asked.answered + STALE_MS:
        consumed.asked = Asked()
        consumed.start(consumed.written)
    elif asked.doubts and now >= asked.answered + READ_MS:
        asked.transactional = any(_is_unexplained(one, consumed.written) for one in asked.doubts)
        asked.doubts = ()
        if asked.transactional:
            consumed.start(_positions(consumed))
        else:
            asked.offsets = {}


def _is_unexplained(doubt: Doubt, written: Packed) -> bool:
    """Whether nothing that was read since explains the answer: no reset, and no deleted offset."""
    now = written.get(doubt.topic, doubt.partition)
    return now is not None and now.offset >= doubt.written.offset


def _positions(consumed: Consumed) -> Places:
    """Return the positions of a group that commits by transactions: what the brokers answered.

    The time of a commit is not in the answer: that of the topic's commit of the same offset, else the time
    at which the brokers first answered with the offset.
    """
    asked, found = consumed.asked, dict[str, dict[int, Position]]()
    for topic, offsets in asked.offsets.items():
        for partition, offset in offsets.items():
            both = consumed.written.get(topic, partition), consumed.places.get(topic, partition)
            known = [one for one in both if one is not None]
            same = (one for one in known if one.offset == offset)
            found.setdefault(topic, {})[partition] = next(same, Position(offset, asked.answered))
    return found
