"""`member_silent` against truth: whether the broker expelled the member afterwards, and the delay.

The clock decides this finding, and what the broker does confirms or withdraws it, so it is no claim about a
fact of the log like others: nothing is missed where none was reported. A silence is true where the log expels
the member after it, before the same member is said to be silent again.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.kinds import Kind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rebalance_monitor.lab.scoring.matching import Claim
    from rebalance_monitor.lab.truth.fold import Fact

EXPELLED = frozenset(
    f"cause:{cause.value}"
    for cause in (
        Cause.SESSION_TIMEOUT,
        Cause.POLL_INTERVAL_EXCEEDED,
        Cause.STATIC_MEMBER_EXPIRED,
        Cause.JOIN_DEADLINE_MISSED,
        Cause.SYNC_DEADLINE_MISSED,
    )
)
# The log's line may be a little before the deadline as the topic shows it.
EARLY_MS = 2_000
LABEL = Kind.MEMBER_SILENT.value


@dataclass(frozen=True, slots=True)
class Silences:
    """Silences of one confidence, how many were true; delays (s, ascending) of the ones published live.

    `after`: from the deadline to the finding; `ahead`: from the finding to the log's line, of true ones.
    """

    claimed: int
    true: int
    after: tuple[float, ...] = ()
    ahead: tuple[float, ...] = ()


def silences(facts: Iterable[Fact], claims: Iterable[Claim]) -> dict[float, Silences]:
    """Judge the silences among `claims`, by their confidence: higher where the member commits when idle."""
    expelled: dict[tuple[str, str], list[int]] = defaultdict(list)
    for fact in sorted(facts, key=lambda fact: fact.at):
        if fact.label in EXPELLED:
            expelled[fact.group, fact.member].append(fact.at)
    claimed: dict[tuple[str, str], list[Claim]] = defaultdict(list)
    for claim in sorted(claims, key=lambda claim: claim.at):
        if claim.label == LABEL:
            claimed[claim.group, claim.member].append(claim)
    judged: dict[float, list[tuple[Claim, int | None]]] = defaultdict(list)
    for place, one in claimed.items():
        ends = [*(claim.at for claim in one[1:]), None]
        for claim, end in zip(one, ends, strict=True):
            judged[claim.confidence].append((claim, _end(expelled[place], claim.at, end)))
    return {confidence: _sum(found) for confidence, found in sorted(judged.items())}


def _end(expelled: list[int], deadline: int, until: int | None) -> int | None:
    """Give when the member was expelled after `deadline` (ms), before `until`; None if it was not."""
    place = bisect_left(expelled, deadline - EARLY_MS)
    if place == len(expelled) or (until is not None and expelled[place] >= until - EARLY_MS):
        return None
    return expelled[place]


def _sum(found: list[tuple[Claim, int | None]]) -> Silences:
    live = [(claim, end) for claim, end in found if claim.detected_at > 0]
    return Silences(
        claimed=len(found),
        true=sum(end is not None for _, end in found),
        after=tuple(sorted((claim.detected_at - claim.at) / 1000 for claim, _ in live)),
        ahead=tuple(sorted((end - claim.detected_at) / 1000 for claim, end in live if end is not None)),
    )
