"""Metrics: what is exported is what was found, by names of the table."""

from __future__ import annotations

import re
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
from prometheus_client.parser import text_string_to_metric_families as prometheus

from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.degraded import degraded
from rebalance_monitor.coordinator.findings.finding import CauseEntry
from rebalance_monitor.coordinator.findings.kinds import Kind, Severity
from rebalance_monitor.dashboard.metrics.collector import RECORD_TYPES, exposition
from rebalance_monitor.dashboard.metrics.definitions import METRICS, PREFIX, MetricType
from rebalance_monitor.dashboard.metrics.tallies import Histogram
from rebalance_monitor.dashboard.view.snapshot import Update
from rebalance_monitor.decoders.registry import RECORD_TYPES as KNOWN_TYPES
from tests.dashboard.support.played import all_findings, all_updates
from tests.dashboard.support.scrape import OPENMETRICS, Page
from tests.dashboard.view.test_snapshot import about

FORBIDDEN = {
    "member",
    "member_id",
    "client",
    "client_id",
    "host",
    "instance_id",
    "partition",
    "topic",
    "shard",
}


def played() -> Page:
    page = Page()
    for update in all_updates():
        page.snapshot.apply(update)
    page.snapshot.measured(stages={"addBatch": 0.2}, lag_records=7)
    page.tallies.measured({"addBatch": 0.2})
    page.tallies.sent("slack", "sent")
    page.tallies.audited({"findings": 1}, 5_000)
    return page


@pytest.fixture(scope="module")
def page() -> Page:
    return played()


def test_what_was_found_is_what_is_counted(page: Page) -> None:
    findings = [finding for finding in all_findings() if not finding.history]
    kinds, found = Counter(finding.kind.value for finding in findings), page.samples()
    for kind in Kind:
        counted = sum(v for (name, labels), v in found.items() if name == "findings_total" and kind in labels)
        assert counted == kinds[kind.value]
    lasting = set(page.snapshot.known.groups)
    by_cause = Counter(
        (finding.group, finding.causes[0].cause.value)
        for finding in findings
        if finding.kind is Kind.REBALANCE and finding.group in lasting
    )
    removed = {group for update in all_updates() for group in update.removed}
    got = {
        labels: value
        for (name, labels), value in found.items()
        if name == "group_rebalances_by_cause_total" and labels[0] not in removed
    }
    assert got == {pair: count for pair, count in by_cause.items() if pair[0] not in removed}
    assert len({cause for _, cause in got}) >= 5


def test_every_sample_is_of_the_table_and_every_metric_of_the_table_has_samples(page: Page) -> None:
    names = {metric.sample: metric for metric in METRICS.values()}
    seen = set()
    for family in prometheus(exposition(page.registry, "")[0].decode()):
        if not family.name.startswith(PREFIX):
            assert family.name.startswith("process_")
            continue
        for sample in family.samples:
            plain = sample.name
            for suffix in ("_bucket", "_sum", "_count"):
                plain = plain.removesuffix(suffix) if plain.removesuffix(suffix) in names else plain
            metric = names[plain]
            assert set(sample.labels) - {"le"} == {"cluster", *metric.labels}
            seen.add(metric.name)
    # These captures hold no unreadable record, no trouble of the monitor, and no ends of topics.
    lag = {name for name in METRICS if "_lag_" in name and name.startswith("group_")}
    lag |= {"group_partition_committed_offset", "partitions_without_series"}
    assert set(METRICS) - seen == {"records_unreadable", "degraded"} | lag


def test_no_metric_has_a_label_that_grows_but_the_group_its_topics_and_chosen_partitions() -> None:
    places = {"topic", "partition"}
    assert not {label for metric in METRICS.values() for label in metric.labels} & FORBIDDEN - places
    assert {metric.name: set(metric.labels) & places for metric in METRICS.values()
            if places & set(metric.labels)} == {
        "group_topic_lag_records": {"topic"},
        "group_topic_lag_seconds": {"topic"},
        "group_partition_lag_records": places,
        "group_partition_lag_seconds": places,
        "group_partition_committed_offset": places,
    }  # fmt: skip


def test_openmetrics_is_valid_and_its_exemplars_name_findings(page: Page) -> None:
    text, kind = exposition(page.registry, OPENMETRICS)
    assert kind.startswith("application/openmetrics-text")
    ids = {finding.id for finding in all_findings()}
    named = {
        sample.exemplar.labels["finding"]
        for family in openmetrics(text.decode())
        for sample in family.samples
        if sample.exemplar
    }
    assert named
    assert named <= ids


def test_skew_is_the_spread_of_the_members_partitions() -> None:
    page, members = Page(), [{"partitions": 7}, {"partitions": 2}, {"partitions": 5}]
    page.snapshot.apply(Update(groups={"g": {"members": 3, "member_list": members}}))
    page.snapshot.apply(Update(groups={"h": {"members": 40, "member_list": members}}))
    found = page.samples()
    assert found["group_assignment_skew_partitions", ("g",)] == 5
    assert found["group_assignment_skew_partitions", ("h",)] == 0


def test_history_is_no_news() -> None:
    page = Page()
    page.snapshot.apply(Update(findings=[about(Kind.REBALANCE, 1, history=True)]))
    assert page.total("group_rebalances_total") == page.total("findings_total") == 0
    assert page.total("history_findings_total") == 1


