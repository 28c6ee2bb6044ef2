"""What a claim of a finding and a fact of the log must share to match.

Label, group and, where the fact has them, member and generation: never time alone. What happens to a member
is matched by its id, whichever generation reports it. A classic member's id is never used again; one of the
new protocol comes back, so of several times that it came or went a claim is about the last one before it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rebalance_monitor.coordinator.findings.causes import LOSSES, Cause
from rebalance_monitor.coordinator.findings.kinds import Kind

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rebalance_monitor.lab.truth.fold import Fact

BY_MEMBER = frozenset({Kind.SESSION_TIMEOUT, Kind.POLL_INTERVAL_EXCEEDED, Kind.STATIC_MEMBER_REPLACED})
BY_GROUP = frozenset(
    {
        Kind.STORM,
        Kind.GROUP_MIGRATED,
        Kind.GROUP_REMOVED,
        Kind.COORDINATOR_MOVED,
        f"cause:{Cause.GROUP_DELETED_BY_ADMIN}",
        f"cause:{Cause.GROUP_EXPIRED}",
    }
)
_LOST = frozenset(
    {*(f"cause:{cause}" for cause in LOSSES), Kind.SESSION_TIMEOUT.value, Kind.POLL_INTERVAL_EXCEEDED.value}
)
UNLISTED = "*"
"""Member of a claim about one of many that a finding counts and does not list: it is scored by totals."""

# The log has several lines for one departure; a finding's time may be a little before the log's.
_SAME_MS, _EARLY_MS = 1_000, 2_000

Key = tuple[str, str, str, int, int]
Occasions = dict[tuple[str, str, str], list[int]]
"""(what happened, group, member) -> when it did, ms, ascending."""


@dataclass(frozen=True, slots=True)
class Claim:
    """One thing a finding says. Fields as in Fact; `at` is its event time; times in ms, -1 unknown."""

    label: str
    group: str
    generation: int
    member: str
    confidence: float
    detected_at: int
    at: int = -1
    count: int = 1


def occasions(facts: Iterable[Fact]) -> Occasions:
    """Give the times at which members left, and at which anything else happened to them."""
    times: dict[tuple[str, str, str], list[int]] = defaultdict(list)
    for fact in sorted(facts, key=lambda fact: fact.at):
        seen = times[_what(fact)]
        if not seen or fact.at > seen[-1] + _SAME_MS:
            seen.append(fact.at)
    return dict(times)


def occasion(thing: Fact | Claim, times: Mapping[tuple[str, str, str], list[int]]) -> int:
    """Give which of the times that it happened to the member this is about, from 0 on."""
    seen = times.get(_what(thing), [])
    at = thing.at if thing.at >= 0 or not isinstance(thing, Claim) else thing.detected_at
    return max(0, bisect_right(seen, at + (_EARLY_MS if isinstance(thing, Claim) else 0)) - 1)


def _what(thing: Fact | Claim) -> tuple[str, str, str]:
    """Give event and member: a departure is one event, whatever cause is claimed for it."""
    return "" if thing.label in _LOST else thing.label, thing.group, thing.member


def key_of(thing: Fact | Claim, times: Mapping[tuple[str, str, str], list[int]]) -> Key:
    """Give what two must share to match: label, group, count, and member and occasion, or generation."""
    if thing.label in BY_GROUP:
        return thing.label, thing.group, "", -1, 1
    if thing.label in BY_MEMBER or (thing.label.startswith("cause:") and thing.member):
        return thing.label, thing.group, thing.member, occasion(thing, times), 1
    return thing.label, thing.group, thing.member, thing.generation, thing.count
