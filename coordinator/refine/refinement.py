"""What probe samples add to a finding that records or the clock decided; ids never change.

A join phase began after the last sample that does not show the group rebalancing, and before the first that
does. A coordinator that moved gives every member a fresh session. So a silence that began before the move is
no evidence until a whole session timeout has passed after it.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import pairwise
from typing import TYPE_CHECKING

from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.finding import CauseEntry, Finding, join_end
from rebalance_monitor.coordinator.findings.kinds import Kind
from rebalance_monitor.coordinator.findings.wording import counted, seconds
from rebalance_monitor.decoders.layouts.twins import replace

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rebalance_monitor.coordinator.refine.history import LookBack

LOOKED_MS = 3_000
"""A sample this close to a finding would show a move that caused it, ms."""

_CLOCKS_MS = 500
"""How far the clocks of brokers and monitor may differ, ms."""

AFTER_MOVE_MS = 30_000
"""A rebalance among the same members this soon after a move is most likely caused by it."""

# One sample may fail for reasons of the monitor's own.
_AWAY_LOOKS = 2
_SAME = frozenset({Cause.LEADER_REJOINED, Cause.COORDINATOR_MOVED, Cause.UNKNOWN})


def refine(finding: Finding, samples: LookBack, moved_at: int) -> Finding:
    """Return the finding with what samples of its group add, and its coordinator's move (ms, -1: never)."""
    if finding.kind is not Kind.REBALANCE:
        return finding
    refined = _moved(_over_capacity(bounded(finding, samples), moved_at), moved_at, samples)
    return _name_short_lived_member(refined, samples.listed)


def is_excused(finding: Finding, moved_at: int) -> bool:
    """Whether it is a silence of less than a session since the coordinator was seen to have moved (ms).

    That of a member alone in its group may have been the coordinator's own, before it moved.
    """
    if finding.kind is not Kind.MEMBER_SILENT or finding.phase == "resolved" or moved_at < 0:
        return False
    late = finding.at >= moved_at or finding.members_total == 1
    return late and finding.at < moved_at + session_of(finding)


def session_of(finding: Finding) -> int:
    """Return which timeout (ms) of a member that is silent begins anew with its coordinator."""
    name = "rebalance" if finding.details.get("deadline") == "rebalance" else "session"
    return int(finding.details.get(f"{name}_timeout_ms", 0))


def bounded(finding: Finding, samples: LookBack, since: int | None = None) -> Finding:
    """Return a rebalance with the bounds that samples of its group put on its join phase.

    `since`: when (ms) the record before that of a group without members was written.
    """
    ended, low, high = join_end(finding), finding.started_at_min, finding.started_at_max
    if finding.kind is Kind.GROUP_EMPTY:
        low, high = since, ended
    elif finding.sync_ms is None:
        return finding
    if low is None or high is None:
        return finding
    seen = [at for at in samples.sightings if low < at <= ended]
    if seen:
        # The last time only: a clock that is ahead shows the join phase before this one too.
        without = [at for at in samples.answered if at < seen[-1] and at not in samples.sightings]
        before = max(without, default=low)
        first = next(at for at in seen if at > before)
        low, high = max(low, before), min(high, samples.end(first))
    else:
        lasted = _longest_between_samples(ended, samples)
        if lasted is None or lasted >= ended - low:
            return finding
        low = ended - lasted
    return replace(
        finding,
        started_at_min=low,
        started_at_max=high,
        join_ms_min=max(0, ended - high),
        join_ms_max=max(0, ended - low),
    )


def _longest_between_samples(ended: int, samples: LookBack) -> int | None:
    """Return the longest join phase (ms) that no sample shows: the longest time between two samples."""
    times = samples.answered
    first = bisect_right(times, ended - _CLOCKS_MS) - 1
    near = times[max(first, 0) : bisect_right(times, ended + _CLOCKS_MS) + 1]
    if first < 0 or any(at in samples.sightings for at in near):
        return None
    apart = (samples.end(after) - before for before, after in pairwise(near))
    return max(*apart, ended + _CLOCKS_MS - near[-1], 0)


