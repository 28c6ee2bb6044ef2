"""Metrics: what is exported is what was found, by names of the table, with a bound on groups."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
from prometheus_client.parser import text_string_to_metric_families as prometheus

from rebalance_monitor.coordinator.causes import Cause
from rebalance_monitor.coordinator.findings import CauseEntry
from rebalance_monitor.coordinator.kinds import Kind, Severity
from rebalance_monitor.coordinator.rollup import degraded
from rebalance_monitor.dashboard.metrics import METRICS, OTHER, PREFIX, MetricType
from rebalance_monitor.dashboard.metrics_collector import (
    RECORD_TYPES,
    SnapshotCollector,
    exposition,
    registry_of,
)
from rebalance_monitor.dashboard.metrics_tallies import Histogram, Limits, Tallies
from rebalance_monitor.dashboard.snapshot import Snapshot, Update
from rebalance_monitor.decoders.registry import RECORD_TYPES as KNOWN_TYPES
from tests.dashboard.played import all_findings, all_updates
from tests.dashboard.test_snapshot import about

if TYPE_CHECKING:
    from collections.abc import Iterable

NOW = 2_000_000_000.0
OPENMETRICS = "application/openmetrics-text; version=1.0.0"
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
LABELS = list(dict.fromkeys([*(label for metric in METRICS.values() for label in metric.labels), "le"]))
BUILD = {"version": "1", "python": "3", "spark": "4"}


class Page:
    """Snapshot, tallies and what a scrape of them gives."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.snapshot, self.tallies = Snapshot("c"), Tallies(limits or Limits())
        self.snapshot.listen(self.tallies.on_update)
        self.registry = registry_of(SnapshotCollector(self.snapshot, self.tallies, BUILD, lambda: NOW))

    def samples(self) -> dict[tuple[str, tuple[str, ...]], float]:
        """(name, values of the labels in the order of the table) -> value."""
        text = exposition(self.registry, "")[0].decode()
        return {
            (sample.name.removeprefix(PREFIX), values(sample.labels)): sample.value
            for family in prometheus(text)
            for sample in family.samples
        }

    def total(self, name: str) -> float:
        return sum(value for (found, _), value in self.samples().items() if found == name)


def values(labels: dict[str, str]) -> tuple[str, ...]:
    return tuple(labels[name] for name in LABELS if name in labels)


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
    # These captures hold no unreadable record and no trouble of the monitor.
    assert set(METRICS) - seen == {"records_unreadable", "degraded"}


def test_no_metric_has_a_label_that_grows_but_the_group() -> None:
    assert not {label for metric in METRICS.values() for label in metric.labels} & FORBIDDEN


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


def test_a_group_takes_its_series_with_it() -> None:
    page = Page()
    page.snapshot.apply(
        Update(groups={"g": {"members": 2, "generation": 4}}, findings=[about(Kind.REBALANCE, 1)])
    )
    assert any("g" in labels for _, labels in page.samples())
    page.snapshot.apply(Update(removed=["g"]))
    assert not any("g" in labels for _, labels in page.samples())


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
    assert found["incidents_open", ("storm", "critical")] == 1
    page.snapshot.apply(Update(findings=[about(Kind.STORM, 3, phase="resolved", incident="s")]))
    assert page.samples()["group_storm_active", ("g",)] == 0


def test_the_monitors_own_health_is_told() -> None:
    page = Page()
    assert page.samples()["ready", ()] == 0
    shard = {"shard": 0, "groups": 3, "catching_up": 0, "last_ts": 5}
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


moves = st.lists(
    st.tuples(st.sampled_from(["summary", "finding", "removed"]), st.integers(0, 9)), min_size=1, max_size=60
)


@settings(max_examples=40, deadline=None)
@given(moves, st.integers(0, 5))
def test_groups_are_bounded_and_no_count_is_lost_or_taken_back(
    done: list[tuple[str, int]], limit: int
) -> None:
    page, before = Page(Limits(deny=("g9",), max_groups=limit)), 0.0
    counts: Counter[str] = Counter()
    for number, (what, which) in enumerate(done):
        group = f"g{which}"
        if what == "summary":
            page.snapshot.apply(Update(groups={group: {"members": 1}}))
        elif what == "finding":
            page.snapshot.apply(Update(findings=[about(Kind.REBALANCE, number, group)]))
            counts[group] += group != "g9"
        else:
            page.snapshot.apply(Update(removed=[group]))
        found = page.samples()
        own = {labels[0] for (name, labels) in found if name.startswith("group_")} - {OTHER}
        assert len(own) <= limit
        assert "g9" not in own
        other = found.get(("group_rebalances_total", (OTHER,)), 0.0)
        assert other >= before
        before = other
        if not any(verb == "removed" for verb, _ in done[: number + 1]):
            assert page.total("group_rebalances_total") == counts.total()


