"""What the model says of departed members: causes with the numbers that decided, and findings of their own.

`verdicts` gives each member its causes. `kinds_by` says which members have a finding beside the rebalance
that they caused, of which kind, and how surely. The operator asks both from records; the driver asks them
again from the same evidence, completed by what probe samples saw.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import compress
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from rebalance_monitor.coordinator.commits.client_families import CONNECT, FAMILIES
from rebalance_monitor.coordinator.departure.alone import Explained, alone
from rebalance_monitor.coordinator.departure.evidence import Evidence, encode
from rebalance_monitor.coordinator.departure.explain import explain
from rebalance_monitor.coordinator.departure.hypotheses import (
    CAUSE_OF,
    STATIC_CAUSE_OF,
    Way,
    client_of,
)
from rebalance_monitor.coordinator.departure.waits import quiet_of
from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.finding import HELD_BY, MEASURED, CauseEntry
from rebalance_monitor.coordinator.findings.kinds import Kind, Severity
from rebalance_monitor.coordinator.findings.massed import MANY
from rebalance_monitor.coordinator.findings.wording import ASSUMED, seconds
from rebalance_monitor.decoders.layouts.twins import quickly_made

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rebalance_monitor.coordinator.departure.evidence import Departed
    from rebalance_monitor.coordinator.findings.finding import Details, MemberEntry
    from rebalance_monitor.coordinator.settings import DetectionSettings
    from rebalance_monitor.coordinator.state.group_state import Member

KIND_OF = {
    Cause.SESSION_TIMEOUT: Kind.SESSION_TIMEOUT,
    Cause.STATIC_MEMBER_EXPIRED: Kind.SESSION_TIMEOUT,
    Cause.POLL_INTERVAL_EXCEEDED: Kind.POLL_INTERVAL_EXCEEDED,
    Cause.JOIN_DEADLINE_MISSED: Kind.POLL_INTERVAL_EXCEEDED,
}
"""Cause -> kind. A live member that does not poll leaves, or is removed at the join deadline: one fault."""

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


NOBODY = Judged([], Evidence(0, 0, (), (), 0, 0, 0, 0), None)
"""Of a rebalance in which no member departed."""


def judge(members: Sequence[Member], evidence: Evidence, *, history: bool) -> Judged:
    """Judge the departed `members` of one rebalance, in the order of the evidence."""
    explained = None if history else explain(evidence)
    ways, busy = (explained or alone(evidence)).ways, busy_of(evidence)
    gone = [
        Departure(member, measured(evidence, one), verdicts(member, one, shares, busy))
        for member, one, shares in zip(members, evidence.departed, ways, strict=True)
    ]
    return Judged(gone, evidence, explained)


def verdicts(
    member: Member | MemberEntry, one: Departed, ways: Sequence[float], besides: str = ""
) -> tuple[CauseEntry, ...]:
    """Return the causes of one member, likeliest first; `besides`: what other members add to the sentence."""
    causes = STATIC_CAUSE_OF if one.static else CAUSE_OF
    ranked = sorted(((share, way) for way, share in enumerate(ways) if share >= _LEAST), reverse=True)
    return tuple(
        CauseEntry.of(
            member, causes[Way(way)], min(_CERTAIN, round(share, 2)), why_of(Way(way), one) + besides
        )
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


def kinds_by(
    each: Sequence[Sequence[CauseEntry]], departed: int, settings: DetectionSettings
) -> list[tuple[Kind, float] | None]:
    """Return the kind that the causes of each member, likeliest first, speak for, and how surely.

    Causes of one kind add up. None where that is less than the configured confidence. `departed`: how many
    members the record removed. One event removes many at once: where `MANY` departed, a kind that is sure
    enough of half of the members with the same likeliest cause is the kind of all of them.
    """
    kinds = [_kind_by(causes) for causes in each]
    likeliest = [causes[0].cause if causes else None for causes in each]
    sure = [kind is not None and kind[1] >= settings.attribution_confidence for kind in kinds]
    all_of, sure_of = Counter(likeliest), Counter(compress(likeliest, sure))
    shared = {cause for cause in sure_of if departed >= MANY and 2 * sure_of[cause] >= all_of[cause]}
    return [
        kind if enough or cause in shared else None
        for kind, enough, cause in zip(kinds, sure, likeliest, strict=True)
    ]


def _kind_by(causes: Sequence[CauseEntry]) -> tuple[Kind, float] | None:
    kind = KIND_OF.get(causes[0].cause) if causes else None
    if kind is None:
        return None
    share = sum(one.confidence for one in causes if KIND_OF.get(one.cause) is kind)
    return kind, min(round(share, 2), _CERTAIN)


def severity_of(kind: Kind, seen: Measured) -> Severity | None:
    """Return the severity of a member's finding, None for the kind's own.

    A client that sends no LeaveGroup expires after a planned stop too, so its expiry is no warning.
    """
    return Severity.INFO if kind is Kind.SESSION_TIMEOUT and not seen.goodbye else None


def numbers_of(seen: Measured, rebalance: str) -> Details:
    """Return the measured numbers, ms; `rebalance`: id of the finding whose causes contain the member's."""
    return {
        "silence_ms": seen.silence,
        "session_timeout_ms": seen.session,
        "rebalance_timeout_ms": seen.rebalance,
        "cadence_ms": seen.cadence,
        "rebalance": rebalance,
    }


def why_of(way: Way, one: Departed) -> str:
    """Say what was measured in one sentence, with the numbers that speak for this way."""
    text = _silence(one)
    if way is Way.STALLED:
        text += f"; {_interval(one)}"
    if way in {Way.UNJOINED, Way.UNSYNCED}:
        text += f"; rebalance timeout {seconds(one.rebalance)}"
    elif way is not Way.STALLED or one.static:
        text += f"; session timeout {seconds(one.session)}{ASSUMED * one.assumed}"
    if way is Way.DIED:
        text += _acknowledged(one)
    if one.trace.last >= 0 and one.usual >= 0:
        text += f"; commits every {seconds(one.usual)} until then"
    if one.unmoved and not one.static:
        text += "; its last commits made no progress"
        text += ", those of its siblings did" if one.unmoved > 1 else ""
    return text + _or_stopped(one) if way is Way.DIED and not one.static else text


def _silence(one: Departed) -> str:
    """Say for how long it had shown no work. A member that no commit re-arms is of an epoch-based group.

    Such a group has no join phase; its coordinator removes each member by itself.
    """
    if one.trace.last >= 0:
        ended = "the join phase ended" if one.rearms else "it was removed"
        return f"no commit for {seconds(one.trace.last)} before {ended}"
    if not one.rearms:
        text = f"no commit in the {seconds(one.since)} since it acknowledged its epoch"
        return text if one.rebalance else f"{text}: members of share groups make none on this topic"
    if one.family == CONNECT:
        return f"{seconds(one.since)} in the generation, in which a Connect worker commits nothing"
    return f"no commit in the {seconds(one.since)} that it was in the generation"


def _interval(one: Departed) -> str:
    """Say what its client enforces: most send it as their rebalance timeout."""
    if one.poll_interval:
        return f"max.poll.interval, as configured, {seconds(one.poll_interval)}"
    if not one.rebalance:
        return "its max.poll.interval is in no record"
    need_not = ", which need not be its max.poll.interval" * client_of(one).hides
    before = ", from its last poll on, which was before that commit" * (0 <= one.trace.last < one.rebalance)
    return f"rebalance timeout {seconds(one.rebalance)}{need_not or before}"


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
