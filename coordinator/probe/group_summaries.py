"""What a group's summary adds to a probe sample that shows the group rebalancing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rebalance_monitor.coordinator.deadlines import not_rejoined
from rebalance_monitor.coordinator.deadlines.stuck_limits import Limits, limits
from rebalance_monitor.coordinator.deadlines.stuck_rebalances import UNSETTLED
from rebalance_monitor.coordinator.modern.epoch_group import GROUP_TYPES
from rebalance_monitor.coordinator.state.state_machine import Status

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from rebalance_monitor.coordinator.deadlines.not_rejoined import Seen
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
    limit: int,
    listed: Iterable[tuple[str, str, str, str]] | None,
) -> list[Seen]:
    """Return the members that a join phase stuck from `limit` (ms) on waits for, of `listed` if known.

    A join phase that was begun again saw no commits before it.
    """
    who = None if listed is None else {one[0] for one in listed}
    return [] if group.again else not_rejoined.by_summary(summary, group.since, limit, who)


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
