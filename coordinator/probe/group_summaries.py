"""What a group's summary adds to a probe sample that shows the group rebalancing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rebalance_monitor.coordinator.deadlines import not_rejoined
from rebalance_monitor.coordinator.deadlines.stuck_limits import Limits, limits
from rebalance_monitor.coordinator.deadlines.stuck_rebalances import UNSETTLED
from rebalance_monitor.coordinator.findings.finding import CLAIMED
from rebalance_monitor.coordinator.modern.epoch_group import GROUP_TYPES
from rebalance_monitor.coordinator.probe.last_commits import LATE_MS
from rebalance_monitor.coordinator.state.state_machine import Status

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from rebalance_monitor.coordinator.deadlines.not_rejoined import Awaited, Commits, Listed
    from rebalance_monitor.coordinator.deadlines.rejoining import Seen
    from rebalance_monitor.coordinator.probe.observed_group import Watched
    from rebalance_monitor.coordinator.probe.sample import RebalancingGroup
    from rebalance_monitor.coordinator.settings import DetectionSettings

_BY_RECORDS = frozenset(GROUP_TYPES.values())


def waits_for_absent_members(summary: Mapping[str, Any], group: RebalancingGroup) -> bool:
    """Whether `group` is listed as reconciling only because of members that announced their absence.

    The coordinator reports that state until they are back. Only their own partitions stand still meanwhile.
    """
    away = group.group_type in _BY_RECORDS and bool(summary.get("away"))
    return away and summary.get("state") == Status.STABLE


def knows_awaited_members(summary: Mapping[str, Any], group: Watched, at: int) -> bool:
    """Whether records name the members that a join phase seen at `at` (ms) waits for, or end it by then.

    They do where members acknowledge epochs.
    """
    newer = int(summary.get("as_of", -1)) >= at
    return group.group_type in _BY_RECORDS and (newer or summary.get("state") in UNSETTLED)


def waits(
    summary: Mapping[str, Any],
    group: Watched,
    at: int,
    listed: Collection[Listed] | None,
    commits: Mapping[str, Commits] | None,
) -> Awaited:
    """Return the members that a join phase seen at `at` (ms) waits for, of `listed` if known.

    `commits`: those of its members, by positions. A join phase that was begun again saw no commits before it.
    Those named before are named until one of them is gone and the phase goes on, or others are much more
    likely.
    """
    before = group.awaited
    # The generation that ends the phase may have been read before its last sample is taken.
    is_over = int(summary.get("at", -1)) > at
    if is_over or group.again or summary.get("group_type") in _BY_RECORDS:
        return before
    now = not_rejoined.by_summary(
        summary, group.since, at - LATE_MS, listed, commits, exact=group.is_seen_from_its_beginning
    )
    if not before.members or group.is_gone(before.ids, at):
        return now
    if listed is not None and before.ids.difference(one[0] for one in listed):
        return before
    is_sure = not now.any_of and all(one.confidence >= CLAIMED for one in now.members)
    return now if now.members and (is_sure or before.any_of > now.any_of) else before


def limits_of(
    settings: DetectionSettings, summary: Mapping[str, Any], waits_for: Collection[Seen] = ()
) -> Limits:
    """Return from when on a join phase of the group is stuck; `waits_for`: its missing members, if known."""
    members = summary.get("member_list", ())
    sessions = [one.session for one in waits_for] or _each(members, "session_timeout_ms")
    return limits(settings, sessions, _each(members, "rebalance_timeout_ms"))


def deadline(summary: Mapping[str, Any], group: Watched) -> int:
    """Return when (ms) the coordinator ends the join phase of a classic group at the latest; -1 if unknown.

    It removes members that have not rejoined within the longest rebalance timeout. Newcomers are in no
    summary, and may have a longer one.
    """
    longest = max(_each(summary.get("member_list", ()), "rebalance_timeout_ms"), default=-1)
    known = longest > 0 and summary.get("group_type") == "classic" and not group.again
    return group.since + longest if known else -1


def _each(members: Iterable[Mapping[str, Any]], name: str) -> list[int]:
    return [int(one.get(name, -1)) for one in members]
