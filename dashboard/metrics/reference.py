"""Writes docs/metrics.md from the table of metrics, so that they cannot disagree."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rebalance_monitor.dashboard.metrics.compatible import NAMES, Names
from rebalance_monitor.dashboard.metrics.definitions import (
    GROUP_METRICS,
    MONITOR_METRICS,
    OTHER,
    MetricType,
)
from rebalance_monitor.dashboard.metrics.lag_series import TOPICS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rebalance_monitor.dashboard.metrics.definitions import Metric

PAGE = """\
# Metrics

<!-- Generated from dashboard/metrics/definitions.py by `make docs`; edit the table there. -->

`GET /metrics` on the driver (address: section `web` of the [configuration](configuration.md)) gives
Prometheus' text format, or OpenMetrics with exemplars where the scraper asks for it: an exemplar's `finding`
is the id of the finding behind a count or a bucket. Recording and alerting rules lie in `deploy/prometheus/`,
dashboards in `deploy/grafana/` ([how to use them](grafana.md)).

- Every series has the label `cluster`: `cluster_name` of the configuration, else the cluster's id.
- No member, client or host is ever a label. Labels that grow are `group` and, for lag, `topic` (of a group
  the {topics} with most lag) and `partition` (of groups that `metrics.partitions` matches). Of the
  groups that `metrics.allow` matches at most `metrics.max_groups` have series of their own, and at most
  `metrics.lag_groups` have lag by topic. A group in trouble takes
  the place of a quiet one. The others are summed up as `group="{other}"`. Groups that `metrics.deny` matches
  have no series at all.
- A group's series vanish with the group, or with its place. A group that changes from `{other}` to series of
  its own begins at zero there.
- Counters by cluster begin at 0 for every kind and severity, cause, reason and integration
  (`<receiver>/<kind>`), so that `increase()` sees a first burst. A group's series begin with its first value.
- Only live findings count; rebuilt history counts in `{history}` alone.
- The process's own memory, CPU and open files come as `process_…`, as from every Prometheus client.
- Times since something are queried as `time() - …_timestamp_seconds`.
"""

NAMED = """\
`metrics.names` gives lag under these names as well, so that dashboards and alerts made for another exporter
go on working: of `metrics.lag_groups` groups, by partition of those that `metrics.partitions` matches.
Unknown lag is absent, where kafka_exporter has -1. Metrics of topics and brokers are not given.
`/metrics?name[]=NAME` gives chosen metrics only.

"""


def metrics_markdown() -> str:
    """Return the page docs/metrics.md."""
    history = next(metric.sample for metric in MONITOR_METRICS if metric.name == "history_findings")
    page = PAGE.format(other=OTHER, history=history, topics=TOPICS)
    page += "\n## Groups\n\n" + _table(GROUP_METRICS)
    page += "\n## Lag under other exporters' names\n\n" + NAMED + _named()
    page += "\n## The cluster, and the monitor itself\n\n" + _table(MONITOR_METRICS)
    return page + "\n## Buckets\n\n" + _buckets((*GROUP_METRICS, *MONITOR_METRICS))


def _named() -> str:
    ours = (
        "`group_topic_lag_records`",
        "sum of `group_partition_committed_offset`",
        "`group_partition_lag_records`",
        "`group_partition_committed_offset`",
        "`group_members`",
    )
    theirs = zip(*map(_renamed, NAMES.values()), strict=True)
    rows = (f"| {here} | {' | '.join(cells)} |\n" for here, cells in zip(ours, theirs, strict=True))
    return f"| here | {' | '.join(NAMES)} |\n|---|{'---|' * len(NAMES)}\n" + "".join(rows)


def _renamed(names: Names) -> Iterator[str]:
    by_topic = (names.group, names.topic)
    by_partition = (*by_topic, names.partition)
    for series, labels in (
        (names.lag, by_topic),
        (names.offsets, by_topic),
        (names.partition_lag, by_partition),
        (names.partition_offset, by_partition),
        (names.members, (names.group,)),
    ):
        yield f"`{series}{{{','.join(labels)}}}`" if series else "none"


def _table(metrics: Iterable[Metric]) -> str:
    rows = (
        f"| `{metric.sample}` | {metric.type} | {', '.join(f'`{label}`' for label in metric.labels)} "
        f"| {metric.what} |\n"
        for metric in metrics
    )
    return "| metric | type | labels | what |\n|---|---|---|---|\n" + "".join(rows)


def _buckets(metrics: Iterable[Metric]) -> str:
    rows = (
        f"| `{metric.sample}_bucket` | {', '.join(f'{bound:g}' for bound in metric.buckets)} |\n"
        for metric in metrics
        if metric.type is MetricType.HISTOGRAM
    )
    return "| histogram | upper bounds, seconds |\n|---|---|\n" + "".join(rows)
