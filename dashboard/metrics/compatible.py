"""Lag under the names of other exporters, so that dashboards and alerts made for them go on working.

For the groups that have lag by topic, switched on by `metrics.names`: by group and topic, and by
partition for the groups of `metrics.partitions`. The label `cluster` stands in front, which neither of the
exporters has. docs/metrics.md has the table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rebalance_monitor.dashboard.metrics.written import Written

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from rebalance_monitor.coordinator.lag.measured import GroupLag, PartitionLag


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

    @property
    def series(self) -> tuple[str, ...]:
        """Return the names of its metrics."""
        named = (self.lag, self.offsets, self.partition_lag, self.partition_offset, self.members)
        return tuple(filter(None, named))


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


def families(wanted: Collection[str], shown: Shown) -> Iterator[Written]:
    """Yield what is shown under the names of each `wanted` exporter."""
    for exporter in wanted:
        names = NAMES[exporter]
        found = _series(exporter, names, shown.cluster)
        for group, count in shown.members.items():
            found[names.members].write(count, group)
        for group, lag in shown.lags.items():
            for topic, one in lag.topics.items():
                if one.records is not None:
                    found[names.lag].write(one.records, group, topic)
                found[names.offsets].write(one.offsets, group, topic)
                for place in one.partitions if group in shown.partitions else ():
                    _add_partition(found, names, (group, topic, str(place.partition)), place)
        yield from (family for family in found.values() if len(family))


def _series(exporter: str, names: Names, cluster: str) -> dict[str, Written]:
    by_topic = (names.group, names.topic)
    by_partition = (*by_topic, names.partition)
    found = (
        (names.lag, "records that wait", by_topic),
        (names.offsets, "sum of the committed offsets", by_topic),
        (names.partition_lag, "records that wait in a partition", by_partition),
        (names.partition_offset, "committed offset", by_partition),
        (names.members, "members of the group", (names.group,)),
    )
    return {
        name: Written(name, f"{what}, as {exporter} names it", cluster, labels)
        for name, what, labels in found
        if name
    }


def _add_partition(
    found: Mapping[str, Written], names: Names, labels: tuple[str, ...], place: PartitionLag
) -> None:
    if place.records is not None:
        found[names.partition_lag].write(place.records, *labels)
    if names.partition_offset:
        found[names.partition_offset].write(place.offset, *labels)
