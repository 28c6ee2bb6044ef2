"""The monitor's own health: opened once, resolved once, remembered over restarts."""

from __future__ import annotations

from rebalance_monitor.coordinator.settings import DetectionSettings
from rebalance_monitor.coordinator.sightings import Sighting
from rebalance_monitor.streaming.batches import Batch
from rebalance_monitor.streaming.health import Health

T0 = 1_795_000_000_000
SETTINGS = DetectionSettings(behind_after_ms=10_000)


def said(health: Health, lag: int, sightings: tuple[Sighting, ...] = (), **fields: object) -> list[str]:
    batch = Batch(now=T0, **fields)  # type: ignore[arg-type]  # a test's shorthand
    found = health.on_batch(batch, sightings, T0 + lag)
    return [f"{finding.details['cause']} {finding.phase}" for finding in found]


def look(*answers: bool) -> Sighting:
    return Sighting(T0, (), (), tuple(enumerate(answers)))


def test_a_slow_first_batch_is_no_lag() -> None:
    assert said(Health(SETTINGS, "c"), lag=3_600_000) == []


def test_lag_is_opened_once_and_resolved_once() -> None:
    health = Health(SETTINGS, "c")
    lags = [0, 11_000, 30_000, 9_000, 0]
    assert [said(health, lag) for lag in lags] == [[], ["behind opened"], [], ["behind resolved"], []]


def test_an_open_finding_survives_a_restart_with_its_incident() -> None:
    before = Health(SETTINGS, "c")
    said(before, 0)
    (opened,) = before.on_batch(Batch(now=T0), (), T0 + 11_000)
    after = Health(SETTINGS, "c", before.snapshot())
    (resolved,) = after.on_batch(Batch(now=T0), (), T0)
    assert (resolved.phase, resolved.incident, resolved.opened_at) == ("resolved", opened.id, opened.at)


def test_one_look_without_an_answer_is_no_news() -> None:
    health = Health(SETTINGS, "c")
    assert said(health, 0, (look(True, False), look(True, True), look(False, True))) == []  # noqa: FBT003


def test_a_broker_that_stays_silent_is_named() -> None:
    found = Health(SETTINGS, "c").on_batch(Batch(now=T0), (look(True, False), look(True, False)), T0)  # noqa: FBT003
    assert [finding.causes[0].why for finding in found] == ["the probe gets no answer from brokers: 1"]


def test_no_broker_at_all_is_said_too() -> None:
    nobody = Sighting(T0, (), (), ())
    assert said(Health(SETTINGS, "c"), 0, (nobody, nobody)) == ["probe_partial opened"]


def test_state_that_was_begun_anew_is_said() -> None:
    trouble = {"kind": "state_lost", "shard": 3, "error": "StateCorruptError: ..."}
    health = Health(SETTINGS, "c")
    assert said(health, 0, troubles=[trouble]) == ["state_rebuilt opened"]
    assert said(health, 0) == ["state_rebuilt resolved"]
