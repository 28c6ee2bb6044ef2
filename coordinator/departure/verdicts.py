"""What the model says of departed members, as causes with a sentence of the numbers that decided.

The operator gives the verdicts from records; the driver gives them again from the same evidence, completed by
what probe samples saw. Both call `verdicts`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from rebalance_monitor.coordinator.commits.client_families import CONNECT, FAMILIES
from rebalance_monitor.coordinator.departure.alone import Explained, alone
from rebalance_monitor.coordinator.departure.evidence import encode
from rebalance_monitor.coordinator.departure.explain import explain
from rebalance_monitor.coordinator.departure.hypotheses import CAUSE_OF, STATIC_CAUSE_OF, Way
from rebalance_monitor.coordinator.departure.phase import quiet_of
from rebalance_monitor.coordinator.findings.finding import HELD_BY, MEASURED, CauseEntry
from rebalance_monitor.coordinator.findings.wording import seconds
from rebalance_monitor.decoders.layouts.twins import quickly_made

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rebalance_monitor.coordinator.departure.evidence import Departed, Evidence
    from rebalance_monitor.coordinator.findings.finding import Details, MemberEntry
    from rebalance_monitor.coordinator.state.group_state import Member

_CERTAIN, _LEAST = 0.97, 0.1
_PER_MEMBER, _MOST_SENT = 3, 50
_HELD = 0.8


@quickly_made
@dataclass(frozen=True, slots=True)
class Measured:
    """What was measured of one departed member, ms.

    `silence`: from its last commit, or from its assignment, to the end of the join phase. `cadence`: its
    usual commit interval, -1 where it has none. `goodbye`: its client sends LeaveGroup as it closes, or went
    on with another thread. `held`: the least length of the join phase.
    """

    session: int
    rebalance: int
    silence: int
    cadence: int
    goodbye: bool
    held: int = 0


@quickly_made
@dataclass(frozen=True, slots=True)
class Departure:
    """One departed member: what was measured, and what that speaks for."""

    member: Member
    seen: Measured
    causes: tuple[CauseEntry, ...]


class Judged(NamedTuple):
    """All departed members of one rebalance, with the evidence; `explained` is None for history."""

    gone: list[Departure]
    evidence: Evidence
    explained: Explained | None


def judge(members: Sequence[Member], evidence: Evidence, *, history: bool) -> Judged:
    """Judge the departed `members` of one rebalance, in the order of the evidence."""
    explained = None if history else explain(evidence)
    ways = (explained or alone(evidence)).ways
    gone = [
        Departure(member, measured(evidence, one), verdicts(member, one, shares, busy_of(evidence)))
        for member, one, shares in zip(members, evidence.departed, ways, strict=True)
    ]
    return Judged(gone, evidence, explained)


def verdicts(
    member: Member | MemberEntry, one: Departed, ways: Sequence[float], told: str = ""
) -> tuple[CauseEntry, ...]:
    """Return the causes of one member, likeliest first; `told`: what other members add to the sentence."""
    causes = STATIC_CAUSE_OF if one.static else CAUSE_OF
    ranked = sorted(((share, way) for way, share in enumerate(ways) if share >= _LEAST), reverse=True)
    return tuple(
        CauseEntry.of(member, causes[Way(way)], min(_CERTAIN, round(share, 2)), why_of(Way(way), one) + told)
        for share, way in ranked[:_PER_MEMBER]
    )


def busy_of(evidence: Evidence) -> str:
    """Say for how long one that stayed may have kept the others waiting, "" where none did."""
    quiet = quiet_of(evidence.survivors)
    return f"; a member that stayed may have been busy for {seconds(quiet)}" if quiet else ""


def measured(evidence: Evidence, one: Departed) -> Measured:
    """Return the measured numbers of one departed member."""
    return Measured(
        session=one.session,
        rebalance=one.rebalance,
        silence=one.last_active,
        cadence=one.usual,
        goodbye=(FAMILIES[one.family].says_goodbye or one.succeeded) and not one.static,
        held=evidence.least_phase,
    )


def held_by(explained: Explained) -> int | None:
    """Return the place of the departed member that the join phase waited for, None where it is not sure.

    Of a phase that its deadline ended it is the one that did not rejoin.
    """
    *members, _, deadline = explained.holders
    shares = [
        share + deadline * ways[Way.UNJOINED] for share, ways in zip(members, explained.ways, strict=True)
    ]
    best = max(range(len(shares)), key=shares.__getitem__, default=-1)
    return best if best >= 0 and shares[best] >= _HELD else None


def details_of(judged: Judged) -> Details:
    """Return the member that a rebalance waited for, and the evidence for the driver, as details of it."""
    if judged.explained is None or not judged.gone:
        return {}
    place = held_by(judged.explained)
    named: Details = {} if place is None else {HELD_BY: judged.gone[place].member.member_id}
    return named | sent(judged)


def sent(judged: Judged) -> Details:
    """Return the evidence that the driver completes, as a detail; history is not judged again."""
    if judged.explained is None or not judged.gone:
        return {}
    evidence = judged.evidence
    some = replace(evidence, departed=evidence.departed[:_MOST_SENT])
    return {MEASURED: encode(some).decode()}


def why_of(way: Way, one: Departed) -> str:
    """Say what was measured in one sentence, with the numbers that speak for this way."""
    if one.trace.last < 0 and one.family == CONNECT:
        text = f"{seconds(one.since)} in the generation, in which a Connect worker commits nothing"
    elif one.trace.last < 0:
        text = f"no commit in the {seconds(one.since)} that it was in the generation"
    else:
        text = f"no commit for {seconds(one.trace.last)} before the join phase ended"
    if way is Way.STALLED:
        name = "max.poll.interval, as configured," if one.poll_interval else "rebalance timeout"
        text += f"; {name} {seconds(one.poll_interval or one.rebalance)}"
    if way in {Way.UNJOINED, Way.UNSYNCED}:
        text += f"; rebalance timeout {seconds(one.rebalance)}"
    elif way is not Way.STALLED or one.static:
        text += f"; session timeout {seconds(one.session)}"
    if way is Way.DIED:
        text += _acknowledged(one)
    if one.trace.last >= 0 and one.usual >= 0:
        text += f"; commits every {seconds(one.usual)} until then"
    if one.unmoved and not one.static:
        text += "; its last commits made no progress"
        text += ", those of its siblings did" if one.unmoved > 1 else ""
    return text + _or_stopped(one) if way is Way.DIED and not one.static else text


def _or_stopped(one: Departed) -> str:
    """Say of a client that never says goodbye whether it may have been stopped on purpose."""
    if one.succeeded:
        return "; another thread of its instance had joined before its session ended: the thread died"
    goodbye = FAMILIES[one.family].says_goodbye
    return "" if goodbye else "; its client never sends LeaveGroup, so a planned stop looks the same"


def _acknowledged(one: Departed) -> str:
    """Say which epochs it acknowledged, and did not."""
    text = (
        f"; it acknowledged an epoch {seconds(one.heard)} before" if 0 <= one.heard < one.last_active else ""
    )
    if one.deaf < 0:
        return text
    return f"{text}; for {seconds(one.deaf)} it did not acknowledge an epoch that others had"