def test_incidents_show_until_they_end() -> None:
    page = Page()
    cause = (CauseEntry(Cause.BEHIND, 1.0, "lag"),)
    opened = [
        about(Kind.STORM, 1, phase="opened", incident="s"),
        about(Kind.MONITOR_DEGRADED, 2, None, phase="opened", incident="m", causes=cause),
    ]
    page.snapshot.apply(Update(findings=opened))
    found = page.samples()
    assert found["group_storm_active", ("g",)] == found["degraded", ("behind",)] == 1
    assert found["incidents_open", ("", "storm", "critical")] == 1
    page.snapshot.apply(Update(findings=[about(Kind.STORM, 3, phase="resolved", incident="s")]))
    assert page.samples()["group_storm_active", ("g",)] == 0


def test_groups_and_incidents_are_counted_by_the_team_that_has_them() -> None:
    page = Page(team_of=lambda group: "payments" if group == "g" else "")
    opened = [about(Kind.STORM, 1, name, phase="opened", incident=name) for name in ("g", "h")]
    summary = {"members": 1, "group_type": "classic", "state": "Stable"}
    page.snapshot.apply(Update(groups={"g": summary, "h": summary, "i": summary}, findings=opened))
    counted = {
        (name, labels): value
        for (name, labels), value in page.samples().items()
        if value and name in {"groups", "incidents_open"}
    }
    assert counted == {
        ("groups", ("payments", "classic", "Stable")): 1,
        ("groups", ("", "classic", "Stable")): 2,
        ("incidents_open", ("payments", "storm", "critical")): 1,
        ("incidents_open", ("", "storm", "critical")): 1,
    }


def test_the_monitors_own_health_is_reported() -> None:
    page = Page()
    assert page.samples()["ready", ()] == 0
    shard = {"shard": 0, "groups": 3, "catching_up": 0, "last_ts": 5, "positions_dropped": 4}
    update = Update(
        shards=[shard],
        types={1: 5, 2: 1, 77: 1},
        unreadable={"truncated": 2},
        now=1_999_999_990_000,
        wall=9_000,
    )
    page.snapshot.apply(update)
    page.snapshot.measured(stages={"walCommit": 0.03}, lag_records=12, state_store_memory=8_000)
    page.tallies.measured({"walCommit": 0.03})
    found = page.samples()
    assert found["ready", ()] == 1
    assert (found["lag_seconds", ()], found["lag_records", ()]) == (10, 12)
    assert found["state_store_memory_bytes", ()] == 8_000
    assert found["positions_dropped_total", ()] == 4
    assert found["last_batch_timestamp_seconds", ()] == 9
    assert found["records_read_total", ("offset_commit",)] == 5
    assert found["records_read_total", ("type_77",)] == 1
    assert found["records_unreadable_total", ("truncated",)] == 2
    assert found["batch_stage_seconds_bucket", ("walCommit", "0.025")] == 0
    assert found["batch_stage_seconds_bucket", ("walCommit", "0.05")] == 1
    assert found["build_info", ("1", "3", "4")] == 1


@given(st.lists(st.floats(0, 100), max_size=30))
def test_buckets_count_every_value_once_and_upwards(values: list[float]) -> None:
    histogram = Histogram((0.1, 1.0, 10.0))
    for value in values:
        histogram.observe(value)
    assert sum(histogram.counts) == len(values)
    if values:
        assert histogram.counts[-1] == sum(value > 10 for value in values)
        assert histogram.total == pytest.approx(sum(values))


def test_counts_of_the_cluster_begin_at_zero_so_that_a_first_burst_is_an_increase() -> None:
    page = Page()
    page.tallies.expect(["truncated"], ["sre/slack"])
    found = page.samples()
    assert {found["findings_total", (kind.value, level.value)] for kind in Kind for level in Severity} == {0}
    assert found["records_unreadable_total", ("truncated",)] == 0
    assert [found["sink_sends_total", ("sre/slack", how)] for how in ("ok", "failed")] == [0, 0]
    assert found["rebalances_by_cause_total", ("unknown",)] == 0
    page.snapshot.apply(Update(findings=[about(Kind.REBALANCE, 1, "g")]))
    assert page.total("rebalances_by_cause_total") == 1


def test_names_follow_the_conventions() -> None:
    for metric in METRICS.values():
        assert not metric.name.endswith("_total")
        assert metric.type is not MetricType.HISTOGRAM or metric.buckets == tuple(sorted(metric.buckets))
        assert "_ms" not in metric.name


def test_records_are_called_as_their_type_is() -> None:
    snake = {n: re.sub(r"(?<!^)(?=[A-Z])", "_", record.name).lower() for n, record in KNOWN_TYPES.items()}
    # The label came before the name.
    assert snake | {0: "offset_commit_v0"} == RECORD_TYPES


def test_two_incidents_of_one_cause_are_one_sample() -> None:
    page = Page()
    why = {"at": 5, "phase": "opened", "details": {}}
    found = [degraded("c", Cause.BEHIND, "slow", opened_at=opened, **why) for opened in (3, 4)]
    page.snapshot.apply(Update(findings=found, now=5, wall=5, batch=1))
    assert len(page.snapshot.known.incidents.open) == 2
    text = exposition(page.registry, "")[0].decode()
    assert text.count("rebalance_monitor_degraded{") == 1
