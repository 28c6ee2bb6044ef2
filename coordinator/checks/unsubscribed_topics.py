"""Topics that a classic group no longer subscribes to: their offsets expire while it lives (KIP-211).

If no member of a Stable group subscribes to a topic, the coordinator drops its offsets once the retention has
passed since their commit. When a generation no longer asks for a topic whose partitions were assigned, the
last commit of their owners is stored. A commit request holds the partitions that moved, so single partitions
may expire sooner, never later.

`offsets_expiring` opens once, `offsets_expiring_ms` before the expiry. It resolves when a member subscribes
again, when the offsets' tombstones arrive (for a deleted topic at once), or when the expiry has passed.
Groups are judged only if all subscriptions can be read. KIP-848 groups name topics by id, and empty groups
lose all offsets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rebalance_monitor.coordinator.findings.finding import deadline_anchor, end_of
from rebalance_monitor.coordinator.findings.kinds import Kind
from rebalance_monitor.coordinator.state.group_state import NEVER
from rebalance_monitor.coordinator.state.state_machine import Status
from rebalance_monitor.decoders import decode_record

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from rebalance_monitor.coordinator.context import Scene
    from rebalance_monitor.coordinator.findings.finding import Finding
    from rebalance_monitor.coordinator.settings import DetectionSettings
    from rebalance_monitor.coordinator.state.group_state import GroupState

MAX_TOPICS = 20
_SWEEP_MS = 600_000


def note(before: GroupState, state: GroupState, asked: AbstractSet[str], scene: Scene) -> list[Finding]:
    """Compare the topics that a generation has `asked` for with those that the one before was assigned."""
    again = sorted(state.checks.unsubscribed.keys() & asked)
    found = [one for topic in again for one in forget(state, scene, topic, "withdrawn")]
    for topic, last in _commits(before).items():
        if topic not in asked and last >= 0 and len(state.checks.unsubscribed) < MAX_TOPICS:
            state.checks.unsubscribed[topic] = [last, ""]
    return found


def forget(state: GroupState, scene: Scene, topic: str, resolution: str) -> list[Finding]:
    """Forget a topic, and resolve its incident."""
    last, incident = state.checks.unsubscribed.pop(topic, (-1, ""))
    if not incident:
        return []
    incident = str(incident)
    return [_expiry_finding(state, scene, topic, int(last), scene.ts, end_of(incident), incident, resolution)]


def on_tombstone(state: GroupState, scene: Scene, key: bytes) -> list[Finding]:
    """Take the tombstone of an offset: it ends the incident of its topic, or is kept for an empty group."""
    if not state.members:
        state.empty.dropped_at = scene.ts
    if not state.checks.unsubscribed:
        return []
    return forget(state, scene, str(getattr(decode_record(key, None).key, "topic", "")), "expired")


def close(state: GroupState, scene: Scene, resolution: str) -> list[Finding]:
    """Resolve all incidents: the group is removed."""
    topics = list(state.checks.unsubscribed)
    return [found for topic in topics for found in forget(state, scene, topic, resolution)]


def due(state: GroupState, settings: DetectionSettings) -> int:
    """Earliest clock (ms) at which `on_clock` may have something to say; 2**63 - 1 if none."""
    if state.status != Status.STABLE:
        return NEVER
    keep, ahead = settings.offsets_retention_ms, settings.offsets_expiring_ms
    noted = state.checks.unsubscribed.values()
    ends = (int(last) + keep + (_SWEEP_MS if incident else -ahead) for last, incident in noted)
    return min(ends, default=NEVER)


def on_clock(state: GroupState, scene: Scene, now: int) -> list[Finding]:
    """Open the incidents of topics whose offsets are about to expire at `now`; resolve the expired ones."""
    if now < due(state, scene.settings):
        return []
    keep, ahead = scene.settings.offsets_retention_ms, scene.settings.offsets_expiring_ms
    found = []
    for topic, (last, incident) in list(state.checks.unsubscribed.items()):
        end = int(last) + keep
        if now >= end + _SWEEP_MS:
            found += forget(state, scene, topic, "expired")
        elif now >= end - ahead and not incident:
            at = end - ahead
            anchor = deadline_anchor(0, topic, at)
            opened = _expiry_finding(state, scene, topic, int(last), at, anchor)
            state.checks.unsubscribed[topic] = [last, opened.incident or ""]
            found.append(opened)
    return found


def _commits(before: GroupState) -> dict[str, int]:
    """Topic -> last commit (ms) of the members that had partitions of it, -1 where none was seen."""
    found: dict[str, int] = {}
    for member in before.members:
        for topic, *_ in member.assigned:
            name = before.topics[topic]
            found[name] = max(found.get(name, -1), member.last_commit)
    return found


def _expiry_finding(
    state: GroupState,
    scene: Scene,
    topic: str,
    last: int,
    at: int,
    anchor: str,
    incident: str = "",
    resolution: str | None = None,
) -> Finding:
    keep = scene.settings.offsets_retention_ms
    return scene.find(
        Kind.OFFSETS_EXPIRING,
        state,
        at=at,
        evidence="derived",
        anchor=anchor,
        phase="resolved" if incident else "opened",
        incident=incident,
        resolution=resolution,
        opened_at=last + keep - scene.settings.offsets_expiring_ms,
        details={"expires_at": last + keep, "retention_ms": keep, "topic": topic},
    )
