"""Which claim reports which fact, where several share a key: the first the first, and so on.

So what is said twice is wrong once, and of three facts two are missed where one claim is all there is. Only a
move of the coordinator may be said as often as anybody likes: one move is many lines in the log. A storm is
reported once it has begun.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import product
from typing import TYPE_CHECKING

from rebalance_monitor.coordinator.findings.kinds import Kind
from rebalance_monitor.lab.scoring.matching import UNLISTED, Claim, key_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rebalance_monitor.lab.scoring.matching import Key, Occasions
    from rebalance_monitor.lab.truth.fold import Fact

_EARLY_MS = 2_000
_SAME_MASS_MS = 60_000


def pair(
    facts: Sequence[Fact], claims: Sequence[Claim], times: Occasions
) -> tuple[list[Claim | None], list[bool]]:
    """Give the claim that reported each fact, and whether each claim reported one."""
    claimed: list[Claim | None] = [None] * len(facts)
    right = [False] * len(claims)
    ours = _by_key(key_of(fact, times) for fact in facts)
    theirs = _by_key(key_of(claim, times) for claim in claims)
    for key, places in ours.items():
        # Facts that may be missed come last: a claim is counted for a required fact first.
        wanted = sorted(places, key=lambda place: (not facts[place].required, facts[place].at))
        found = sorted(theirs.get(key, ()), key=lambda place: (claims[place].at, claims[place].detected_at))
        if key[0] == Kind.STORM:
            begun = facts[wanted[0]].at - _EARLY_MS
            found = [place for place in found if claims[place].at >= begun]
        pairs = (
            product(wanted, found) if key[0] == Kind.COORDINATOR_MOVED else zip(wanted, found, strict=False)
        )
        for fact, claim in pairs:
            claimed[fact] = claimed[fact] or claims[claim]
            right[claim] = True
    _by_totals(facts, claims, claimed, right)
    return claimed, right


def _by_totals(
    facts: Sequence[Fact], claims: Sequence[Claim], claimed: list[Claim | None], right: list[bool]
) -> None:
    """Let each claim about an unlisted member report a fact of the same moment that no claim has reported."""
    unclaimed = defaultdict(list)
    for place, fact in enumerate(facts):
        if claimed[place] is None and fact.member:
            unclaimed[fact.label, fact.group].append(place)
    for number, claim in enumerate(claims):
        places = unclaimed.get((claim.label, claim.group), []) if claim.member == UNLISTED else []
        near = next((place for place in places if abs(facts[place].at - claim.at) <= _SAME_MASS_MS), None)
        if near is not None:
            places.remove(near)
            claimed[near], right[number] = claim, True


def _by_key(keys: Iterable[Key]) -> dict[Key, list[int]]:
    found: dict[Key, list[int]] = defaultdict(list)
    for place, key in enumerate(keys):
        found[key].append(place)
    return found
