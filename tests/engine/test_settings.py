"""Configuration to coordinator: the same names and defaults, and what the brokers know better."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, fields, replace

import pytest

from rebalance_monitor.config.detection import Detection
from rebalance_monitor.config.durations import Duration
from rebalance_monitor.config.errors import ConfigError
from rebalance_monitor.config.load import load
from rebalance_monitor.coordinator.findings.kinds import Kind, Severity
from rebalance_monitor.coordinator.settings import (
    UNCONFIGURED,
    DetectionSettings,
    GroupOverride,
    SeverityOverride,
)
from rebalance_monitor.engine.settings import (
    BROKER_VALUES,
    GONE_KEPT,
    GROUPS_OWN,
    assumed,
    detection_settings,
    key_of,
    origins,
    origins_line,
    refreshed_settings,
)


@dataclass
class Brokers:
    """What a cluster tells."""

    retention: int | None = 1_000
    largest: int | None = 2_000
    session: int | None = None
    share: int | None = None
    own: dict[str, int | None] | None = field(default_factory=dict)

    def offsets_retention_ms(self) -> int | None:
        return self.retention

    def max_message_bytes(self) -> int | None:
        return self.largest

    def session_timeout_848_ms(self) -> int | None:
        return self.session

    def session_timeout_share_ms(self) -> int | None:
        return self.share

    def session_timeout_streams_ms(self) -> int | None:
        return None

    def group_session_timeouts(self) -> dict[str, int | None] | None:
        return self.own


def test_the_configuration_has_the_coordinators_fields_and_defaults() -> None:
    assert detection_settings(Detection()) == DetectionSettings()
    names = {field.name for field in fields(DetectionSettings)} - UNCONFIGURED
    assert set(Detection.model_fields) == set(map(key_of, names))


def test_overrides_become_the_coordinators() -> None:
    section = Detection.model_validate(
        {
            "groups": [{"pattern": "batch-*", "storm_threshold": 50}],
            "severity_overrides": [{"kind": "rebalance", "severity": "warning", "pattern": "pay-*"}],
        }
    )
    found = detection_settings(section)
    assert found.groups == (GroupOverride("batch-*", storm_threshold=50),)
    assert found.severity_overrides == (SeverityOverride(Kind.REBALANCE, Severity.WARNING, "pay-*"),)
    assert found.for_group("batch-1").storm_threshold == 50


def test_an_unknown_kind_is_refused_with_the_known_ones() -> None:
    section = Detection.model_validate({"severity_overrides": [{"kind": "rebalence", "severity": "info"}]})
    with pytest.raises(ConfigError, match=r"'rebalence'.*rebalance_stuck"):
        detection_settings(section)


def test_values_of_the_brokers_win_over_defaults_but_not_over_the_configuration() -> None:
    found = detection_settings(Detection(max_message_bytes=5), Brokers())
    known = ("max_message_bytes", "offsets_retention_ms")
    assert found == replace(DetectionSettings(), offsets_retention_ms=1_000, max_message_bytes=5, known=known)


def test_a_session_timeout_is_the_groups_own_or_its_types_and_assumed_if_unknown() -> None:
    section = Detection.model_validate({"groups": [{"pattern": "slow-*", "session_timeout": "9s"}]})
    brokers = Brokers(share=50_000, own={"own": 60_000, "slow-own": 60_000})
    found = detection_settings(section, brokers)

    def session(group: str, group_type: str) -> tuple[int, bool]:
        return found.for_group(group).session_timeout(group, group_type)

    assert session("any", "consumer") == (45_000, True)
    assert session("any", "share") == (50_000, False)
    assert session("any", "streams") == (45_000, True)
    assert session("own", "consumer") == (60_000, False)
    assert session("slow-own", "share") == (9_000, False)


@pytest.mark.parametrize("own", [{"denied": None, "own": 60_000}, None])
def test_the_brokers_value_is_only_assumed_for_a_group_whose_own_was_not_read(
    own: dict[str, int | None] | None,
) -> None:
    found = detection_settings(Detection(), Brokers(session=50_000, own=own))
    assert found.session_timeout("denied", "consumer") == (50_000, True)
    assert assumed(found)[-1] == GROUPS_OWN
    assert found.session_timeout("own", "consumer") == ((60_000, False) if own else (50_000, True))


def test_that_groups_own_timeouts_are_read_now_is_taken_and_brokers_that_are_away_change_nothing() -> None:
    denied = detection_settings(Detection(), Brokers(session=50_000, own={"g": None, "h": 9_000}))
    assert refreshed_settings(denied, Detection(), Brokers(session=50_000, own=None)) == denied
    granted = refreshed_settings(denied, Detection(), Brokers(session=50_000, own={"h": 9_000}))
    assert granted.session_timeout("g", "consumer") == (50_000, False)
    assert GROUPS_OWN not in assumed(granted)
    assert refreshed_settings(granted, Detection(), Brokers(session=50_000, own=None)) == granted
    assert refreshed_settings(granted, Detection(), Brokers(session=50_000, own={"g": None})) == denied


def test_without_brokers_only_values_that_are_not_configured_are_assumed() -> None:
    assert assumed(detection_settings(Detection())) == sorted(BROKER_VALUES)


def test_what_the_brokers_say_anew_is_taken_and_what_they_do_not_say_stays() -> None:
    section = Detection(offsets_retention=Duration("7ms"))
    settings = detection_settings(section, Brokers(session=30_000, own={"g": 9_000}))
    again = refreshed_settings(settings, section, Brokers(session=40_000))
    assert again == replace(settings, session_timeout_848_ms=40_000)
    assert again.offsets_retention_ms == 7
    assert refreshed_settings(again, section, Brokers(retention=None, largest=None)) == again
    other = refreshed_settings(again, section, Brokers(session=40_000, own={"h": 8_000}))
    assert other.session_timeouts == (("g", 9_000), ("h", 8_000))
    assert refreshed_settings(other, section, Brokers(session=40_000, own={"g": 9_000})) == other


def test_groups_that_come_and_go_with_a_timeout_of_their_own_are_not_kept_for_ever() -> None:
    section = Detection()
    names = [f"ci-{number}" for number in range(2 * GONE_KEPT + 1)]
    some = detection_settings(section, Brokers(own=dict.fromkeys(names[:GONE_KEPT], 9_000)))
    kept = refreshed_settings(some, section, Brokers(own={names[-1]: 9_000}))
    assert len(kept.session_timeouts) == GONE_KEPT + 1
    assert refreshed_settings(kept, section, Brokers()).session_timeouts == kept.session_timeouts
    more = refreshed_settings(kept, section, Brokers(own={"now": 9_000}))
    assert more.session_timeouts == (("now", 9_000),)


def is_duration(key: str) -> bool:
    return "Duration" in str(Detection.model_fields[key].annotation)


@pytest.mark.parametrize(
    "key",
    [
        name
        for name in Detection.model_fields
        if name not in {*map(key_of, BROKER_VALUES), "severity_overrides"}
    ],
)
def test_no_other_key_stops_the_brokers_values_from_being_read(key: str) -> None:
    """As a user writes it: through all layers of the configuration."""
    values = {"groups": [{"pattern": "a-*", "storm_threshold": 9}], "always_on": ["a-*"]}
    values |= {"storm_threshold": 2, "roll_up_groups": 2, "expected_pause": ["a-*"]}
    section = load(flags={f"detection.{key}": values.get(key, "1s" if is_duration(key) else 1)}).detection
    found = detection_settings(section, Brokers(session=6_000))
    assert (found.offsets_retention_ms, found.max_message_bytes) == (1_000, 2_000)
    assert found.session_timeout("g", "consumer") == (6_000, False)
    assert not origins(found, section)["configured"]


@pytest.mark.parametrize("name", BROKER_VALUES[3:])
def test_a_key_that_is_left_empty_configures_nothing(name: str) -> None:
    section = Detection.model_validate({key_of(name): None})
    found = detection_settings(section, Brokers(session=6_000, share=7_000))
    assert not origins(found, section)["configured"]
    assert found.session_timeout("g", "share") == (7_000, False)


def test_each_value_of_the_cluster_has_one_origin_in_one_line() -> None:
    section = load(flags={"detection.offsets_retention": "5ms"}).detection
    found = detection_settings(section, Brokers(session=6_000))
    assert origins_line(found, section) == (
        "configured offsets_retention 5ms; read max_message_bytes 2000, session_timeout_848 6s; "
        "assumed session_timeout_share 6s, session_timeout_streams 6s"
    )


@pytest.mark.parametrize(
    ("group_type", "timeouts"),
    [("classic", ""), ("consumer", "_848"), ("share", "_share"), ("streams", "_streams")],
)
def test_of_one_group_the_line_has_no_timeouts_of_groups_of_other_types(
    group_type: str, timeouts: str
) -> None:
    section = Detection()
    line = origins_line(detection_settings(section), section, group_type)
    assert re.findall(r"session_timeout(\w+)", line) == [timeouts] * bool(timeouts)
    assert "offsets_retention 7d, max_message_bytes" in line
