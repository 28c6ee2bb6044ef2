"""Rolling restarts: every member leaves and comes back once, one after the other, and none is lost.

State keeps the restart while it goes on, because it may last longer than a storm's window. Its events no
longer count once it is complete: a roll-back that follows is another restart. These are no rolling restarts:

- the third one in a row
- one in which the group became empty
- one that leaves the group smaller than before: it may be stuck before its last member
- one in which a process lived on and came back: that was blocked, not restarted
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.finding import CLAIMED, MAJORITY, CauseEntry
from rebalance_monitor.coordinator.findings.kinds import Kind
from rebalance_monitor.coordinator.findings.wording import seconds
from rebalance_monitor.coordinator.state.roster import joined_before
from rebalance_monitor.coordinator.storms import crash_loops

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rebalance_monitor.coordinator.context import Scene
    from rebalance_monitor.coordinator.findings.finding import Details, Finding
    from rebalance_monitor.coordinator.state.group_state import GroupState, StormState
    from rebalance_monitor.coordinator.state.membership import Change

START_MS = 30_000
"""For this long after a group's first generation its members are still starting, ms."""

_REST_MS = 15_000
_LOOPS = 3
_RESTARTED = 2
_IN_A_ROW = 2
_AHEAD_MS = 60_000


class Code(StrEnum):
    """What a noted generation was."""

    RESTART = "r"
    LOST = "x"
    RETURN = "j"
    YOUNG = "y"
    AGAIN = "a"
    CYCLE = "c"
    SAME = "s"
    FAILED = "f"


AGAIN = frozenset({Code.AGAIN, Code.CYCLE})
YOUNG = AGAIN | {Code.YOUNG}
"""Losses of members that joined after the first loss of the window.

`AGAIN`: the member joined after the first `YOUNG` loss. `CYCLE`: it joined after the first `AGAIN` loss, so
it is the fourth loss in a row of replacements.
"""

LOSSES = YOUNG | {Code.RESTART, Code.LOST}
_CALM = frozenset({Code.RESTART, Code.RETURN, Code.FAILED})


def note_size(state: GroupState, scene: Scene, at: int) -> None:
    """Store how many members a restart from `at` (ms) on has to restart, unless one is under way.

    `state`: the group before the event at `at`; new members may have joined already.
    """
    storm, window, since = state.storm, scene.settings.storm_window_ms, _since(state, at)
    lost = (event[1] in LOSSES and int(event[0]) > at - window for event in storm.events)
    if storm.restarting < 0 or not any(lost):
        storm.size = joined_before(state, since)


def follow(storm: StormState, *, empty: bool) -> None:
    """Begin or end a restart by the newest event: a loss begins it, a disruptive event ends it.

    It also ends, unreported, if the group is `empty` now.
    """
    if empty or not all(event[1] in _CALM for event in storm.events):
        storm.restarting = -1
    elif storm.restarting < 0 and storm.events and storm.events[-1][1] == Code.RESTART:
        storm.restarting = int(storm.events[-1][0])


def note_lives(storm: StormState, causes: Iterable[CauseEntry]) -> None:
    """End a restart if the causes of a rebalance say of a member that its process lived on."""
    if any(one.cause is Cause.MEMBER_BLOCKED and one.confidence >= MAJORITY for one in causes):
        storm.restarting = -1


def forget(storm: StormState) -> None:
    """Forget a restart once the window holds none of its losses."""
    if all(event[1] not in LOSSES for event in storm.events):
        storm.restarting = -1


def was_job(state: GroupState, scene: Scene, at: int, causes: tuple[CauseEntry, ...]) -> bool:
    """Whether the group became empty at `at` (ms) because its work was done, or because it was stopped.

    It was if no cause but a clean leave is claimed; for an `always_on` group the clean leave must be claimed.
    An application that ends again and again as soon as it has started is in a loop, and was not stopped.
    """
    storm = state.storm
    rested, storm.stopped_at = state.started_at - storm.stopped_at, at
    storm.loops = storm.loops + 1 if at - state.started_at < START_MS and 0 <= rested < _REST_MS else 0
    surely = scene.settings.is_always_on(scene.group)
    claimed = {entry.cause for entry in causes if entry.confidence >= CLAIMED}
    said_goodbye = claimed == {Cause.MEMBER_LEFT} or not (surely or claimed)
    return said_goodbye and storm.loops < _LOOPS


