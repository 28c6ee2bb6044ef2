"""What time decides about a group: one table of detectors, with when each is due and what it reports then.

The clock row of a batch wakes a group when its earliest detector is due. Each detector reports the deadlines
that have passed by then. Only records set deadlines anew. A group that is not due costs nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from rebalance_monitor.coordinator.checks import unsubscribed_topics
from rebalance_monitor.coordinator.deadlines import not_rejoined, silent_members, stuck_rebalances
from rebalance_monitor.coordinator.lifecycle import empty_groups
from rebalance_monitor.coordinator.rebalance.baselines import CLASSIC
from rebalance_monitor.coordinator.state.group_state import NEVER
from rebalance_monitor.coordinator.state.state_machine import Status
from rebalance_monitor.coordinator.storms import storm

if TYPE_CHECKING:
    from collections.abc import Callable

    from rebalance_monitor.coordinator.context import Scene
    from rebalance_monitor.coordinator.deadlines.silent_members import Watched
    from rebalance_monitor.coordinator.findings.finding import Finding
    from rebalance_monitor.coordinator.settings import DetectionSettings
    from rebalance_monitor.coordinator.state.group_state import GroupState


@dataclass(frozen=True, slots=True)
class Moment:
    """One group at one clock row.

    `now`: the clock (ms). `live_since`: clock (ms) at which the shard's catching up ended; no deadline counts
    from before it. `shard_ts`: time (ms) of the newest record of the shard. `ahead`: members whose silence
    means something, each with its next deadline.
    """

    state: GroupState
    scene: Scene
    now: int
    live_since: int
    shard_ts: int
    ahead: Watched


class Detector(NamedTuple):
    """`due`: earliest clock (ms) at which `report` may have a finding, `NEVER` if there is none ahead."""

    name: str
    due: Callable[[Moment], int]
    report: Callable[[Moment], list[Finding]]


def moment(state: GroupState, scene: Scene, now: int, live_since: int, shard_ts: int) -> Moment:
    """Return the group's moment at `now` (ms)."""
    return Moment(state, scene, now, live_since, shard_ts, silent_members.watch_list(state, live_since))


def report(at: Moment) -> list[Finding]:
    """Return what has passed by the clock, in the order of the table."""
    return [finding for detector in DETECTORS for finding in detector.report(at)]


def due(at: Moment) -> int:
    """Return the earliest clock (ms) at which a detector, or the group's summary, is due."""
    return min(detector.due(at) for detector in DETECTORS)


def quiet_until(state: GroupState, settings: DetectionSettings) -> int:
    """Return a clock (ms) before which no detector is due, -1 where only the table can say.

    In a stable classic group with nothing open, all deadlines follow the last commits of its members, the
    nearest after half a session timeout. Most groups that are woken have committed since they were judged.
    """
    goes_on = state.group_type == CLASSIC and state.status == Status.STABLE and not state.dirty
    stuck = state.stuck
    if not goes_on or stuck.suspected or stuck.incident or state.checks.unsubscribed:
        return -1
    if storm.is_open(state.storm):
        return -1
    last, session = NEVER, NEVER
    for member in state.members:
        if member.silent_id:
            return -1
        if member.commits and member.last_commit < last:
            last = member.last_commit
        session = min(session, member.session_timeout)
    return -1 if last == NEVER else last + min(session // 2, not_rejoined.quiet_ms(state, settings))


def _storm_ends(at: Moment) -> int:
    settings = at.scene.settings
    return storm.wake(at.state, settings.storm_quiet_ms, settings.grace_ms)


def _summary_due(at: Moment) -> int:
    settings = at.scene.settings
    own = at.state.last_summary + settings.summary_interval_ms if at.state.dirty else NEVER
    return min(own, not_rejoined.due(at.state, settings, at.now))


DETECTORS = (
    Detector("storm", _storm_ends, lambda at: storm.announce(at.state, at.scene, at.now)),
    Detector(
        "silent member",
        lambda at: silent_members.due(at.state, at.scene.settings, at.now, at.ahead),
        lambda at: silent_members.on_clock(at.state, at.scene, at.now, at.ahead, at.shard_ts),
    ),
    Detector(
        "empty group",
        lambda at: empty_groups.due(at.state, at.scene.settings),
        lambda at: empty_groups.on_clock(at.state, at.scene, at.now),
    ),
    Detector(
        "unsubscribed topic",
        lambda at: unsubscribed_topics.due(at.state, at.scene.settings),
        lambda at: unsubscribed_topics.on_clock(at.state, at.scene, at.now),
    ),
    Detector(
        "stuck rebalance",
        lambda at: stuck_rebalances.due(at.state, at.scene.settings, at.live_since),
        lambda at: stuck_rebalances.on_clock(at.state, at.scene, at.live_since, at.shard_ts),
    ),
    # A summary is no finding: the shard's coordinator makes it.
    Detector("summary", _summary_due, lambda _: []),
)
