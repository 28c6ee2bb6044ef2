"""The metrics: ONE table of names, types, labels and meanings, which code, rules and docs/metrics.md follow.

Names follow Prometheus' conventions: base units (seconds, bytes), `_total` for counters. No member, client,
host or partition is ever a label; the only labels that grow are `group` and, for lag, `topic`: both are
bounded.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

PREFIX = "rebalance_monitor_"
OTHER = "(other)"
"""The value of the label `group` under which the groups without series of their own are summed up."""

SHORT = (0.1, 0.5, 1.0, 3.0, 10.0, 60.0)
DELAY = (0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 30.0, 60.0, 300.0)
STAGE = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 0.75, 1.0, 1.5, 2.5, 5.0, 10.0, 30.0, 120.0)


class MetricType(StrEnum):
    """The types of OpenMetrics that are used here."""

    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"
    INFO = "info"


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric; `name` without prefix and without its type's suffix. Each also has the label `cluster`."""

    name: str
    type: MetricType
    labels: tuple[str, ...]
    what: str
    buckets: tuple[float, ...] = ()

    @property
    def family(self) -> str:
        """The name with its prefix, as the family is called."""
        return PREFIX + self.name

    @property
    def sample(self) -> str:
        """The name under which it is queried (histograms: with `_bucket`, `_sum`, `_count` behind it)."""
        suffix = {MetricType.COUNTER: "_total", MetricType.INFO: "_info"}
        return self.family + suffix.get(self.type, "")


def _gauge(name: str, what: str, *labels: str) -> Metric:
    return Metric(name, MetricType.GAUGE, labels, what)


def _counter(name: str, what: str, *labels: str) -> Metric:
    return Metric(name, MetricType.COUNTER, labels, what)


def _histogram(name: str, what: str, buckets: tuple[float, ...], *labels: str) -> Metric:
    return Metric(name, MetricType.HISTOGRAM, labels, what, buckets)


_PARTITION = ("group", "topic", "partition")
"""Labels of what is given by partition, for the groups of `metrics.partitions`."""

GROUP_METRICS = (
    Metric(
        "group",
        MetricType.INFO,
        ("group", "team"),
        "1 for each group with series, and for `(other)`; the team as of `detection.groups`, else empty",
    ),
    _gauge("group_state", "1 for the state the group is in", "group", "group_type", "state"),
    _gauge("group_members", "members of the group", "group"),
    _gauge("group_generation", "generation of the group, epoch of an epoch-based one", "group"),
    _gauge(
        "group_last_rebalance_timestamp_seconds",
        "when the last rebalance completed; absent before the first",
        "group",
    ),
    _gauge(
        "group_last_commit_timestamp_seconds", "when the group committed last; absent before that", "group"
    ),
    _gauge(
        "group_lag_records",
        "records that wait for the group, of partitions whose lag is known; absent where it is of none",
        "group",
    ),
    _gauge("group_lag_seconds", "age of the oldest record that waits for the group, interpolated", "group"),
    _gauge(
        "group_lag_unknown_partitions", "partitions with a committed offset whose lag is not known", "group"
    ),
    _gauge("group_topic_lag_records", "records that wait for the group in the topic", "group", "topic"),
    _gauge("group_topic_lag_seconds", "age of the oldest record that waits in the topic", "group", "topic"),
    _gauge("group_partition_lag_records", "records that wait in the partition", *_PARTITION),
    _gauge(
        "group_partition_lag_seconds", "age of the oldest record that waits in the partition", *_PARTITION
    ),
    _gauge("group_partition_committed_offset", "committed offset of the partition", *_PARTITION),
    _gauge("group_rebalance_in_progress", "1 while the probe sees the group rebalancing", "group"),
    _gauge("group_rebalance_stuck", "1 while one rebalance goes on past the threshold", "group"),
    _gauge("group_storm_active", "1 while the group storms", "group"),
    _gauge("group_silent_members", "members past a deadline that the broker has not confirmed", "group"),
    _gauge(
        "group_assignment_skew_partitions",
        "partitions that the busiest member has more than the idlest; 0 where not all members are known",
        "group",
    ),
    _counter("group_rebalances", "completed rebalances", "group"),
    _counter(
        "group_rebalances_by_cause", "completed rebalances by their most likely cause", "group", "cause"
    ),
    _counter("group_failed_generations", "generations that never produced an assignment", "group"),
    _counter("group_session_timeouts", "members expired by their session timeout", "group"),
    _counter("group_poll_interval_exceeded", "members that stopped polling for too long", "group"),
    _counter(
        "group_stopped_seconds",
        "consumption stopped for rebalancing: at most, where commits bound it, else at least",
        "group",
    ),
    _histogram(
        "group_join_seconds", "duration of the join phase, upper bound of what is known", SHORT, "group"
    ),
    _histogram("group_sync_seconds", "duration of the sync phase", SHORT, "group"),
)
MONITOR_METRICS = (
    _gauge("groups", "groups by type, state and team", "group_type", "state", "team"),
    _gauge("groups_without_series", "groups that are summed up as `(other)` or denied"),
    _gauge(
        "partitions_without_series",
        "partitions that `metrics.partitions` chose beyond `metrics.max_partitions`; absent without patterns",
    ),
    _gauge("incidents_open", "open incidents; no team: of several groups", "kind", "severity", "team"),
    _gauge("degraded", "1 while the monitor itself is degraded for this reason", "cause"),
    _counter("findings", "live findings published", "kind", "severity"),
    _counter("rebalances_by_cause", "completed rebalances of all groups by their most likely cause", "cause"),
    _counter("history_findings", "findings of rebuilt history: stored, never routed"),
    _counter("records_read", "records read from the offsets topic", "type"),
    _counter("records_unreadable", "records that could not be read", "reason"),
    _gauge("lag_records", "records between what has been read and the end of the topic, at the last batch"),
    _gauge(
        "lag_seconds", "age of the newest moment up to which everything has been read; grows without batches"
    ),
    _gauge("catching_up_shards", "partitions of the topic whose history is still being read"),
    _gauge("ready", "1 once history has been read"),
    _gauge("last_batch_timestamp_seconds", "when the last batch was written; absent before the first"),
    _counter("batches", "batches written"),
    _histogram("batch_stage_seconds", "duration of each stage of a batch", STAGE, "stage"),
    _histogram("detection_delay_seconds", "event to finding, live findings", DELAY, "driven_by"),
    _gauge("state_bytes", "coordinator state, compressed"),
    _gauge("state_groups", "groups in the coordinator state"),
    _counter("positions_dropped", "positions of groups without members that had to make room for newer ones"),
    _gauge("state_store_memory_bytes", "memory of Spark's state store, as Spark reports it"),
    _counter("sink_sends", "notifications handed to a sink, by result", "sink", "result"),
    _gauge("audit_unmet_expectations", "contracts that did not hold in the last audit", "suite"),
    _gauge("audit_timestamp_seconds", "when the last audit ended; absent before the first"),
    Metric("build", MetricType.INFO, ("version", "python", "spark"), "versions of what runs"),
)
METRICS: dict[str, Metric] = {metric.name: metric for metric in (*GROUP_METRICS, *MONITOR_METRICS)}
"""name -> metric; the order is that of the documentation."""
