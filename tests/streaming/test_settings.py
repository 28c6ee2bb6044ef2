"""Configuration to coordinator: the same names and defaults, and what the brokers know better."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import pytest

from rebalance_monitor.config.detection import Detection
from rebalance_monitor.config.errors import ConfigError
from rebalance_monitor.coordinator.kinds import Kind, Severity
from rebalance_monitor.coordinator.settings import DetectionSettings, GroupOverride, SeverityOverride
from rebalance_monitor.streaming.settings import detection_settings


@dataclass
class Brokers:
    """What a cluster tells."""

    retention: int | None = 1_000
    largest: int | None = 2_000
    session: int | None = None

    def offsets_retention_ms(self) -> int | None:
        return self.retention

    def max_message_bytes(self) -> int | None:
        return self.largest

    def session_timeout_848_ms(self) -> int | None:
        return self.session


def test_the_configuration_has_the_coordinators_fields_and_defaults() -> None:
    assert detection_settings(Detection()) == DetectionSettings()
    assert set(Detection.model_fields) == {field.name for field in fields(DetectionSettings)}


def test_overrides_become_the_coordinators() -> None:
    section = Detection.model_validate(
        {
            "group_overrides": [{"pattern": "batch-*", "storm_threshold": 50}],
            "severity_overrides": [{"kind": "rebalance", "severity": "warning", "pattern": "pay-*"}],
        }
    )
    found = detection_settings(section)
    assert found.group_overrides == (GroupOverride("batch-*", storm_threshold=50),)
    assert found.severity_overrides == (SeverityOverride(Kind.REBALANCE, Severity.WARNING, "pay-*"),)
    assert found.for_group("batch-1").storm_threshold == 50


def test_an_unknown_kind_is_refused_with_the_known_ones() -> None:
    section = Detection.model_validate({"severity_overrides": [{"kind": "rebalence", "severity": "info"}]})
    with pytest.raises(ConfigError, match=r"'rebalence'.*rebalance_stuck"):
        detection_settings(section)


def test_what_the_brokers_tell_wins_over_defaults_but_not_over_the_configuration() -> None:
    found = detection_settings(Detection(max_message_bytes=5), Brokers())
    assert found == replace(DetectionSettings(), offsets_retention_ms=1_000, max_message_bytes=5)
