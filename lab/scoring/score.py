"""Detection against truth: what was found, missed, and claimed wrongly.

A finding makes claims (`claims.py`): its kind, and each of its causes at or above the attribution confidence.
What a claim and a fact must share is in `matching.py`; one claim reports one fact (`pairing.py`).
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from rebalance_monitor.coordinator.findings.causes import LOSSES
from rebalance_monitor.lab.scoring import silences
from rebalance_monitor.lab.scoring.matching import key_of, occasion, occasions
from rebalance_monitor.lab.scoring.pairing import pair

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from rebalance_monitor.lab.scoring.matching import Claim, Key, Occasions
    from rebalance_monitor.lab.truth.fold import Fact

CONFIDENT = 0.6
LOST = {f"cause:{cause.value}": cause.value for cause in LOSSES}


@dataclass(frozen=True, slots=True)
class Tally:
    """One row of the table: facts, how many were detected, claims, how many were right; delays in s."""

    facts: int
    detected: int
    claims: int
    right: int
    delays: tuple[float, ...] = ()

    @property
    def missed(self) -> int:
        """Facts without a claim."""
        return self.facts - self.detected

    @property
    def wrong(self) -> int:
        """Claims without a fact."""
        return self.claims - self.right


class Matched(NamedTuple):
    """Each fact with the claim that reported it, and each confident claim with whether it reported one."""

    facts: list[tuple[Fact, Claim | None]]
    claims: list[tuple[Claim, bool]]


def tally(
    facts: Sequence[Fact], claims: Sequence[Claim], families: Mapping[str, str]
) -> dict[tuple[str, str], Tally]:
    """Count per (label, client family); `families` maps groups to families, others are left out."""
    return counted(matched(facts, claims), families)


def matched(facts: Sequence[Fact], claims: Sequence[Claim]) -> Matched:
    """Match the confident claims with the facts."""
    sure = _sure(claims)
    claimed, right = pair(facts, sure, occasions(facts))
    return Matched(list(zip(facts, claimed, strict=True)), list(zip(sure, right, strict=True)))


def counted(found: Matched, families: Mapping[str, str]) -> dict[tuple[str, str], Tally]:
    """Count what was matched, as `tally` does."""
    rows: dict[tuple[str, str], list[tuple[str, bool, float | None]]] = defaultdict(list)
    for fact, claim in found.facts:
        if fact.required and fact.group in families:
            rows[fact.label, families[fact.group]].append(_fact_row(fact, claim))
    for one, is_right in found.claims:
        if one.group in families:
            rows[one.label, families[one.group]].append(("claim", is_right, None))
    return {key: _count(entries) for key, entries in sorted(rows.items())}


def unmatched(facts: Sequence[Fact], claims: Sequence[Claim]) -> tuple[list[Fact], list[Claim]]:
    """Give facts without a claim and claims without a fact, for tuning the detection."""
    found = matched(facts, claims)
    missed = [fact for fact, claim in found.facts if fact.required and claim is None]
    return missed, [claim for claim, is_right in found.claims if not is_right]


def _sure(claims: Iterable[Claim]) -> list[Claim]:
    """Give the confident claims about facts; silences are judged by themselves."""
    return [one for one in claims if one.confidence >= CONFIDENT and one.label != silences.LABEL]


def _fact_row(fact: Fact, claim: Claim | None) -> tuple[str, bool, float | None]:
    if claim is None:
        return "fact", False, None
    return "fact", True, (claim.detected_at - fact.at) / 1000 if claim.detected_at > 0 else None


def _count(entries: Sequence[tuple[str, bool, float | None]]) -> Tally:
    facts = [entry for entry in entries if entry[0] == "fact"]
    claims = [entry for entry in entries if entry[0] == "claim"]
    return Tally(
        facts=len(facts),
        detected=sum(hit for _, hit, _ in facts),
        claims=len(claims),
        right=sum(hit for _, hit, _ in claims),
        delays=tuple(sorted(delay for _, _, delay in facts if delay is not None)),
    )


def together(tallies: Iterable[Tally]) -> Tally:
    """Add tallies up."""
    every = list(tallies)
    return Tally(
        facts=sum(one.facts for one in every),
        detected=sum(one.detected for one in every),
        claims=sum(one.claims for one in every),
        right=sum(one.right for one in every),
        delays=tuple(sorted(delay for one in every for delay in one.delays)),
    )


@dataclass(frozen=True, slots=True)
class Band:
    """Causes that named a member with a confidence of `low` to `low` + 0.1.

    How many `claims` there were, how many of them `true`, and the mean of what they `stated`.
    """

    low: float
    claims: int
    true: int
    stated: float


def calibration(facts: Sequence[Fact], claims: Sequence[Claim], *, of_losses: bool) -> list[Band]:
    """Give the bands of confidence in which causes that name a member were claimed.

    Departures are counted apart: joins are easy to recognise, and there are many of them.
    """
    times = occasions(facts)
    true = {key_of(fact, times) for fact in facts}
    bands: dict[int, list[Claim]] = defaultdict(list)
    for claim in claims:
        if claim.label.startswith("cause:") and claim.member and (claim.label in LOST) == of_losses:
            bands[min(9, int(claim.confidence * 10))].append(claim)
    return [_band(tenth, found, true, times) for tenth, found in sorted(bands.items())]


def _band(tenth: int, found: Sequence[Claim], true: set[Key], times: Occasions) -> Band:
    stated = sum(claim.confidence for claim in found) / len(found)
    return Band(tenth / 10, len(found), sum(key_of(claim, times) in true for claim in found), stated)


UNSURE, NOTHING = "unsure", "nothing"


def confusion(facts: Sequence[Fact], claims: Sequence[Claim]) -> dict[tuple[str, str], int]:
    """Count (true cause, claimed cause) over the members that were lost, each time that one was.

    The claim is the most confident one about that loss; below 0.6 it is `unsure`, without one `nothing`.
    """
    times = occasions(facts)
    best: dict[tuple[str, str, int], Claim] = {}
    for claim in claims:
        place = claim.group, claim.member, occasion(claim, times)
        if claim.label in LOST and (place not in best or best[place].confidence < claim.confidence):
            best[place] = claim
    counts: dict[tuple[str, str], int] = defaultdict(int)
    for fact in facts:
        if fact.label in LOST and fact.required:
            place = fact.group, fact.member, occasion(fact, times)
            counts[LOST[fact.label], _said(best.get(place))] += 1
    return dict(counts)


def _said(claim: Claim | None) -> str:
    if claim is None:
        return NOTHING
    return LOST[claim.label] if claim.confidence >= CONFIDENT else UNSURE
