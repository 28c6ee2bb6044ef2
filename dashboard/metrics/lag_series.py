"""The series of lag: by group, by topic, and by partition for the groups that are chosen for it.

Lag by topic is given of more groups than have the other series: it is what dashboards of lag are made of.
"""

from __future__ import annotations

from heapq import nsmallest
from typing import TYPE_CHECKING, NamedTuple

from rebalance_monitor.dashboard.metrics.definitions import OTHER
from rebalance_monitor.dashboard.metrics.tallies import any_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rebalance_monitor.coordinator.lag.measured import GroupLag

    Add = Callable[..., None]
    """Adds a sample: name, value, labels."""

TOPICS = 20
"""So many topics of a group have series of their own: those with most lag."""


class Wanted(NamedTuple):
    """What is given of lag beside groups and topics.

    names: other exporters under whose names it is given as well (compatible.py). partitions: patterns of
    groups whose lag is given by partition; most: partitions that have series at most. groups: how many have
    lag by topic at most.
    """

    names: Sequence[str] = ()
    partitions: Sequence[str] = ()
    most: int = 0
    groups: int = 0


def add_group(add: Add, group: str, lag: GroupLag | None) -> None:
    """Add a group's lag, and by topic for the topics that have most."""
    if lag is None:
        return
    _add_sums(add, group, [lag])
    add_topics(add, group, lag)


def add_topics(add: Add, group: str, lag: GroupLag) -> None:
    """Add a group's lag by topic, for the topics that have most."""
    topics = list(lag.topics.items())
    if len(topics) > TOPICS:
        topics = nsmallest(TOPICS, topics, key=lambda item: (-(item[1].records or 0), item[0]))
    for topic, found in sorted(topics):
        if found.records is not None:
            add("group_topic_lag_records", found.records, group, topic)
        if found.age_ms is not None:
            add("group_topic_lag_seconds", found.age_ms / 1000, group, topic)


def add_others(add: Add, lags: Sequence[GroupLag]) -> None:
    """Add the sums of groups without series of their own."""
    if lags:
        _add_sums(add, OTHER, lags)


def add_partitions(add: Add, lags: Mapping[str, GroupLag], wanted: Wanted) -> dict[str, GroupLag]:
    """Add the lag of each partition of the chosen groups; returns these.

    `lags`: of groups with series of their own. Whole groups in the order of their names, so that the same
    ones have series at each scrape, as long as there is room; how many partitions had none is a metric.
    """
    chosen: dict[str, GroupLag] = {}
    used = left_out = 0
    asked_for = any_of(wanted.partitions)
    for group in sorted(name for name in lags if asked_for.match(name)):
        count = sum(len(topic.partitions) for topic in lags[group].topics.values())
        if used + count > wanted.most:
            left_out += count
            continue
        used += count
        chosen[group] = lags[group]
        _add_partitions_of(add, group, lags[group])
    if wanted.partitions:
        add("partitions_without_series", left_out)
    return chosen


def _add_partitions_of(add: Add, group: str, lag: GroupLag) -> None:
    for topic, found in lag.topics.items():
        for one in found.partitions:
            labels = (group, topic, str(one.partition))
            add("group_partition_committed_offset", one.offset, *labels)
            if one.records is not None:
                add("group_partition_lag_records", one.records, *labels)
            if one.age_ms is not None:
                add("group_partition_lag_seconds", one.age_ms / 1000, *labels)


def _add_sums(add: Add, label: str, lags: Sequence[GroupLag]) -> None:
    records = [one.records for one in lags if one.records is not None]
    ages = [one.age_ms for one in lags if one.age_ms is not None]
    if records:
        add("group_lag_records", sum(records), label)
    if ages:
        add("group_lag_seconds", max(ages) / 1000, label)
    add("group_lag_unknown_partitions", sum(one.unknown for one in lags), label)
