"""The collector of `/metrics`: samples made from one moment of the snapshot and from the tallies.

Nothing is registered per group, so a group's series vanish with it. Exemplars (OpenMetrics) name the finding
behind a count or a bucket.
"""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import Metric as Family
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector
from prometheus_client.samples import Exemplar

from rebalance_monitor.config.teams import nobodys
from rebalance_monitor.coordinator.findings.kind_table import KINDS
from rebalance_monitor.coordinator.findings.kinds import Kind
from rebalance_monitor.dashboard.metrics import compatible, lag_series
from rebalance_monitor.dashboard.metrics.compatible import Shown
from rebalance_monitor.dashboard.metrics.definitions import METRICS, OTHER
from rebalance_monitor.dashboard.metrics.lag_series import Wanted
from rebalance_monitor.dashboard.metrics.written import Rest, Written, text
from rebalance_monitor.dashboard.view.incidents import by_group

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from rebalance_monitor.coordinator.lag.measured import GroupLag
    from rebalance_monitor.dashboard.metrics.definitions import Metric
    from rebalance_monitor.dashboard.metrics.tallies import GroupTally, Histogram, Mark, Tallies
    from rebalance_monitor.dashboard.view.group_view import GroupView
    from rebalance_monitor.dashboard.view.incidents import Incident
    from rebalance_monitor.dashboard.view.snapshot import Health, Known, Snapshot

# What the types of records are called, by the number in a record's key (docs/records.md).
RECORD_TYPES = {
    0: "offset_commit_v0",
    1: "offset_commit",
    2: "group_metadata",
    3: "consumer_group_metadata",
    4: "consumer_group_partition_metadata",
    5: "consumer_group_member_metadata",
    6: "consumer_group_target_assignment_metadata",
    7: "consumer_group_target_assignment_member",
    8: "consumer_group_current_member_assignment",
    9: "share_group_partition_metadata",
    10: "share_group_member_metadata",
    11: "share_group_metadata",
    12: "share_group_target_assignment_metadata",
    13: "share_group_target_assignment_member",
    14: "share_group_current_member_assignment",
    15: "share_group_state_partition_metadata",
    16: "consumer_group_regular_expression",
    17: "streams_group_metadata",
    18: "streams_group_partition_metadata",
    19: "streams_group_member_metadata",
    20: "streams_group_target_assignment_metadata",
    21: "streams_group_target_assignment_member",
    22: "streams_group_current_member_assignment",
    23: "streams_group_topology",
    24: "streams_group_target_assignment_resolved_topic_ids",
}
_OPEN = {
    Kind.REBALANCE_IN_PROGRESS: "group_rebalance_in_progress",
    Kind.REBALANCE_STUCK: "group_rebalance_stuck",
    Kind.STORM: "group_storm_active",
}
_TEAMS_KEPT = 65_536
"""Groups whose team is kept from scrape to scrape: to try each pattern on each group takes too long."""

_COUNTERS: dict[str, Callable[[GroupTally], float]] = {
    "group_failed_generations": lambda tally: tally.failed,
    "group_session_timeouts": lambda tally: tally.session,
    "group_poll_interval_exceeded": lambda tally: tally.poll,
    "group_stopped_seconds": lambda tally: tally.stopped_s,
}


class _Page:
    """The families of one scrape."""

    def __init__(self, cluster: str) -> None:
        self._cluster = text(cluster)
        self.families = {name: _family(metric, cluster) for name, metric in METRICS.items()}

    def add(self, name: str, value: float, *labels: str, mark: Mark | None = None) -> None:
        """Add a sample of a gauge, counter or info."""
        family = self.families[name]
        if isinstance(family, Written):
            family.write(value, *labels)
            return
        given = self._labels(name, labels)
        family.add_sample(METRICS[name].sample, given, value, exemplar=_exemplar(mark))

    def histogram(self, name: str, histogram: Histogram, *labels: str) -> None:
        """Add the samples of one histogram; nothing before its first observation."""
        if not histogram.counts:
            return
        family, sample, given = self.families[name], METRICS[name].sample, self._labels(name, labels)
        seen = 0
        for slot, bound in enumerate((*histogram.bounds, float("inf"))):
            seen += histogram.counts[slot]
            upper = "+Inf" if slot == len(histogram.bounds) else str(bound)
            mark = _exemplar(histogram.marks.get(slot))
            family.add_sample(f"{sample}_bucket", {**given, "le": upper}, seen, exemplar=mark)
        family.add_sample(f"{sample}_sum", given, histogram.total)
        family.add_sample(f"{sample}_count", given, seen)

    def _labels(self, name: str, values: Sequence[str]) -> dict[str, str]:
        given = zip(METRICS[name].labels, map(text, values), strict=True)
        return {"cluster": self._cluster, **dict(given)}


def _family(metric: Metric, cluster: str) -> Family:
    if "topic" in metric.labels:
        return Written(metric.family, metric.what, cluster, metric.labels)
    return Family(metric.family, metric.what, metric.type.value)


