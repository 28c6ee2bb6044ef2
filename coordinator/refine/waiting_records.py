"""Whether departed members had anything to commit, by the ends of their topics.

The operator sends some partitions of each departed member with the offsets that it committed last
(`Departed.places`). The ends say when the record after them came. Until then the member had nothing to
commit, so its silence says nothing; from then on it should have committed. Where no record came, none of the
silence says anything. Nor did any come for it while nothing waits for its whole group. Ends are sampled every
few seconds: of the time after the newest sample nothing is known. If that is shorter than its usual commit
interval, a member that lived would have been as silent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from msgspec.structs import replace

from rebalance_monitor.coordinator.departure.evidence import HAD_WORK, MAYBE_WORK, NO_WORK, SAME_PLACE
from rebalance_monitor.coordinator.findings.wording import seconds

if TYPE_CHECKING:
    from rebalance_monitor.coordinator.departure.evidence import Departed, Evidence

_SOON_MS = 10_000
"""Ends are sampled at least so often, unless groups consume very many partitions."""

_ALL_ALONG_MS = 100
"""A record that waits so soon after its last commit was there before."""


class Ends(Protocol):
    """What is asked of the ends of topics (`lag/board.py`)."""

    def next_at(self, topic: str, partition: int, offset: int, since: int) -> int | None:
        """Return when (ms) a record came to a position that was committed at `since`.

        None if not known; negative where it had not come then.
        """

    def apart(self, topic: str, partition: int, begin: int, end: int) -> int:
        """Return how far apart (ms) records came from `begin` to `end`, 0 where not known."""

    def quiet_at(self, group: str) -> int | None:
        """Return when (ms) nothing waited for a group, if that is so at the newest sample."""


def with_work(one: Departed, ended: int, owned: int, ends: Ends, group: str) -> Departed:
    """Return the member of `group` with what the ends say of its work before `ended` (ms).

    `owned`: how many partitions it had. One that commits unchanged offsets again needs no record to commit;
    where none waited, that its offsets did not move says nothing.
    """
    if one.work != MAYBE_WORK or not one.places or (one.trace.idle and not one.unmoved):
        return one
    since = ended - one.last_active
    times = [ends.next_at(topic, number, offset, since) for topic, number, offset in one.places]
    known = [at for at in times if at is not None]
    waited = [at for at in known if 0 <= at <= ended]
    if one.trace.idle:
        until = min(waited, default=_none_until(known, owned, ends, group))
        return one if until is None or ended - until >= one.session else replace(one, unmoved=0)
    if waited:
        # Its coordinator may have been away for longer than no record waited.
        lull = max(one.lull, min(waited) - since)
        return replace(one, work=HAD_WORK, lull=lull, usual_lull=_usual_lull(one, since, ends))
    until = _none_until(known, owned, ends, group)
    if until is None:
        return one
    if ended - until < _unsuspicious(one):
        return replace(one, work=NO_WORK)
    return replace(one, lull=max(one.lull, until - since), usual_lull=_usual_lull(one, since, ends))


def _none_until(known: list[int], owned: int, ends: Ends, group: str) -> int | None:
    """Return until when (ms) no record had waited; None if that is not known."""
    return min(map(abs, known)) if len(known) == owned else ends.quiet_at(group)


def _usual_lull(one: Departed, since: int, ends: Ends) -> int:
    """Return how far apart (ms) records came before `since`, in its slowest partition."""
    begin = since - sum(one.trace.gaps)
    spans = (ends.apart(topic, number, begin, since) for topic, number, _ in one.places)
    return max(spans, default=0) if one.trace.gaps else 0


def _unsuspicious(one: Departed) -> int:
    """Return for how long (ms) it may be silent while records wait, as it usually is; 1 where not known."""
    usual = sorted(one.trace.gaps)
    return max(1, min(usual[len(usual) // 2], _SOON_MS)) if usual else 1


def with_stalls(evidence: Evidence) -> Evidence:
    """Return the evidence with who lived on without its application.

    Whoever rejoins an eager group commits nothing until the phase is over, and its last commit came up to an
    interval before. One that its process has replaced did not rejoin.
    """
    if evidence.phase[1] < 0:
        return evidence
    least, most = (0, 0) if evidence.cooperative else evidence.phase
    stalled = []
    for one in evidence.departed:
        gap = max(one.trace.gaps, default=0)
        silent = one.work == HAD_WORK and one.last_active - one.lull > 2 * one.session + gap
        waited = one.last_active < (least if one.returned == SAME_PLACE else most + gap)
        stalled.append(silent and not waited and one.rearms and one.anew < 0)
    if not any(stalled):
        return evidence
    marked = zip(evidence.departed, stalled, strict=True)
    return replace(evidence, departed=tuple(replace(one, lived_on=was) for one, was in marked))


def describe(one: Departed, since: str) -> str:
    """Say what the ends have shown, "" where nothing; `since`: its last sign of work, in words."""
    if not one.places:
        return ""
    if one.work == HAD_WORK:
        if 0 <= one.last_active - one.lull <= one.loaded:
            # The outage is said by itself.
            return ""
        if one.lull < _ALL_ALONG_MS:
            return "; records waited for it all that time"
        return f"; records waited for it from {seconds(one.lull)} after {since} on"
    return "; no record waited for it" if one.work == NO_WORK else ""
