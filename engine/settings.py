"""The configuration's thresholds as the coordinator's settings, completed by the brokers' own values.

The configuration may not import the coordinator, so the kinds in severity overrides are checked here: an
unknown kind is a ConfigError. An unconfigured threshold that the brokers know (retention, largest message,
session timeouts of epoch-based groups) takes the brokers' value. No pyspark here.
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, Protocol

from rebalance_monitor.config.durations import Duration, written
from rebalance_monitor.config.errors import ConfigError
from rebalance_monitor.coordinator.findings.kinds import Kind, Severity
from rebalance_monitor.coordinator.settings import (
    SESSIONS,
    UNCONFIGURED,
    DetectionSettings,
    GroupOverride,
    SeverityOverride,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rebalance_monitor.config import detection


GONE_KEPT = 1_000


class KnowsBrokers(Protocol):
    """What is asked of the cluster; every answer may be None: unknown."""

    def offsets_retention_ms(self) -> int | None:
        """Retention of committed offsets, ms."""

    def max_message_bytes(self) -> int | None:
        """Largest record batch that the offsets topic takes, bytes."""

    def session_timeout_848_ms(self) -> int | None:
        """Session timeout of KIP-848 groups, ms."""

    def session_timeout_share_ms(self) -> int | None:
        """Session timeout of share groups, ms."""

    def session_timeout_streams_ms(self) -> int | None:
        """Session timeout of groups of the streams protocol, ms."""

    def group_session_timeouts(self) -> Mapping[str, int | None] | None:
        """Session timeouts (ms) of the epoch-based groups that have one of their own.

        None as a group's: it may not be read. None of all: the brokers did not answer.
        """


BROKER_VALUES = (
    "offsets_retention_ms",
    "max_message_bytes",
    "session_timeout_848_ms",
    "session_timeout_share_ms",
    "session_timeout_streams_ms",
)
GROUPS_OWN = "group_session_timeouts"


def detection_settings(
    section: detection.Detection, brokers: KnowsBrokers | None = None
) -> DetectionSettings:
    """Return the coordinator's settings; asks `brokers` for what is not configured. Raises ConfigError."""
    names = [field.name for field in fields(DetectionSettings) if field.name not in UNCONFIGURED]
    values = {name: _value(section, name) for name in names}
    values["known"] = tuple(sorted(name for name in BROKER_VALUES if is_configured(section, name)))
    values["severity_overrides"] = tuple(map(_severity, section.severity_overrides))
    values["groups"] = tuple(map(_override, section.groups))
    settings = DetectionSettings(**values)
    if brokers is None:
        return settings
    return replace(settings, **{"session_timeouts_unread": True, **_with_brokers(section, brokers)})


def refreshed_settings(
    settings: DetectionSettings, section: detection.Detection, brokers: KnowsBrokers
) -> DetectionSettings:
    """Return `settings` with what `brokers` say by now; what they do not say stays as they said it before.

    So does the session timeout of a group that is gone, for each change begins a query again; of more than
    `GONE_KEPT` none is kept.
    """
    values = _with_brokers(section, brokers)
    values["known"] = tuple(sorted({*settings.known, *values["known"]}))
    own = dict(values.get("session_timeouts", ()))
    gone = [pair for pair in settings.session_timeouts if pair[0] not in own]
    # A capture without session timeouts may not have been allowed to read them.
    kept = gone if not own or len(gone) <= GONE_KEPT else []
    values["session_timeouts"] = tuple(sorted([*own.items(), *kept]))
    return replace(settings, **values)


def assumed(settings: DetectionSettings) -> list[str]:
    """Name the unknown values: Kafka's defaults are assumed, for `GROUPS_OWN` the brokers' values."""
    groups = [GROUPS_OWN] if settings.session_timeouts_unread else []
    return sorted(set(BROKER_VALUES) - set(settings.known)) + groups


def origins(settings: DetectionSettings, section: detection.Detection) -> dict[str, dict[str, int | None]]:
    """Return origin -> value of the cluster -> what holds: each is `configured`, `read` or `assumed`.

    `read`: from the brokers, or from a capture that keeps the brokers' values. None: as for KIP-848 groups.
    """
    found: dict[str, dict[str, int | None]] = {"configured": {}, "read": {}, "assumed": {}}
    for name in BROKER_VALUES:
        read = "read" if name in settings.known else "assumed"
        origin = "configured" if is_configured(section, name) else read
        found[origin][name] = getattr(settings, name)
    return found


def origins_line(
    settings: DetectionSettings, section: detection.Detection, group_type: str | None = None
) -> str:
    """Return `origins` as one line; with `group_type` without what only groups of other types follow."""
    others = () if group_type is None else {*SESSIONS.values()} - {SESSIONS.get(group_type)}
    known = {
        origin: [f"{key_of(name)} {_given(settings, name)}" for name in values if name not in others]
        for origin, values in origins(settings, section).items()
    }
    return "; ".join(f"{origin} {', '.join(parts)}" for origin, parts in known.items() if parts)


def _given(settings: DetectionSettings, name: str) -> str:
    value = getattr(settings, name)
    value = settings.session_timeout_848_ms if value is None else value
    return written(value) if name.endswith("_ms") else str(value)


def key_of(name: str) -> str:
    """Return the key in the configuration of a field of the coordinator's settings."""
    return name.removesuffix("_ms")


def is_configured(section: detection.Detection, name: str) -> bool:
    """Whether a field of the coordinator's settings was given a value; a key left empty gives none."""
    key = key_of(name)
    return key in section.model_fields_set and getattr(section, key) is not None


def _value(section: detection.Section, name: str) -> Any:  # noqa: ANN401 - whatever the field holds
    value = getattr(section, key_of(name))
    return value.ms if isinstance(value, Duration) else value


def _override(override: detection.GroupRule) -> GroupOverride:
    return GroupOverride(**{field.name: _value(override, field.name) for field in fields(GroupOverride)})


def _severity(override: detection.SeverityOverride) -> SeverityOverride:
    try:
        kind = Kind(override.kind)
    except ValueError:
        known = ", ".join(sorted(Kind))
        raise ConfigError(
            f"`detection.severity_overrides` names the kind {override.kind!r}; the kinds are {known}."
        ) from None
    return SeverityOverride(kind, Severity(override.severity), override.pattern)


def _with_brokers(section: detection.Detection, brokers: KnowsBrokers) -> dict[str, Any]:
    asked = [name for name in BROKER_VALUES if not is_configured(section, name)]
    values: dict[str, Any] = {name: getattr(brokers, name)() for name in asked}
    values = {name: value for name, value in values.items() if value is not None}
    known = set(BROKER_VALUES) - set(asked) | set(values)
    return {**values, "known": tuple(sorted(known)), **_of_groups(brokers)}


def _of_groups(brokers: KnowsBrokers) -> dict[str, Any]:
    """Return what is known of the groups' own session timeouts; nothing where the brokers did not answer."""
    timeouts = brokers.group_session_timeouts()
    if timeouts is None:
        return {}
    own = tuple(sorted((group, ms) for group, ms in timeouts.items() if ms is not None))
    return {"session_timeouts": own, "session_timeouts_unread": None in timeouts.values()}