def _over_capacity(finding: Finding, moved_at: int) -> Finding:
    """Add what a coordinator does to a classic group that it loads with more members than it allows."""
    soon = moved_at >= 0 and 0 <= finding.at - moved_at <= AFTER_MOVE_MS
    if not soon or finding.group_type != "classic":
        return finding
    gone = [member for member in finding.members if member.role == "left"]
    active = [m for m in gone if m.silence_ms is not None and 2 * m.silence_ms < (m.session_timeout_ms or 0)]
    if not active or any(member.role == "joined" for member in finding.members):
        return finding
    why = f"{counted(len(active), 'active member')} removed {seconds(finding.at - moved_at)} after the "
    why += "coordinator moved: compare group.max.size"
    return replace(finding, causes=(*finding.causes, CauseEntry(Cause.GROUP_OVER_CAPACITY, 0.3, why)))


def _name_short_lived_member(finding: Finding, listed: Mapping[str, int]) -> Finding:
    """Claim no cause of a rebalance among the same members that one that no record has took part in.

    Nor that the coordinator moved, unless samples show it.
    """
    if not listed:
        return finding
    ended = join_end(finding)
    since = -1 if finding.started_at_min is None else finding.started_at_min
    known = {member.member_id for member in finding.members}
    strangers = [name for name, at in listed.items() if name not in known and since < at <= ended]
    if not strangers or len(known) < (finding.members_total or 0) or not among_the_same(finding.causes):
        return finding
    why = f"the probe saw {counted(len(strangers), 'member')} in the join phase that no record has"
    moved = finding.causes[0].cause is Cause.COORDINATOR_MOVED
    unlikely = {Cause.LEADER_REJOINED, Cause.COORDINATOR_MOVED} if moved else {Cause.LEADER_REJOINED}
    rest = (replace(entry, confidence=0.2) for entry in finding.causes if entry.cause in unlikely)
    return replace(finding, causes=(CauseEntry(Cause.UNKNOWN, 0.55, why), *rest))


def among_the_same(causes: tuple[CauseEntry, ...]) -> bool:
    """Whether nothing but that the members are the same speaks for these causes of a rebalance."""
    named = [entry.cause for entry in causes]
    return Cause.LEADER_REJOINED in named and named[0] in _SAME


def _moved(finding: Finding, moved_at: int, samples: LookBack) -> Finding:
    """Distinguish a move or reload of the coordinator from a member's request, if samples surround it."""
    if not among_the_same(finding.causes):
        return finding
    # A sample shows a move some time after it, so the record may come between.
    if moved_at >= 0 and -LOOKED_MS <= finding.at - moved_at <= AFTER_MOVE_MS:
        return _by_coordinator(finding, 0.85, moved_at, "their coordinator moved")
    away = _away(finding, samples)
    if len(away) >= _AWAY_LOOKS:
        # Not every restart steps the leader epoch: under ZooKeeper none does.
        return _by_coordinator(
            finding,
            0.7,
            away[-1],
            f"their coordinator had left {counted(len(away), 'probe request')} unanswered",
        )
    looked = any(abs(finding.at - at) <= LOOKED_MS for at in samples.led)
    return _unmoved(finding) if looked else finding


def _away(finding: Finding, samples: LookBack) -> list[int]:
    """Return the last consecutive samples that its coordinator did not answer, as during a restart.

    The coordinator had answered before, and no earlier sample shows the join phase.
    """
    before = [at for at in samples.away if finding.at - AFTER_MOVE_MS <= at <= finding.at]
    if not before:
        return []
    since = max((at for at in samples.heard if at < before[-1]), default=-1)
    began = finding.at if finding.started_at_max is None else finding.started_at_max
    away = [at for at in before if at > since]
    return away if since >= 0 and began >= away[0] else []


def _by_coordinator(finding: Finding, confidence: float, since: int, what: str) -> Finding:
    rest = tuple(
        replace(entry, confidence=0.1)
        for entry in finding.causes
        if entry.cause not in {Cause.COORDINATOR_MOVED, Cause.UNKNOWN}
    )
    why = f"same members {seconds(finding.at - since)} after {what}"
    return replace(finding, causes=(CauseEntry(Cause.COORDINATOR_MOVED, confidence, why), *rest))


def _unmoved(finding: Finding) -> Finding:
    """By the samples nothing moved: a member asked for it, or generations failed for an unknown reason."""
    kept = tuple(entry for entry in finding.causes if entry.cause is not Cause.COORDINATOR_MOVED)
    if finding.causes[0].cause is not Cause.LEADER_REJOINED:
        return replace(finding, causes=kept) if finding.causes[0].cause is Cause.UNKNOWN else finding
    why = kept[0].why + "; its coordinator did not move"
    return replace(finding, causes=(replace(kept[0], confidence=0.85, why=why),))