class SnapshotCollector(Collector):
    """Makes every family of the table from the snapshot, at `clock()` seconds since epoch."""

    def __init__(
        self,
        snapshot: Snapshot,
        tallies: Tallies,
        build: Mapping[str, str],
        clock: Callable[[], float],
        wanted: Wanted | None = None,
        team_of: Callable[[str], str] = nobodys,
    ) -> None:
        self._snapshot = snapshot
        self._tallies = tallies
        self._build = tuple(build.get(label, "") for label in METRICS["build"].labels)
        self._clock = clock
        self._wanted = wanted or Wanted()
        self._team_of = lru_cache(_TEAMS_KEPT)(team_of)

    def describe(self) -> Iterable[Family]:
        """Name the families without a scrape."""
        return _Page("").families.values()

    def collect(self) -> Iterator[Family]:
        """Yield the families that have samples."""
        known = self._snapshot.known
        page = _Page(known.cluster)
        page.add("build", 1, *self._build)
        with self._tallies.lock:
            _groups(page, known, self._tallies.places.label, self._team_of)
            for group, tally in self._tallies.groups.items():
                _tally(page, group, tally)
            _totals(page, self._tallies)
            label_of = self._tallies.places.label
            _teams(page, {label_of(name) for name in known.groups}, self._team_of)
            seated = {name: one for name, one in known.lags.items() if label_of(name) == name != OTHER}
            more = self._more(known, seated)
            shown = seated | more
            members = {
                name: _members(view)
                for name, view in known.groups.items()
                if label_of(name) == name or name in more
            }
        for name, lag in more.items():
            lag_series.add_topics(page.add, name, lag)
        partitions = lag_series.add_partitions(page.add, seated, self._wanted)
        _incidents(page, known, self._team_of)
        _health(page, known.health, self._clock())
        yield from (family for family in page.families.values() if _has_samples(family))
        others = Shown(known.cluster, shown, partitions, members)
        yield from compatible.families(self._wanted.names, others)

    def _more(self, known: Known, seated: Mapping[str, GroupLag]) -> dict[str, GroupLag]:
        """Return the groups that have only lag by topic: by name, so the same ones at each scrape."""
        room, may = self._wanted.groups - len(seated), self._tallies.places.may_have_series
        rest = sorted(name for name in known.lags.keys() - seated.keys() if may(name)) if room > 0 else []
        return {name: known.lags[name] for name in rest[:room]}


def _has_samples(family: Family) -> bool:
    return len(family) > 0 if isinstance(family, Written) else bool(family.samples)


def _teams(page: _Page, labels: Iterable[str | None], team_of: Callable[[str], str]) -> None:
    """Add whose the groups with series are, so that queries can join their series with a team."""
    for label in labels:
        if label is not None:
            page.add("group", 1, label, "" if label == OTHER else team_of(label))


def _groups(
    page: _Page, known: Known, label_of: Callable[[str], str | None], team_of: Callable[[str], str]
) -> None:
    """Add the gauges of groups, the others' summed up; and how many are of each type, state and team."""
    states: Counter[tuple[str, str, str]] = Counter()
    others: list[GroupView] = []
    open_incidents = by_group(known.incidents.open.values())
    without = 0
    for name, view in known.groups.items():
        states[*_state_of(view), team_of(name)] += 1
        label = label_of(name)
        if label == name != OTHER:
            _group(page, name, [view], open_incidents)
            _last_commit(page, known, name, [name])
            lag_series.add_group(page.add, name, known.lags.get(name))
            page.add("group_state", 1, name, *_state_of(view))
            generation = view.summary.get("generation")
            if generation is not None:
                page.add("group_generation", generation, name)
        else:
            without += 1
            others += [view] if label == OTHER else []
    unnamed = [view.name for view in others]
    if others:
        _group(page, OTHER, others, open_incidents)
    _last_commit(page, known, OTHER, unnamed)
    lag_series.add_others(page.add, [known.lags[name] for name in unnamed if name in known.lags])
    for state, count in sorted(states.items()):
        page.add("groups", count, *state)
    page.add("groups_without_series", without)


def _state_of(view: GroupView) -> tuple[str, str]:
    return str(view.summary.get("group_type") or "unknown"), str(view.summary.get("state") or "unknown")


def _group(
    page: _Page, label: str, views: Sequence[GroupView], incidents: Mapping[str, list[Incident]]
) -> None:
    """Add the gauges of one label: sums, for times the newest, for skew the worst."""
    open_ones = [incident for view in views for incident in incidents.get(view.name, ())]
    page.add("group_members", sum(map(_members, views)), label)
    for kind, name in _OPEN.items():
        page.add(name, sum(incident.kind is kind for incident in open_ones), label)
    silent = sum(incident.kind is Kind.MEMBER_SILENT for incident in open_ones)
    page.add("group_silent_members", silent, label)
    page.add("group_assignment_skew_partitions", max(map(_skew, views), default=0), label)
    newest = max((int(view.summary.get("last_rebalance", -1)) for view in views), default=-1)
    if newest >= 0:
        page.add("group_last_rebalance_timestamp_seconds", newest / 1000, label)


