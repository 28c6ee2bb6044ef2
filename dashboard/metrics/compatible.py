"""Lag under the names of other exporters, so that dashboards and alerts made for them go on working.

For the groups that have lag by topic, switched on by `metrics.names`: by group and topic, and by
partition for the groups of `metrics.partitions`. The label `cluster` stands in front, which neither of the
exporters has. docs/metrics.md has the table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from prometheus_client.core import Metric as Family

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from rebalance_monitor.coordinator.lag.measured import GroupLag, PartitionLag, TopicLag


class Names(NamedTuple):
    """What another exporter calls lag and committed offsets, by topic and by partition, and the members.

    The last three are its labels.
    """

    lag: str
    offsets: str
    partition_lag: str
    partition_offset: str
    members: str
    group: str
    topic: str
    partition: str


NAMES = {
    "kafka_exporter": Names(
        "kafka_consumergroup_lag_sum",
        "kafka_consumergroup_current_offset_sum",
        "kafka_consumergroup_lag",
        "kafka_consumergroup_current_offset",
        "kafka_consumergroup_members",
        "consumergroup",
        "topic",
        "partition",
    ),
    # KMinion has no committed offset by partition.
    "kminion": Names(
        "kminion_kafka_consumer_group_topic_lag",
        "kminion_kafka_consumer_group_topic_offset_sum",
        "kminion_kafka_consumer_group_topic_partition_lag",
        "",
        "kminion_kafka_consumer_group_members",
        "group_id",
        "topic_name",
        "partition_id",
    ),
}
"""exporter -> its names."""


class Shown(NamedTuple):
    """What is shown: lag of groups with series of their own, of those by partition, and members of groups."""

    cluster: str
    lags: Mapping[str, GroupLag]
    partitions: Mapping[str, GroupLag]
    members: Mapping[str, int]


def families(wanted: Collection[str], shown: Shown, text: Callable[[str], str]) -> Iterator[Family]:
    """Yield what is shown under the names of each `wanted` exporter; `text` makes a label's value."""
    for exporter in wanted:
        names = NAMES[exporter]
        found = {name: Family(name, what, "gauge") for name, what in _series(exporter, names).items()}
        for group, count in shown.members.items():
            labels = {"cluster": shown.cluster, names.group: text(group)}
            found[names.members].add_sample(names.members, labels, count)
        for group, lag in shown.lags.items():
            for topic, one in lag.topics.items():
                labels = {"cluster": shown.cluster, names.group: text(group), names.topic: text(topic)}
                _add_topic(found, names, labels, one)
                for place in one.partitions if group in shown.partitions else ():
                    _add_partition(found, names, {**labels, names.partition: str(place.partition)}, place)
        yield from (family for family in found.values() if family.samples)


def _series(exporter: str, names: Names) -> dict[str, str]:
    found = {
        names.lag: f"records that wait, as {exporter} names it",
        names.offsets: f"sum of the committed offsets, as {exporter} names it",
        names.partition_lag: f"records that wait in a partition, as {exporter} names it",
        names.partition_offset: f"committed offset, as {exporter} names it",
        names.members: f"members of the group, as {exporter} names it",
    }
    return {name: what for name, what in found.items() if name}


def _add_topic(found: Mapping[str, Family], names: Names, labels: dict[str, str], one: TopicLag) -> None:
    if one.records is not None:
        found[names.lag].add_sample(names.lag, labels, one.records)
    offsets = sum(place.offset for place in one.partitions)
    found[names.offsets].add_sample(names.offsets, labels, offsets)


def _add_partition(
    found: Mapping[str, Family], names: Names, labels: dict[str, str], place: PartitionLag
) -> None:
    if place.records is not None:
        found[names.partition_lag].add_sample(names.partition_lag, labels, place.records)
    if names.partition_offset:
        found[names.partition_offset].add_sample(names.partition_offset, labels, place.offset)
