"""Static members that take the place of a process before them, under the same instance id.

Once is a restart, which is what static membership is for. Again and again is a process that crashes and is
restarted, or two processes with one `group.instance.id`: each fences the other. The record does not show
which, because its client id and host stay those of the first start.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.finding import CauseEntry
from rebalance_monitor.coordinator.findings.kinds import Kind, Severity
from rebalance_monitor.coordinator.findings.wording import seconds
from rebalance_monitor.coordinator.rebalance import report
from rebalance_monitor.coordinator.storms.crash_loops import add_occurrences

if TYPE_CHECKING:
    from rebalance_monitor.coordinator.context import Scene
    from rebalance_monitor.coordinator.findings.finding import Finding
    from rebalance_monitor.coordinator.state.group_state import GroupState, Member
    from rebalance_monitor.coordinator.state.membership import Change

WINDOW_MS = 900_000
AGAIN = 3
"""So many within the window are no restart any more."""
_KEPT = 20


def find_takeover(state: GroupState, scene: Scene, before: Member, now: Member) -> Finding:
    """Report that `now` took the place of `before` without a rebalance; again and again is a warning."""
    instance = now.instance_id or ""
    _note(state, [instance], scene.ts)
    times = state.storm.takeovers[instance]
    again = len(times) >= AGAIN
    why = (
        f"it came back {len(times)} times in {seconds(scene.ts - times[0])}: its process "
        "crashes and is started again, or another one has the same group.instance.id"
    )
    return scene.find(
        Kind.STATIC_MEMBER_REPLACED,
        state,
        at=scene.ts,
        member=now.member_id,
        members=(report.member_entry(now, "replaced"),),
        members_affected=1,
        severity=Severity.WARNING if again else None,
        causes=(CauseEntry.of(now, Cause.STATIC_MEMBER_REPLACED, 1.0, why),) if again else (),
        details={
            "instance_id": instance,
            "previous_member_id": before.member_id,
            "times": len(times),
            "window_ms": WINDOW_MS,
        },
    )


def flapping(state: GroupState, change: Change, at: int) -> Member | None:
    """Note the static members replaced in a rebalance that ended at `at` (ms); return one that flaps."""
    _note(state, [now.instance_id or "" for _, now in change.replaced], at)
    again = [now for _, now in change.replaced if len(state.storm.takeovers[now.instance_id or ""]) >= AGAIN]
    return again[-1] if again else None


def _note(state: GroupState, instances: list[str], at: int) -> None:
    state.storm.takeovers = add_occurrences(state.storm.takeovers, instances, at, WINDOW_MS, _KEPT)
