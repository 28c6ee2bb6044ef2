"""Groups without members: their offsets expire, some must never be empty, in the end they retire."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rebalance_monitor.coordinator.checks import assignment
from rebalance_monitor.coordinator.findings import massed
from rebalance_monitor.coordinator.findings.finding import deadline_anchor
from rebalance_monitor.coordinator.findings.kind_table import KINDS
from rebalance_monitor.coordinator.findings.kinds import Kind, Severity
from rebalance_monitor.coordinator.rebalance import baselines, habits, report, visits
from rebalance_monitor.coordinator.state.group_state import NEVER
from rebalance_monitor.coordinator.state.state_machine import Status
from rebalance_monitor.coordinator.storms import storm

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from rebalance_monitor.coordinator.context import Scene
    from rebalance_monitor.coordinator.departure.verdicts import Departure
    from rebalance_monitor.coordinator.findings.finding import CauseEntry, Details, Finding
    from rebalance_monitor.coordinator.settings import DetectionSettings
    from rebalance_monitor.coordinator.state.group_state import GroupState
    from rebalance_monitor.coordinator.state.membership import Change
    from rebalance_monitor.coordinator.state.shard_state import ShardState

_MAX_ORPHANS = 10_000


def note_orphan(shard: ShardState, group: str, at: int) -> None:
    """Note a commit at `at` (ms) to a group of which no record of its own was read so far.

    In a cleaned log the commits of a group come before the record that shows that it is empty.
    """
    if group in shard.orphans or len(shard.orphans) < _MAX_ORPHANS:
        shard.orphans[group] = max(shard.orphans.get(group, -1), at)


def due(state: GroupState, settings: DetectionSettings) -> int:
    """Earliest clock (ms) at which `on_clock` may have something to say, or the group retires."""
    if state.status == Status.UNKNOWN and not state.members and state.epochs.counted_at >= 0:
        return state.epochs.counted_at
    if state.status != Status.EMPTY:
        return NEVER
    retires = _retirement(state, settings)
    if state.empty.expiring or state.last_commit < 0:
        return retires
    return min(retires, kept_until(state, settings) - settings.offsets_expiring_ms)


def expiry(state: GroupState, settings: DetectionSettings) -> int:
    """When an empty group loses its offsets, ms; -1 for others."""
    return kept_until(state, settings) if state.status == Status.EMPTY and state.last_commit >= 0 else -1


def kept_until(state: GroupState, settings: DetectionSettings) -> int:
    """Until when (ms) the coordinator keeps the newest offset of a group without members.

    The retention of a classic group runs from the moment it became empty, whatever is committed after that
    (KIP-211). For epoch-based groups it runs from each commit, so a group with old commits loses its offsets
    as soon as its last member departs. For a group that never had a member it runs from each commit too: the
    group has no protocol type, and its committers use assign().
    """
    since = state.last_commit if _keeps_commits(state) and state.last_commit >= 0 else state.cst
    return since + settings.offsets_retention_ms


def on_commit(
    state: GroupState, scene: Scene, at: int, topics: Iterable[str], back: Collection[str] = ()
) -> list[Finding]:
    """Take a commit at `at` (ms) to a group without members; it may keep its offsets for longer.

    `back`: of which topics it took offsets back, as far as that matters.
    """
    if state.last_commit < 0 or state.empty.expiring:
        # From now on it has offsets that expire, or its offsets expire later.
        state.wake = 0
    state.last_commit = max(state.last_commit, at)
    visits.note(state, at, topics, back)
    return resolve_expiring(state, scene, "withdrawn") if _keeps_commits(state) else []


def _keeps_commits(state: GroupState) -> bool:
    """Whether each offset is kept for the retention from its commit on."""
    return state.group_type != "classic" or not state.protocol_type


def retired(state: GroupState, settings: DetectionSettings, now: int) -> bool:
    """Whether the group has been empty for so long that its state can be removed without a finding."""
    return state.status == Status.EMPTY and now >= _retirement(state, settings)


def resolve_expiring(state: GroupState, scene: Scene, resolution: str) -> list[Finding]:
    """Resolve the incident about expiring offsets: the group is used again, or removed."""
    if not state.empty.expiring:
        return []
    incident, state.empty.expiring = state.empty.expiring, ""
    return [
        scene.resolve(
            Kind.OFFSETS_EXPIRING,
            state,
            incident,
            resolution,
            at=scene.ts,
            opened_at=state.empty.expiring_at,
            details={"retention_ms": scene.settings.offsets_retention_ms},
        )
    ]


def stands_empty(state: GroupState, scene: Scene) -> list[Finding]:
    """Report once, live, a group of `always_on` that has no members as far as records show."""
    if (
        state.status != Status.EMPTY
        or state.empty.is_reported
        or not scene.settings.is_always_on(scene.group)
    ):
        return []
    anchor = deadline_anchor(state.generation, "", state.cst)
    known = state.empty
    if not known.incident:
        known.at = state.cst
    found = scene.find(
        Kind.GROUP_EMPTY,
        state,
        at=scene.ts,
        evidence="derived",
        anchor=anchor,
        phase="updated" if known.incident else "opened",
        sequence=int(bool(known.incident)),
        severity=Severity.CRITICAL,
        incident=known.incident,
        opened_at=known.at,
        details={"empty_ms": max(0, scene.ts - known.at)},
    )
    known.incident, known.is_reported = found.incident or "", True
    return [found]


def became_empty(
    state: GroupState,
    scene: Scene,
    change: Change,
    gone: list[Departure],
    causes: tuple[CauseEntry, ...],
    beside: list[Finding],
    *,
    at: int,
    details: Details | None = None,
    **fields: Any,  # noqa: ANN401 -- the remaining fields of Finding, checked by its constructor
) -> list[Finding]:
    """Open `group_empty` at `at` (ms), and resolve the incidents of an assignment.

    `gone`: the last members, with the findings about them (`beside`). The severity is that of the faults that
    took them.
    """
    is_wanted = scene.settings.is_always_on(scene.group)
    usual = Severity.CRITICAL if is_wanted else KINDS[Kind.GROUP_EMPTY].severity
    empty = scene.find(
        Kind.GROUP_EMPTY,
        state,
        at=at,
        phase="opened",
        severity=massed.loudest(beside, usual),
        causes=causes,
        members=report.member_entries(change, gone),
        opened_at=at,
        details={
            "ended_by": report.ended_by(causes),
            **habits.describe(state, scene.settings, at),
            **report.unlisted(change, gone),
            **(details or {}),
        },
        **fields,
    )
    state.empty.incident, state.empty.at, state.learned.idle_families = empty.id, at, []
    state.empty.is_reported = not scene.history
    ended = assignment.close(state, scene)
    return [empty, *beside, *ended, *storm.note_generation(state, scene, change, at, causes)]


def settle(state: GroupState, scene: Scene) -> list[Finding]:
    """Count an epoch-based group as empty once all of its members would be known."""
    if state.status != Status.UNKNOWN or state.members or not baselines.knows_members(state, scene.ts):
        return []
    state.status, state.cst, state.dirty = Status.EMPTY, max(state.cst, state.ts), True
    return stands_empty(state, scene)


def on_clock(state: GroupState, scene: Scene, now: int) -> list[Finding]:
    """Report once that the offsets of a group without members are about to expire at `now` (ms)."""
    settings = scene.settings
    at = max(state.cst, kept_until(state, settings) - settings.offsets_expiring_ms)
    if state.status != Status.EMPTY or state.empty.expiring or state.last_commit < 0 or now < at:
        return []
    anchor = deadline_anchor(state.generation, "", at)
    found = scene.find(
        Kind.OFFSETS_EXPIRING,
        state,
        at=at,
        evidence="derived",
        anchor=anchor,
        phase="opened",
        opened_at=at,
        details={"expires_at": kept_until(state, settings), "retention_ms": settings.offsets_retention_ms},
    )
    state.empty.expiring, state.empty.expiring_at = found.incident or "", at
    return [found]


def _retirement(state: GroupState, settings: DetectionSettings) -> int:
    if state.group_type == "share":
        # Nothing of it expires.
        return NEVER
    return max(state.ts, state.last_commit) + 2 * settings.offsets_retention_ms