def _last_commit(page: _Page, known: Known, label: str, groups: Sequence[str]) -> None:
    newest = max(map(known.last_commit, groups), default=-1)
    if newest >= 0:
        page.add("group_last_commit_timestamp_seconds", newest / 1000, label)


def _members(view: GroupView) -> int:
    return int(view.summary.get("members", 0))


def _skew(view: GroupView) -> int:
    """Return how uneven the assignment is; 0 where the summary does not list every member."""
    listed = view.summary.get("member_list", ())
    counts = [int(member.get("partitions", 0)) for member in listed]
    return max(counts) - min(counts) if counts and len(counts) == view.summary.get("members") else 0


def _tally(page: _Page, group: str, tally: GroupTally) -> None:
    page.add("group_rebalances", tally.rebalances, group, mark=tally.last)
    for cause, count in sorted(tally.causes.items()):
        page.add("group_rebalances_by_cause", count, group, cause)
    for name, value in _COUNTERS.items():
        page.add(name, value(tally), group)
    page.histogram("group_join_seconds", tally.join, group)
    page.histogram("group_sync_seconds", tally.sync, group)


def _totals(page: _Page, tallies: Tallies) -> None:
    for (kind, severity), count in sorted(tallies.findings.items()):
        page.add("findings", count, kind, severity)
    for cause, count in sorted(tallies.causes.items()):
        page.add("rebalances_by_cause", count, cause)
    page.add("history_findings", tallies.history)
    for number, count in sorted(tallies.types.items()):
        page.add("records_read", count, RECORD_TYPES.get(number, f"type_{number}"))
    for reason, count in sorted(tallies.unreadable.items()):
        page.add("records_unreadable", count, reason)
    page.add("batches", tallies.batches)
    for stage, histogram in sorted(tallies.stages.items()):
        page.histogram("batch_stage_seconds", histogram, stage)
    for driven_by, histogram in sorted(tallies.delays.items()):
        page.histogram("detection_delay_seconds", histogram, driven_by)
    for (sink, result), count in sorted(tallies.sends.items()):
        page.add("sink_sends", count, sink, result)
    for suite, unmet in sorted(tallies.audits.items()):
        page.add("audit_unmet_expectations", unmet, suite)
    if tallies.audited_at >= 0:
        page.add("audit_timestamp_seconds", tallies.audited_at / 1000)


def _incidents(page: _Page, known: Known, team_of: Callable[[str], str]) -> None:
    counts = Counter({(kind.value, spec.severity.value, ""): 0 for kind, spec in KINDS.items()})
    for one in known.incidents.open.values():
        team = team_of(one.latest.group) if one.latest.group is not None else ""
        counts[one.kind.value, one.latest.severity.value, team] += 1
    for labels, count in sorted(counts.items()):
        page.add("incidents_open", count, *labels)
    degraded = (one.latest for one in known.incidents.open.values() if one.kind is Kind.MONITOR_DEGRADED)
    # Two incidents may have one cause, and two samples with one name are an error to Prometheus.
    for cause in sorted({latest.causes[0].cause.value for latest in degraded if latest.causes}):
        page.add("degraded", 1, cause)


def _health(page: _Page, health: Health, now: float) -> None:
    page.add("ready", int(health.is_ready))
    page.add("catching_up_shards", len(health.catching_up))
    page.add("state_bytes", health.state_bytes)
    page.add("state_groups", health.groups)
    page.add("positions_dropped", health.positions_dropped)
    page.add("state_store_memory_bytes", health.state_store_memory)
    page.add("lag_records", health.lag_records)
    if health.last_batch >= 0:
        page.add("last_batch_timestamp_seconds", health.last_batch / 1000)
        read_until = health.history_at if health.catching_up and health.history_at >= 0 else health.now
        page.add("lag_seconds", max(now - read_until / 1000, 0.0))


def _exemplar(mark: Mark | None) -> Any:  # noqa: ANN401 - the client library's stubs ask for Any
    return None if mark is None else Exemplar({"finding": mark.finding}, mark.value, mark.at)


def registry_of(collector: SnapshotCollector) -> CollectorRegistry:
    """Return a registry with the collector and the process's own memory, CPU and files."""
    registry = CollectorRegistry()
    registry.register(collector)
    ProcessCollector(registry=registry)
    return registry


def exposition(registry: CollectorRegistry, accept: str, only: Collection[str] = ()) -> tuple[bytes, str]:
    """Return the page and its content type: OpenMetrics where `accept` asks for it, else Prometheus' text.

    `only`: names of the metrics that are asked for; all of them where none is given.
    """
    encode, content_type = choose_encoder(accept)
    wanted = {name.removesuffix("_total").removesuffix("_info") for name in only}
    rest: list[Family] = []
    page: list[bytes] = []
    for family in registry.collect():
        if wanted and family.name not in wanted:
            continue
        if isinstance(family, Written):
            page.append(family.text())
        else:
            rest.append(family)
    return b"".join([*page, encode(Rest(rest))]), content_type