def test_troubled_groups_come_before_quiet_ones() -> None:
    page = Page(Limits(max_groups=2))
    page.snapshot.apply(Update(groups={f"quiet{n}": {"members": 3} for n in range(5)}))
    page.snapshot.apply(Update(findings=[about(Kind.STORM, 1, "loud", phase="opened")]))
    found = page.samples()
    assert found["group_storm_active", ("loud",)] == 1
    assert found["group_members", (OTHER,)] == 12
    assert found["groups_without_series", ()] == 4


def test_trouble_always_has_a_name_and_information_pushes_nobody_out_but_quiet_groups() -> None:
    page = Page(Limits(max_groups=3))

    def happens(kind: Kind, *groups: str) -> set[str]:
        page.snapshot.apply(Update(findings=[about(kind, 1, group) for group in groups]))
        return {labels[0] for name, labels in page.samples() if name == "group_rebalances_total"} - {OTHER}

    page.snapshot.apply(Update(groups={"quiet": {"members": 3}}))
    assert happens(Kind.REBALANCE, "a", "b", "c") == {"a", "b", "c"}
    assert happens(Kind.REBALANCE, "d") == {"a", "b", "c"}
    assert happens(Kind.SESSION_TIMEOUT, "e", "f") == {"c", "e", "f"}
    assert happens(Kind.SESSION_TIMEOUT, "g") == {"e", "f", "g"}
    assert happens(Kind.REBALANCE, "e") == {"e", "f", "g"}
    assert happens(Kind.SESSION_TIMEOUT, "h") == {"e", "g", "h"}


def test_the_end_of_what_a_removed_group_had_open_brings_no_group_back() -> None:
    page = Page()
    page.snapshot.apply(Update(groups={"g": {"state": "Empty"}}))
    page.snapshot.apply(Update(findings=[about(Kind.STORM, 1, "g", phase="opened", incident="s")]))
    page.snapshot.apply(Update(findings=[about(Kind.GROUP_REMOVED, 2, "g")], removed=["g"]))
    page.snapshot.apply(Update(findings=[about(Kind.STORM, 3, "g", phase="resolved", incident="s")]))
    assert list(page.snapshot.known.groups) == []
    assert "g" not in {label for _, labels in page.samples() for label in labels}


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


def test_groups_that_are_not_allowed_are_summed_up() -> None:
    page = Page(Limits(allow=("orders-*",)))
    page.snapshot.apply(Update(groups={"orders-1": {"members": 1}, "batch": {"members": 5}}))
    assert page.samples()["group_members", (OTHER,)] == 5


def test_hostile_group_names_stay_one_label() -> None:
    page, name = Page(), 'a"} 1\n# HELP x\\'
    page.snapshot.apply(Update(groups={name: {"members": 1, "generation": 0}}))
    for accept in ("", OPENMETRICS):
        text = exposition(page.registry, accept)[0].decode()
        parse = openmetrics if accept else prometheus
        assert name in labels(parse(text), "group_members")


def test_a_group_named_like_the_sum_is_part_of_it() -> None:
    page = Page(Limits(max_groups=1))
    page.snapshot.apply(Update(groups={OTHER: {"members": 2, "generation": 3}, "a": {"members": 1}}))
    page.snapshot.apply(Update(groups={"b": {"members": 4}}))
    text = exposition(page.registry, "")[0].decode()
    series = [line.rpartition(" ")[0] for line in text.splitlines() if not line.startswith("#")]
    assert len(series) == len(set(series))
    assert page.samples()["group_members", (OTHER,)] == 6
    page.snapshot.apply(Update(removed=[OTHER]))
    assert page.samples()["group_members", (OTHER,)] == 4
    assert ("group_rebalances_total", (OTHER,)) in page.samples()


def labels(families: Iterable[object], name: str) -> set[str]:
    return {
        sample.labels["group"]
        for family in families
        for sample in family.samples  # type: ignore[attr-defined]  # a family of the client library
        if sample.name == PREFIX + name
    }


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