def end_run(storm: StormState) -> None:
    """Start over after a group was stopped: its next members do not count as young."""
    storm.restarting = -1
    if not storm.incident:
        storm.events = [event for event in storm.events if event[1] == Code.FAILED]


def find_completed(state: GroupState, scene: Scene, at: int) -> list[Finding]:
    """Report a completed restart at `at` (ms): as many members as before, and all joined during it."""
    storm = state.storm
    began = storm.restarting
    removals = [event for event in storm.events if event[1] == Code.RESTART and int(event[0]) >= began]
    if began < 0 or began == storm.restart_at or len(removals) < _RESTARTED:
        return []
    since, enough = _since(state, began), max(_RESTARTED, storm.size)
    if len(state.members) < enough or joined_before(state, since):
        return []
    why = f"every member was replaced once within {seconds(at - began)}"
    cause, changed = Cause.MEMBER_LEFT, _changed_ids(state, began)
    if 2 * crash_loops.since(storm, began) >= len(state.members):
        cause = Cause.STATIC_MEMBER_EXPIRED if changed else Cause.SESSION_TIMEOUT
        why = f"{why}; the members expired instead of leaving"
    if changed:
        why += f"; {changed} of their instance ids did not come back: they change with every deployment"
    details: Details = {"restarted": len(state.members), "window_ms": at - began}
    if changed:
        details["changed_ids"] = changed
    found = scene.find(
        Kind.ROLLING_RESTART,
        state,
        at=at,
        evidence="suspected",
        confidence=0.8,
        causes=(CauseEntry(cause, 0.8, why),),
        details=details,
    )
    _complete(storm, at, scene.settings.storm_window_ms)
    return [found]


def _changed_ids(state: GroupState, began: int) -> int:
    """Count the instance ids that expired in the restart, where members came under others in their place."""
    there = {member.instance_id for member in state.members if member.instance_id is not None}
    gone = set(crash_loops.instances(state.storm, began))
    return len(gone) if there and not gone & there else 0


def _since(state: GroupState, began: int) -> int:
    """Return from when on (ms) members are new: a new member may join before the old one leaves.

    The members with which the group started are not new.
    """
    return min(began, max(began - _AHEAD_MS, state.started_at + START_MS))


def renewed(before: GroupState, change: Change, causes: tuple[CauseEntry, ...], at: int) -> bool:
    """Whether a generation at `at` (ms) replaced all members, after they had worked and left.

    A deployment does that to a group that is too small to be restarted one by one: its new member joins
    shortly before or after the old one leaves. `before`: the group as its last generation left it.
    """
    if change.left:
        now = [member for _, member in change.kept] + list(change.joined)
        old = max(member.joined_at for member in change.left)
        young = not change.replaced and all(member.joined_at >= at - _AHEAD_MS for member in now)
        return young and at - old > 2 * _AHEAD_MS and _said_goodbye(causes)
    empty = 0 <= at - before.empty.at <= _AHEAD_MS and before.empty.at - before.started_at > 2 * _AHEAD_MS
    return empty and _said_goodbye(
        CauseEntry(Cause(str(one)), float(share), "") for one, share in before.rebalances.causes
    )


def _said_goodbye(causes: Iterable[CauseEntry]) -> bool:
    said = {cause.cause for cause in causes if cause.confidence >= MAJORITY}
    return Cause.MEMBER_LEFT in said and said <= {Cause.MEMBER_LEFT, Cause.MEMBER_JOINED}


def _complete(storm: StormState, at: int, window_ms: int) -> None:
    soon = storm.restarted_at >= 0 and storm.restarting - storm.restarted_at <= window_ms
    storm.restarts = storm.restarts + 1 if soon else 1
    storm.restart_at, storm.restarted_at = storm.restarting, at
    if storm.restarts < _IN_A_ROW:
        storm.events = [event for event in storm.events if event[1] == Code.FAILED]
        storm.restarting = -1
