"""Silence that an outage explains: no broker answered, or a coordinator was reloaded meanwhile.

A reload gives every member a fresh session. While no coordinator was there, no member could commit.

- If the operator has sent its evidence, the outage is added to it (`with_reload`) and the model judges.
- Silences, history and static members of epoch-based groups are judged without it: only the part of a silence
  after the reload counts. A whole session timeout of it is an expired session, for the coordinator that loads
  a group gives each member a full one (`onGroupLoaded`; in the Java coordinator `onLoaded`). Less is no
  proof, and an exceeded poll interval cannot be recognised at all: such a finding is withdrawn, and such a
  cause of a rebalance is as likely as it is before anything is known (`excuse`).

Commits in the midst of the time without answers show that only the monitor could not reach the brokers.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace as changed

from rebalance_monitor.coordinator.departure.fitted import FITTED
from rebalance_monitor.coordinator.departure.hypotheses import Way, shares_of_ways
from rebalance_monitor.coordinator.departure.timers import LOADED_LATE_MS as SLACK_MS
from rebalance_monitor.coordinator.departure.verdicts import KIND_OF
from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.finding import join_end
from rebalance_monitor.coordinator.findings.kinds import Kind
from rebalance_monitor.coordinator.findings.wording import seconds
from rebalance_monitor.coordinator.probe.broker_outages import is_in_the_midst

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from rebalance_monitor.coordinator.departure.evidence import Departed
    from rebalance_monitor.coordinator.findings.finding import CauseEntry, Finding, MemberEntry
    from rebalance_monitor.coordinator.probe.sample import ProbeSample

# One sample may fail for reasons of the monitor's own.
_LOOKS = 2
_SHARES = shares_of_ways((), FITTED)
_UNPROVEN = {
    Cause.SESSION_TIMEOUT: round(_SHARES[Way.DIED], 2),
    Cause.STATIC_MEMBER_EXPIRED: round(_SHARES[Way.DIED], 2),
    Cause.POLL_INTERVAL_EXCEEDED: round(_SHARES[Way.STALLED], 2),
}
# A join phase that its deadline ended was begun after a reload: that forgets the one before.
_TIMEOUTS = frozenset(KIND_OF) - {Cause.JOIN_DEADLINE_MISSED}
_STATIC = frozenset({Cause.STATIC_MEMBER_EXPIRED})


class Reach:
    """Remembers samples that no broker answered; `state` is what `snapshot` returned, None for a new start.

    A probe without an answer for a whole window, or ever, knows of no outage.
    """

    def __init__(self, state: Mapping[str, Any] | None = None) -> None:
        memory = state or {}
        self.away: list[int] = list(memory.get("away", ()))
        self._answered: int = int(memory.get("answered", -1))

    def snapshot(self) -> dict[str, Any]:
        """JSON-able memory for the ledger."""
        return {"away": self.away, "answered": self._answered}

    def on_sample(self, look: ProbeSample, since: int) -> None:
        """Take a sample; forget what is older than `since` (ms)."""
        self.away = [at for at in self.away if at > since]
        if any(answered for _, answered in look.brokers):
            self._answered = look.at
        elif self._answered > max(since, 0):
            self.away.append(look.at)

    def serve(self, times: Collection[int], looks: Sequence[int]) -> None:
        """Forget absences in whose midst a client was served at one of `times` (ms); `looks`: all samples."""
        away = set(self.away)
        for is_away, run in groupby(looks, away.__contains__):
            absence = list(run) if is_away else []
            if any(is_in_the_midst(at, absence[0], absence[-1]) for at in times if absence):
                away.difference_update(absence)
        self.away = sorted(away)


def with_reload(one: Departed, ended: int, away: Sequence[int], moved_at: int) -> Departed:
    """Return a departed member with what an outage in its silence, before `ended` (ms), says of it.

    `away`, `moved_at` as of `excuse`. What happened after its removal says nothing.
    """
    began, gone = ended - one.alive, ended - max(one.removed[0], 0)
    moved = began < moved_at <= gone
    last = moved_at if moved else _reloaded(began, gone, away, -1)
    if last < 0:
        return one
    loaded = ended - last
    # It may have worked until its coordinator was away; one that had stopped before could have committed.
    began = ended - min([at for at in away if ended - one.last_active < at <= last], default=last)
    worked = one.last_active <= began + 2 * max(one.usual, 0) + SLACK_MS
    lull = max(one.lull, (one.last_active - loaded) * worked)
    return changed(one, loaded=loaded, lull=lull, unanswered=not moved)


def with_pause(one: Departed, ended: int, woke: int) -> Departed:
    """Return a departed member silent since before its broker `woke` (ms), with what that says of it.

    A session that cannot have run out by then says nothing, nor does what happened after its removal.
    """
    after = max(0, ended - woke)
    ran_out = one.alive - after >= one.session - SLACK_MS
    return changed(one, woke=after) if ran_out and after >= one.removed[0] else one


def _reloaded(began: int, ended: int, away: Sequence[int], moved_at: int) -> int:
    """Return when (ms) its coordinator was last seen away, or to have moved, in a silence; -1 for never."""
    unanswered = [at for at in away if began < at <= ended]
    marks = unanswered if len(unanswered) >= _LOOKS else []
    return max((at for at in (*marks, moved_at) if began < at <= ended), default=-1)


def excuse(finding: Finding, away: Sequence[int], moved_at: int) -> Finding | None:
    """Return the finding with the confidence that an outage leaves it, None if it is withdrawn.

    `away`: samples that no broker answered; `moved_at`: the last move of the group's coordinator in samples,
    -1 for none; all in ms.
    """
    weighed = _unjudged(finding)
    if not weighed or (not away and moved_at < 0):
        return finding
    silences = {member.member_id: member for member in finding.members if member.silence_ms is not None}
    causes = tuple(
        _weighed(finding, entry, silences, away, moved_at) if entry.cause in weighed else entry
        for entry in finding.causes
    )
    if causes == finding.causes:
        return finding
    ranked = tuple(sorted(causes, key=lambda entry: -entry.confidence))
    if finding.kind not in KIND_OF.values():
        return replace(finding, causes=ranked)
    said = [entry.confidence for entry in causes if KIND_OF.get(entry.cause) is finding.kind]
    best = max(said, default=0.0)
    return None if best <= max(_UNPROVEN.values()) else replace(finding, causes=ranked, confidence=best)


def _unjudged(finding: Finding) -> frozenset[Cause]:
    """Return the causes that the departure model has not judged with what samples add."""
    if finding.kind is Kind.MEMBER_SILENT or finding.history:
        return _TIMEOUTS
    return frozenset() if finding.group_type == "classic" else _STATIC


def _weighed(
    finding: Finding,
    entry: CauseEntry,
    silences: dict[str, MemberEntry],
    away: Sequence[int],
    moved_at: int,
) -> CauseEntry:
    member = silences.get(entry.member_id or "")
    if member is None or member.silence_ms is None:
        return entry
    ended = join_end(finding)
    began = ended - member.silence_ms
    last = _reloaded(began, ended, away, moved_at)
    if last < 0:
        return entry
    after = ended - last
    session = member.session_timeout_ms
    expired = session is not None and after >= session - SLACK_MS
    if session is None or entry.cause is Cause.POLL_INTERVAL_EXCEEDED or not expired:
        why = f"{entry.why}; but the brokers were away, or its coordinator moved, {seconds(after)} before"
        return replace(entry, confidence=min(entry.confidence, _UNPROVEN[entry.cause]), why=why)
    why = f"silent since its coordinator was reloaded {seconds(after)} before; session timeout "
    why += seconds(session)
    return replace(entry, why=why)
