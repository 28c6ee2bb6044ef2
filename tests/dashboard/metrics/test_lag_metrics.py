"""Lag as metrics: by group and topic, bounded, absent where unknown, and under others' names where asked."""

from prometheus_client.parser import text_string_to_metric_families

from rebalance_monitor.coordinator.lag.committing import Committing
from rebalance_monitor.dashboard.metrics.collector import TOPICS, SnapshotCollector, exposition, registry_of
from rebalance_monitor.dashboard.metrics.definitions import OTHER
from rebalance_monitor.dashboard.metrics.tallies import Limits, Tallies
from rebalance_monitor.dashboard.view.snapshot import Snapshot, Update
from tests.dashboard.support.lags import AT, lag


def scrape(
    update: Update, limits: Limits | None = None, names: tuple[str, ...] = ()
) -> dict[tuple[str, ...], float]:
    snapshot, tallies = Snapshot("c"), Tallies(limits or Limits())
    snapshot.listen(tallies.on_update)
    snapshot.apply(update)
    text, _ = exposition(registry_of(SnapshotCollector(snapshot, tallies, {}, lambda: AT / 1000, names)), "")
    return {
        (sample.name, *(value for label, value in sorted(sample.labels.items()) if label != "cluster")):
            sample.value
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
        if "lag" in sample.name or "offset" in sample.name or "last_commit" in sample.name
    }  # fmt: skip


def test_lag_is_given_by_group_and_topic_and_is_absent_where_unknown() -> None:
    found = scrape(Update(groups={"g": {"members": 1}}, lags={"g": lag(orders=7, dark=None)}))
    prefix = "rebalance_monitor_"
    assert found[prefix + "group_lag_records", "g"] == 7
    assert found[prefix + "group_lag_seconds", "g"] == 7
    assert found[prefix + "group_lag_unknown_partitions", "g"] == 1
    assert found[prefix + "group_topic_lag_records", "g", "orders"] == 7
    assert (prefix + "group_topic_lag_records", "g", "dark") not in found
    dark = scrape(Update(groups={"g": {"members": 1}}, lags={"g": lag(dark=None)}))
    assert (prefix + "group_lag_records", "g") not in dark


def test_a_group_that_only_commits_has_lag_and_a_last_commit_that_stays_new() -> None:
    only = {"group_type": "commits", "state": "Empty", "members": 0, "generation": None}
    how = Committing(AT, 12.0)
    found = scrape(Update(groups={"lone": only}, committing={"lone": how}, lags={"lone": lag(orders=3)}))
    assert ("rebalance_monitor_group_generation", "lone") not in found
    assert found["rebalance_monitor_group_lag_records", "lone"] == 3
    assert found["rebalance_monitor_group_last_commit_timestamp_seconds", "lone"] == AT / 1000
    newer = scrape(Update(groups={"g": {"members": 1, "last_commit": 5}}, committing={"g": how}))
    assert newer["rebalance_monitor_group_last_commit_timestamp_seconds", "g"] == AT / 1000


def test_groups_and_topics_are_bounded_and_the_others_are_summed_up() -> None:
    many = {f"t{number:03}": number for number in range(3 * TOPICS)}
    groups = {f"g{number}": {"members": 1} for number in range(4)}
    found = scrape(Update(groups=groups, lags=dict.fromkeys(groups, lag(**many))), Limits(max_groups=1))
    series = [key for key in found if key[0].endswith("group_topic_lag_records")]
    assert len(series) == TOPICS
    assert {key[2] for key in series} == {f"t{number:03}" for number in range(2 * TOPICS, 3 * TOPICS)}
    assert found["rebalance_monitor_group_lag_records", OTHER] == 3 * sum(many.values())


def test_other_exporters_names_are_given_where_asked_for() -> None:
    update = Update(groups={"g": {"members": 1}}, lags={"g": lag(orders=7)})
    assert not any(key[0].startswith(("kafka_", "kminion_")) for key in scrape(update))
    found = scrape(update, names=("kafka_exporter", "kminion"))
    assert found["kafka_consumergroup_lag_sum", "g", "orders"] == 7
    assert found["kafka_consumergroup_current_offset_sum", "g", "orders"] == 100
    assert found["kminion_kafka_consumer_group_topic_lag", "g", "orders"] == 7
    assert found["kminion_kafka_consumer_group_topic_offset_sum", "g", "orders"] == 100
