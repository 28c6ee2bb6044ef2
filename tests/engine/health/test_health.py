"""The monitor's own health: opened once, resolved once, remembered over restarts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.probe.sample import ProbeSample
from rebalance_monitor.coordinator.settings import DetectionSettings
from rebalance_monitor.engine.batch.batches import Batch
from rebalance_monitor.engine.health.health import Health
from rebalance_monitor.engine.health.notices import Notices
from rebalance_monitor.engine.health.skew import ENOUGH

T0 = 1_795_000_000_000
SETTINGS = DetectionSettings(behind_after_ms=10_000)


def said(health: Health, lag: int, sightings: tuple[ProbeSample, ...] = (), **fields: object) -> list[str]:
    batch = Batch(now=T0, **fields)  # type: ignore[arg-type]  # a test's shorthand
    found = health.on_batch(batch, sightings, T0 + lag)
    return [f"{finding.details['cause']} {finding.phase}" for finding in found]


def look(*answers: bool) -> ProbeSample:
    return ProbeSample(T0, (), (), tuple(enumerate(answers)))


def test_a_slow_first_batch_is_no_lag() -> None:
    assert said(Health(SETTINGS, "c"), lag=3_600_000) == []


def test_lag_is_opened_once_and_resolved_once() -> None:
    health = Health(SETTINGS, "c")
    lags = [0, 11_000, 20_000, 9_000, 0]
    assert [said(health, lag) for lag in lags] == [[], ["behind opened"], [], ["behind resolved"], []]


def test_lag_is_reported_with_its_length_by_a_batch_and_without_one() -> None:
    by_batch = Health(SETTINGS, "c")
    said(by_batch, 0)
    (found,) = by_batch.on_batch(Batch(now=T0), (), T0 + 11_000)
    assert found.details["lag_ms"] == 11_000
    notices = Notices()
    without = Health(SETTINGS, "c", notices=notices)
    said(without, 0)
    notices.hold(Cause.BEHIND, "no batch was finished for 12 s")
    (found,) = without.on_batch(Batch(), (), T0 + 12_500)
    assert found.details["lag_ms"] == 12_500


def test_a_lag_that_an_older_release_opened_without_its_length_is_reported_as_soon_as_it_is_known() -> None:
    health = Health(SETTINGS, "c", {"opened": {"behind": T0}}, probe_ms=None)
    assert said(health, 11_000) == []
    assert [said(health, lag) for lag in (11_000, 12_000)] == [["behind updated"], []]


def test_an_open_finding_survives_a_restart_with_its_incident() -> None:
    before = Health(SETTINGS, "c")
    said(before, 0)
    (opened,) = before.on_batch(Batch(now=T0), (), T0 + 11_000)
    after = Health(SETTINGS, "c", before.snapshot())
    (resolved,) = after.on_batch(Batch(now=T0), (), T0)
    assert (resolved.phase, resolved.incident, resolved.opened_at) == ("resolved", opened.id, opened.at)


def test_one_sample_without_an_answer_is_no_news() -> None:
    health = Health(SETTINGS, "c")
    assert said(health, 0, (look(True, False), look(True, True), look(False, True))) == []  # noqa: FBT003


def test_a_broker_that_stays_silent_is_named() -> None:
    found = Health(SETTINGS, "c").on_batch(Batch(now=T0), (look(True, False), look(True, False)), T0)  # noqa: FBT003
    assert [finding.causes[0].why for finding in found] == ["the probe gets no answer from brokers: 1"]


def test_why_a_broker_gives_nothing_is_reported() -> None:
    old = replace(look(False), failures={0: "The brokers are too old."})  # noqa: FBT003
    (found,) = Health(SETTINGS, "c").on_batch(Batch(now=T0), (old, old), T0)
    assert found.causes[0].why == "the probe gets no answer from brokers: 0; The brokers are too old."


def test_no_broker_at_all_is_said_too() -> None:
    nobody = ProbeSample(T0, (), (), ())
    assert said(Health(SETTINGS, "c"), 0, (nobody, nobody)) == ["probe_partial opened"]


def test_state_that_was_begun_anew_is_said() -> None:
    trouble = {"kind": "state_lost", "shard": 3, "error": "StateCorruptError: ..."}
    health = Health(SETTINGS, "c")
    assert said(health, 0, troubles=[trouble]) == ["state_rebuilt opened"]
    assert said(health, 0) == []


@pytest.mark.parametrize("kind", ["state_not_kept", "operator_error"])
def test_a_shard_that_does_not_know_all_it_should_is_said(kind: str) -> None:
    trouble = {"kind": kind, "shard": 3, "error": "OverflowError: ..."}
    health = Health(SETTINGS, "c", probe_ms=None)
    assert said(health, 0, troubles=[trouble]) == ["not_judged opened"]
    assert [said(health, lag, troubles=[trouble]) for lag in (1_000, 2_000)] == [[], []]


def test_lost_records_are_reported_beside_a_shard_that_cannot_judge() -> None:
    notices = Notices()
    health = Health(SETTINGS, "c", notices=notices, probe_ms=None)
    trouble = {"kind": "operator_error", "shard": 3, "error": "OverflowError: ..."}
    said(health, 0, troubles=[trouble])
    notices.happened(Cause.DATA_LOST, "removed before they were read", 5_000_000)
    assert said(health, 0, troubles=[trouble]) == ["data_lost opened"]


def test_what_the_main_loop_noticed_is_reported_until_it_is_over() -> None:
    notices = Notices()
    health = Health(SETTINGS, "c", notices=notices)
    assert said(health, 0) == []
    notices.hold(Cause.BLIND, "no broker answers")
    assert [said(health, 0), said(health, 0)] == [["blind opened"], []]
    notices.hold(Cause.BLIND, "")
    assert said(health, 0) == ["blind resolved"]


def test_a_restart_that_knows_nothing_yet_resolves_nothing() -> None:
    notices = Notices()
    notices.hold(Cause.BLIND, "the topic was recreated")
    before = Health(SETTINGS, "c", notices=notices)
    (opened,) = before.on_batch(Batch(), (), T0)
    assert opened.severity == "critical"
    after = Health(SETTINGS, "c", before.snapshot())
    assert said(after, 0) == []


def test_a_restart_resolves_lag_and_skew_only_once_it_can_judge_them() -> None:
    lag = {"told": 200_000, "most": 200_000}
    opened = {"opened": {"behind": T0, "clock_skew": T0}, "skewed": [-1], "lag": lag}
    health = Health(SETTINGS, "c", opened, probe_ms=None)
    late = [health.on_batch(Batch(now=T0 + at), (), T0 + at + 300_000) for at in (1_000, 2_000)]
    assert late == [[], []]
    assert said(health, 0) == ["behind resolved"]
    at = [Batch(now=T0 + 1_000 * n, newest={0: T0 + 1_000 * n - 500}) for n in range(ENOUGH)]
    assert {len(health.on_batch(batch, (), batch.now)) for batch in at[:-1]} == {0}
    (over,) = health.on_batch(at[-1], (), at[-1].now)
    assert (over.details["cause"], over.phase) == ("clock_skew", "resolved")


def test_a_batch_of_the_monitors_own_says_nothing_about_lag() -> None:
    health = Health(SETTINGS, "c")
    said(health, 0)
    said(health, 11_000)
    assert health.on_batch(Batch(), (), T0) == []
    assert said(health, 0) == ["behind resolved"]


def test_lost_records_are_reported_with_their_number_each_time_and_resolved_when_no_more_follow() -> None:
    now = [T0]
    notices = Notices(lambda: now[0])
    health = Health(SETTINGS, "c", notices=notices, probe_ms=None)
    notices.happened(Cause.DATA_LOST, "removed before they were read", 70)
    (found,) = health.on_batch(Batch(now=T0), (), T0)
    assert (found.details["cause"], found.details["records"], found.phase) == ("data_lost", 70, "opened")
    now[0] += 200_000
    notices.happened(Cause.DATA_LOST, "again", 3)
    at = [health.on_batch(Batch(now=T0 + ms), (), T0 + ms) for ms in (200_000, 400_000, 500_000)]
    assert [[finding.phase for finding in found] for found in at] == [["updated"], [], ["resolved"]]
    (again,) = at[0]
    assert (again.details["records"], again.incident) == (3, found.incident)
    assert len({found.id, again.id, at[2][0].id}) == 3


def test_an_event_is_reported_again_after_a_batch_that_was_not_committed() -> None:
    notices = Notices()
    committed = Health(SETTINGS, "c", notices=notices).snapshot()
    notices.happened(Cause.STATE_REBUILT, "asked for")
    for _ in range(2):
        assert said(Health(SETTINGS, "c", committed, notices), 0) == ["state_rebuilt opened"]


def test_an_event_that_the_ledger_has_is_not_reported_again() -> None:
    notices = Notices()
    health = Health(SETTINGS, "c", notices=notices)
    notices.happened(Cause.STATE_REBUILT, "asked for")
    said(health, 0)
    assert said(Health(SETTINGS, "c", health.snapshot(), notices), 0) == []


def test_what_happened_at_a_start_for_which_the_clock_was_set_back_is_reported() -> None:
    notices = Notices(lambda: T0)
    health = Health(SETTINGS, "c", {"told": T0 + 3_600_000}, notices)
    notices.happened(Cause.DATA_LOST, "removed while the monitor was away", 1)
    assert said(health, 0) == ["data_lost opened"]


def test_an_event_after_the_clock_was_set_back_is_reported() -> None:
    now = [T0]
    notices = Notices(lambda: now[0])
    health = Health(SETTINGS, "c", {"told": T0 + 3_600_000}, notices)
    assert said(health, 0) == []
    notices.happened(Cause.DATA_LOST, "one hour earlier", 1)
    assert said(health, 0) == ["data_lost opened"]


def test_a_probe_that_finds_no_cluster_says_so_in_words() -> None:
    away = ProbeSample(T0, (), (), ((-1, False),))
    found = Health(SETTINGS, "c").on_batch(Batch(now=T0), (away, away), T0)
    assert found[0].causes[0].why == "the probe gets no answer from brokers: all"


def test_a_probe_that_has_ended_is_said() -> None:
    health = Health(SETTINGS, "c")
    assert said(health, 0, (look(True),)) == []  # noqa: FBT003
    assert [said(health, lag) for lag in (5_000, 9_000)] == [[], []]
    found = health.on_batch(Batch(), (), T0 + 61_000)
    assert [finding.causes[0].why for finding in found] == ["the probe has taken no sample for 61 s"]
    assert said(health, 0, (look(True),)) == ["probe_partial resolved"]  # noqa: FBT003


def test_a_probe_that_samples_rarely_is_not_taken_for_one_that_ended() -> None:
    health = Health(SETTINGS, "c", probe_ms=120_000)
    assert [health.on_batch(Batch(), (), T0 + wait) for wait in (0, 119_000, 300_000)] == [[], [], []]


def test_what_the_probe_missed_ends_when_it_is_switched_off() -> None:
    before = Health(SETTINGS, "c")
    assert said(before, 0, (look(False), look(False))) == ["probe_partial opened"]  # noqa: FBT003
    after = Health(SETTINGS, "c", before.snapshot(), probe_ms=None)
    assert said(after, 0) == ["probe_partial resolved"]
