"""Partitions that change hands while the others are read on: cooperative and epoch-based rebalances.

Members of such a group do not stop together. A partition stands still from the last commit of the member that
gives it up to the first commit of the one that takes it, at most. Two summaries of the group, one after the
other, say which partitions change hands: one that a member had and has no longer is given up, one that a
member has now and had not is taken.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from rebalance_monitor.coordinator.lag.owners import CUT, partitions
from rebalance_monitor.coordinator.state.membership import COOPERATIVE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from rebalance_monitor.coordinator.lag.consumed import Consumed

    Summary = Mapping[str, Any]
    Arrived = Callable[[str, int, int, int], int]
    """Records that came to a partition (topic, number) from one time (ms) to another."""

MAX_FOLLOWED = 1_000
"""Partitions of a group whose handover is followed at most."""

_CLASSIC = "classic"
Place = tuple[str, int]


class Handover(NamedTuple):
    """What changed hands by the summary of `at` (ms)."""

    at: int
    given: frozenset[Place]
    taken: frozenset[Place]


class Handed(msgspec.Struct, array_like=True):
    """A partition on its way: its last commit before (ms), and when it was taken, -1 until then."""

    topic: str
    partition: int
    since: int
    taken: int = -1


class Stop(NamedTuple):
    """How long (ms) a partition stood still, from when, and the records that came to it meanwhile."""

    since: int
    ms: int
    arrived: int


def handover(before: Summary, now: Summary) -> Handover | None:
    """Return what changed hands from one summary to the next, None where nothing did.

    None for an eager group, too: its members stop together. None where a summary leaves members or partitions
    out: which ones it lists may change.
    """
    if now.get("group_type") == _CLASSIC and now.get("protocol") not in COOPERATIVE:
        return None
    if not _is_whole(before) or not _is_whole(now):
        return None
    had, has = dict(_owned(before)), dict(_owned(now))
    given = frozenset(place for place, member in had.items() if has.get(place) != member)
    taken = frozenset(place for place, member in has.items() if had.get(place) != member)
    return Handover(int(now.get("at", -1)), given, taken) if given or taken else None


def handed_over(summaries: Mapping[str, Summary], known: Mapping[str, Summary]) -> dict[str, Handover]:
    """Return what changed hands in each group with a new summary; `known`: the ones before."""
    found = {name: handover(known[name], now) for name, now in summaries.items() if known.get(name)}
    return {name: one for name, one in found.items() if one is not None}


def follow(handed: list[Handed], news: Handover, consumed: Consumed) -> None:
    """Take what changed hands into the partitions that are followed."""
    followed = {(one.topic, one.partition): one for one in handed}
    for place in sorted(news.given - followed.keys())[: MAX_FOLLOWED - len(handed)]:
        position = consumed.places.get(*place)
        if position is not None:
            followed[place] = Handed(*place, position.at)
            handed.append(followed[place])
    for place in news.taken & followed.keys():
        followed[place].taken = news.at


def stops(handed: list[Handed], consumed: Consumed, as_of: int, arrived: Arrived) -> list[Stop]:
    """Return the stops that are over at `as_of` (ms), and follow the others on."""
    found, left = [], []
    for one in handed:
        position, track = (
            consumed.places.get(one.topic, one.partition),
            consumed.track(one.topic, one.partition),
        )
        if position is None or track is None:
            continue
        is_taken = 0 <= one.taken < as_of
        if is_taken and position.at >= one.taken:
            came = arrived(one.topic, one.partition, one.since, position.at)
            found.append(Stop(one.since, position.at - one.since, came))
        elif is_taken and track.lag == 0:
            # Nothing waits that its new owner could commit.
            continue
        else:
            # The member that gives it up may commit once more.
            one.since = position.at if one.taken < 0 else max(one.since, position.at)
            left.append(one)
    handed[:] = left
    return found


def _is_whole(summary: Summary) -> bool:
    listed = summary.get("member_list", ())
    whole = all(CUT not in ranges for one in listed for ranges in one.get("assigned", {}).values())
    return whole and len(listed) >= int(summary.get("members") or 0)


def _owned(summary: Summary) -> Iterator[tuple[Place, str]]:
    for member in summary.get("member_list", ()):
        for topic, ranges in member.get("assigned", {}).items():
            for partition in partitions(ranges):
                yield (topic, partition), member["member_id"]
