"""Lag as metrics: by group and topic, bounded, absent where unknown, and under others' names where asked."""

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from rebalance_monitor.coordinator.lag.committing import Committing
from rebalance_monitor.dashboard.metrics.collector import SnapshotCollector, exposition, registry_of
from rebalance_monitor.dashboard.metrics.definitions import OTHER
from rebalance_monitor.dashboard.metrics.lag_series import TOPICS, Wanted
from rebalance_monitor.dashboard.metrics.tallies import Limits, Tallies
from rebalance_monitor.dashboard.view.snapshot import Snapshot, Update
from tests.dashboard.support.lags import AT, lag


def scrape(
    update: Update, limits: Limits | None = None, wanted: Wanted | None = None
) -> dict[tuple[str, ...], float]:
    snapshot, tallies = Snapshot("c"), Tallies(limits or Limits())
    snapshot.listen(tallies.on_update)
    snapshot.apply(update)
    text, _ = exposition(registry_of(SnapshotCollector(snapshot, tallies, {}, lambda: AT / 1000, wanted)), "")
    return {
        (sample.name, *(value for label, value in sorted(sample.labels.items()) if label != "cluster")):
            sample.value
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
        if any(word in sample.name for word in ("lag", "offset", "last_commit", "members", "without"))
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


def test_lag_by_topic_is_given_of_more_groups_than_the_other_series_but_of_none_that_is_denied() -> None:
    groups = {f"g{number}": {"members": 2} for number in range(6)}
    update = Update(groups=groups, lags=dict.fromkeys(groups, lag(orders=7)))
    limits = Limits(deny=("g4",), max_groups=1)
    found = scrape(update, limits, Wanted(("kminion",), groups=4))
    shown = ["g0", "g1", "g2", "g3"]
    for name in ("rebalance_monitor_group_topic_lag_records", "kminion_kafka_consumer_group_topic_lag"):
        assert sorted(key[1] for key in found if key[0] == name) == shown
    assert found["kminion_kafka_consumer_group_members", "g3"] == 2
    assert ("rebalance_monitor_group_lag_records", "g3") not in found
    assert found["rebalance_monitor_group_lag_records", OTHER] == 4 * 7


BOTH = ("kafka_exporter", "kminion")


def test_other_exporters_names_are_given_where_asked_for() -> None:
    update = Update(groups={"g": {"members": 3}}, lags={"g": lag(orders=7)})
    assert not any(key[0].startswith(("kafka_", "kminion_")) for key in scrape(update))
    found = scrape(update, wanted=Wanted(BOTH))
    assert found["kafka_consumergroup_lag_sum", "g", "orders"] == 7
    assert found["kafka_consumergroup_current_offset_sum", "g", "orders"] == 100
    assert found["kafka_consumergroup_members", "g"] == 3
    assert found["kminion_kafka_consumer_group_topic_lag", "g", "orders"] == 7
    assert found["kminion_kafka_consumer_group_topic_offset_sum", "g", "orders"] == 100
    assert found["kminion_kafka_consumer_group_members", "g"] == 3
    assert not any("partition" in key[0] for key in found if key[0].startswith("kminion"))


def test_lag_by_partition_is_given_for_chosen_groups_and_absent_where_unknown() -> None:
    groups = {name: {"members": 1} for name in ("orders-a", "orders-b", "other")}
    lags = dict.fromkeys(groups, lag(orders=7, dark=None))
    assert not any(
        "partition" in key[0] and "unknown" not in key[0] for key in scrape(Update(groups=groups, lags=lags))
    )
    found = scrape(Update(groups=groups, lags=lags), wanted=Wanted(BOTH, ("orders-*",), 100))
    prefix = "rebalance_monitor_group_partition_"
    assert found[prefix + "lag_records", "orders-a", "0", "orders"] == 7
    assert found[prefix + "lag_seconds", "orders-a", "0", "orders"] == 7
    assert found[prefix + "committed_offset", "orders-b", "0", "dark"] == 100
    assert (prefix + "lag_records", "orders-a", "0", "dark") not in found
    assert not any(key[1] == "other" for key in found if key[0].startswith(prefix))
    assert found["kafka_consumergroup_lag", "orders-a", "0", "orders"] == 7
    assert found["kafka_consumergroup_current_offset", "orders-a", "0", "orders"] == 100
    assert found["kminion_kafka_consumer_group_topic_partition_lag", "orders-a", "0", "orders"] == 7


@given(
    st.dictionaries(st.text("ab", min_size=1, max_size=4), st.integers(1, 5), max_size=12), st.integers(0, 30)
)
def test_partitions_with_series_are_bounded_and_the_others_counted(
    topics_of: dict[str, int], most: int
) -> None:
    groups = {name: {"members": 1} for name in topics_of}
    lags = {name: lag(**{f"t{number}": 1 for number in range(count)}) for name, count in topics_of.items()}
    found = scrape(Update(groups=groups, lags=lags), wanted=Wanted((), ("*",), most))
    shown = {key[1:] for key in found if key[0] == "rebalance_monitor_group_partition_lag_records"}
    assert len(shown) <= most
    left_out = found["rebalance_monitor_partitions_without_series",]
    assert len(shown) + left_out == sum(topics_of.values())
    # Of a group all partitions have series, or none.
    assert all(sum(key[0] == name for key in shown) in {0, count} for name, count in topics_of.items())


def test_names_that_are_no_text_keep_the_page_under_other_names_too() -> None:
    update = Update(groups={"a\ud800b": {"members": 1}}, lags={"a\ud800b": lag(**{"t\ud800": 7})})
    found = scrape(update, wanted=Wanted(BOTH, ("*",), 10))
    assert found["kafka_consumergroup_lag_sum", "a\\ud800b", "t\\ud800"] == 7
    assert found["kafka_consumergroup_lag", "a\\ud800b", "0", "t\\ud800"] == 7
