"""Lag under the names of other exporters, so that dashboards and alerts made for them go on working.

By group and topic, for the groups that have series of their own. Switched on by `metrics.names`; the label
`cluster` stands in front, which neither of them has.

| series | labels | of |
|---|---|---|
| `kafka_consumergroup_lag_sum` | `consumergroup`, `topic` | kafka_exporter |
| `kafka_consumergroup_current_offset_sum` | `consumergroup`, `topic` | kafka_exporter |
| `kminion_kafka_consumer_group_topic_lag` | `group_id`, `topic_name` | KMinion |
| `kminion_kafka_consumer_group_topic_offset_sum` | `group_id`, `topic_name` | KMinion |
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from prometheus_client.core import Metric as Family

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from rebalance_monitor.coordinator.lag.board import GroupLag


class Names(NamedTuple):
    """What another exporter calls lag and committed offsets, and the labels that it gives them."""

    lag: str
    offsets: str
    group: str
    topic: str


NAMES = {
    "kafka_exporter": Names(
        "kafka_consumergroup_lag_sum", "kafka_consumergroup_current_offset_sum", "consumergroup", "topic"
    ),
    "kminion": Names(
        "kminion_kafka_consumer_group_topic_lag",
        "kminion_kafka_consumer_group_topic_offset_sum",
        "group_id",
        "topic_name",
    ),
}
"""exporter -> its names, by group and topic."""


def families(wanted: Collection[str], cluster: str, lags: Iterable[tuple[str, GroupLag]]) -> Iterator[Family]:
    """Yield lag and committed offsets by group and topic, under the names of each `wanted` exporter."""
    found = list(lags)
    for exporter in wanted:
        names = NAMES[exporter]
        lag = Family(names.lag, f"records that wait, as {exporter} names it", "gauge")
        offsets = Family(names.offsets, f"sum of the committed offsets, as {exporter} names it", "gauge")
        for group, told in found:
            for topic, one in told.topics.items():
                labels = {"cluster": cluster, names.group: group, names.topic: topic}
                if one.records is not None:
                    lag.add_sample(names.lag, labels, one.records)
                offsets.add_sample(names.offsets, labels, sum(place.offset for place in one.partitions))
        yield from (family for family in (lag, offsets) if family.samples)
