"""What looks of the probe tell of one member that went: how long it had been silent by then.

Lists of members tell it of each. The start of the barrier tells it of the one whose going began it, which of
several, or where others came, is only known where its silence fits: the rest went inside.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from rebalance_monitor.coordinator.commits.client_families import heartbeat_of
from rebalance_monitor.coordinator.departure.attribution import attribute
from rebalance_monitor.coordinator.departure.measured import Silence, first_end
from rebalance_monitor.coordinator.departure.windows import LATE_MS, heartbeat
from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.finding import join_end
from rebalance_monitor.coordinator.findings.wording import seconds

if TYPE_CHECKING:
    from rebalance_monitor.coordinator.findings.finding import Finding
    from rebalance_monitor.coordinator.refine.listed_members import Listed

    Shares = list[tuple[Cause, float]]

LOOKED = "looks of the probe saw the barrier begin"
LISTED = "looks of the probe saw it gone"
"""What the sentence of a cause says that was judged again: by the start of the barrier, by lists."""

_SLACK_MS = 200
"""How far the clocks of brokers and monitor may differ, and how long a look takes, ms."""

# No limit of it had passed when it was gone; an administrator's request is no other than its own.
_GONE_BEFORE = 0.85
# It may have died just then.
_REJOINED = 0.75
# One killed and back within a second may have begun the barrier just then, but hardly later than this.
_BACK_AT_ONCE, _AT_ONCE_MS = 0.8, 2_200


class Span(NamedTuple):
    """For how long, at `least` and at `most` (ms), a member had been silent when it went."""

    least: int
    most: int


def by_lists(rebalance: Finding, seen: Silence, listed: Listed) -> tuple[Shares, str] | None:
    """Judge with the silence that the member had when lists show it to have gone; None where they do not."""
    ended = join_end(rebalance)
    span = _span(seen, ended - listed.most, ended - listed.least)
    if span.most < 0 or (span.most >= first_end(seen) and span.most - span.least > seen.session):
        return None
    found = attribute(_then(seen, span))
    if found[0][0] is Cause.UNKNOWN:
        # A limit may have ended that much earlier than commits tell: these may be within transactions.
        if span.most >= first_end(seen) - heartbeat_of(seen.session) or not seen.goodbye:
            return None
        found = _likely_left(_GONE_BEFORE)
    return found, f"; {LISTED} {_told(span)}"


def by_start(rebalance: Finding, seen: Silence, name: str) -> tuple[Shares, str] | None:
    """Judge with the silence that the member had when the barrier began; None where looks tell nothing.

    Where no limit had passed by then it began it by leaving, or another one did and it went inside: so it is
    where the barrier waited, after all that stayed had rejoined, for one that went. Nor does the start tell
    that the member `name` left where it fits that the session of another one ended then.
    """
    least, most = rebalance.join_ms_min, rebalance.join_ms_max
    if least is None or most is None:
        return None
    span, first = _span(seen, least, most), first_end(seen)
    expired = _another_expired(rebalance, name, least)
    if -heartbeat(seen) <= span.most < 0 and not (expired or _was_waited_for(rebalance, seen)):
        # It rejoined, and no session ends while one waits; or it committed as it closed.
        return _likely_left(_REJOINED), f"; {LOOKED} {seconds(-span.most)} at least before its last commit"
    if span.most < 0 or (span.most >= first and most - least > seen.session):
        return None
    found = attribute(_then(seen, span))
    if found[0][0] is Cause.UNKNOWN:
        return None
    if span.most < first:
        late = seen.crowded and span.most > _AT_ONCE_MS
        if found[0][0] is not Cause.MEMBER_LEFT or late or expired or _was_waited_for(rebalance, seen):
            return None
        if seen.returned:
            found = [(cause, min(share, _BACK_AT_ONCE)) for cause, share in found]
    return found, f"; {LOOKED} {_told(span)}"


def _another_expired(rebalance: Finding, name: str, least: int) -> bool:
    """Whether another one that went had been silent for its session when the barrier began, `least` ago."""
    return any(
        (one.silence_ms or 0) - least + _SLACK_MS >= (one.session_timeout_ms or 0)
        for one in rebalance.members
        if one.role == "left" and one.member_id != name
    )


def _span(seen: Silence, least: int, most: int) -> Span:
    """Return its silence when it went, `least` to `most` ms before the end of the barrier."""
    return Span(max(0, seen.silence - most - _SLACK_MS), seen.silence - least + _SLACK_MS)


def _likely_left(share: float) -> Shares:
    return [(Cause.MEMBER_LEFT, share), (Cause.UNKNOWN, round(1 - share, 2))]


def _then(seen: Silence, span: Span) -> Silence:
    return replace(
        seen,
        silence=span.most,
        wait=span.most - span.least,
        elapsed=max(0, seen.elapsed - (seen.silence - span.most)),
        held=0,
        halted=0,
    )


def _told(span: Span) -> str:
    return f"{seconds(span.least)} to {seconds(span.most)} into its silence"


def _was_waited_for(rebalance: Finding, seen: Silence) -> bool:
    """Whether the barrier waited for one that went: those that stayed had rejoined long before its end.

    So it is where nobody stayed; where none of them tells, the return of one that is back may have begun it.
    """
    if all(member.role != "kept" for member in rebalance.members):
        return True
    if seen.rejoined is None:
        return seen.crowded and seen.busy is None
    return seen.rejoined.least - seen.rejoined.apart > heartbeat(seen) + LATE_MS
