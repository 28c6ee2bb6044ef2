"""Thresholds of the detection, all of them: what is not here is not configurable.

Patterns are shell patterns over group names (`orders-*`). Durations are milliseconds, sizes bytes.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rebalance_monitor.coordinator.findings.kinds import Kind, Severity


@dataclass(frozen=True, slots=True)
class GroupOverride:
    """Thresholds for groups whose name matches `pattern`; None keeps a later match's or the general one.

    `session_timeout_ms` is that of an epoch-based group, `max_poll_interval_ms` that of clients that send
    none (aiokafka): they are in no record. `expected_churn`: members that join, work and leave are no storm.
    """

    pattern: str
    storm_threshold: int | None = None
    storm_window_ms: int | None = None
    storm_quiet_ms: int | None = None
    storm_sightings_share: float | None = None
    storm_sightings_window_ms: int | None = None
    stuck_after_ms: int | None = None
    slow_sync_ms: int | None = None
    session_timeout_ms: int | None = None
    max_poll_interval_ms: int | None = None
    expected_churn: bool | None = None


@dataclass(frozen=True, slots=True)
class SeverityOverride:
    """Severity of one kind for groups whose name matches `pattern`. First match wins."""

    kind: Kind
    severity: Severity
    pattern: str = "*"


@dataclass(frozen=True, slots=True)
class DetectionSettings:
    """Every threshold with its default; see docs/detection.md for what each one decides.

    Three fields are no thresholds and not configured: `known` (names of the values that the configuration or
    the brokers gave; all others are assumed), `session_timeouts` ((group, ms), for groups with their own) and
    `session_timeouts_unread` (the session timeouts of some groups could not be read).
    """

    grace_ms: int = 1_500
    attribution_confidence: float = 0.8
    storm_threshold: int = 5
    storm_window_ms: int = 300_000
    storm_quiet_ms: int = 300_000
    storm_sightings_share: float = 0.5
    storm_sightings_window_ms: int = 120_000
    stuck_after_ms: int | None = None
    slow_sync_ms: int = 5_000
    failed_repeated: int = 2
    roll_up_groups: int = 5
    roll_up_window_ms: int = 10_000
    unreadable_threshold: int = 10
    unreadable_window_ms: int = 60_000
    behind_after_ms: int = 60_000
    offsets_retention_ms: int = 604_800_000
    offsets_expiring_ms: int = 86_400_000
    max_message_bytes: int = 1_048_588
    group_too_large_share: float = 0.8
    session_timeout_848_ms: int = 45_000
    session_timeout_share_ms: int | None = None
    session_timeout_streams_ms: int | None = None
    max_poll_interval_ms: int | None = None
    lag_window_ms: int = 60_000
    falling_behind_ms: int = 600_000
    falling_behind_warning_ms: int | None = None
    records_expiring_ms: int = 14_400_000
    expected_churn: bool = False
    expected_pause: tuple[str, ...] = ()
    always_on: tuple[str, ...] = ()
    severity_overrides: tuple[SeverityOverride, ...] = ()
    groups: tuple[GroupOverride, ...] = ()
    summary_interval_ms: int = 5_000
    summary_members: int = 50
    known: tuple[str, ...] = ()
    session_timeouts: tuple[tuple[str, int], ...] = ()
    session_timeouts_unread: bool = False

    @property
    def longest_probe_window_ms(self) -> int:
        """The longest window of the probe's storm rule, of any group."""
        own = [override.storm_sightings_window_ms or 0 for override in self.groups]
        return max([self.storm_sightings_window_ms, *own])

    def for_group(self, group: str) -> DetectionSettings:
        """Return the settings of `group`: of the rules that match, the first that sets a threshold wins."""
        found = self
        for override in reversed(self.groups):
            if fnmatchcase(group, override.pattern):
                found = found._with(group, override)
        return found

    def severity_of(self, kind: Kind, group: str, default: Severity) -> Severity:
        """Return the first configured severity for this kind and group, else `default`."""
        for override in self.severity_overrides:
            if override.kind is kind and fnmatchcase(group, override.pattern):
                return override.severity
        return default

    def is_always_on(self, group: str) -> bool:
        """Whether an empty `group` is an emergency."""
        return any(fnmatchcase(group, pattern) for pattern in self.always_on)

    def may_pause(self, group: str) -> bool:
        """Whether partitions of `group` stand still on purpose now and then."""
        return any(fnmatchcase(group, pattern) for pattern in self.expected_pause)

    def session_timeout(self, group: str, group_type: str) -> tuple[int, bool]:
        """Return the session timeout (ms) of an epoch-based group, and whether it is only assumed.

        A value configured for the group wins, then the brokers' value for the group, then the value for its
        type. The last one is assumed if neither the configuration nor the brokers gave it, and if the group
        may have its own value that was not read.
        """
        for name, own in self.session_timeouts:
            if name == group:
                return own, False
        name = SESSIONS.get(group_type, SESSIONS["consumer"])
        given: int | None = getattr(self, name)
        assumed = self.session_timeouts_unread or name not in self.known
        return (self.session_timeout_848_ms if given is None else given), assumed

    def _with(self, group: str, override: GroupOverride) -> DetectionSettings:
        given: dict[str, Any] = {name: getattr(override, name) for name in _OVERRIDDEN}
        given = {name: value for name, value in given.items() if value is not None}
        if override.session_timeout_ms is not None:
            given["session_timeouts"] = ((group, override.session_timeout_ms), *self.session_timeouts)
        return replace(self, **given)


_OVERRIDDEN = tuple(
    one.name for one in fields(GroupOverride) if one.name not in {"pattern", "session_timeout_ms"}
)

UNCONFIGURED = frozenset({"known", "session_timeouts", "session_timeouts_unread", "expected_churn"})
"""Fields of the settings that the job fills in, or that only a group's override has."""

SESSIONS = {
    "consumer": "session_timeout_848_ms",
    "share": "session_timeout_share_ms",
    "streams": "session_timeout_streams_ms",
}
"""Type of an epoch-based group -> the field that holds its session timeout."""
