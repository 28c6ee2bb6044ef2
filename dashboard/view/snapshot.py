"""What the monitor knows now: groups, their newest findings, open incidents, and the monitor's own health.

Pages, terminal and metrics are made from it. `Known` is immutable and every update makes a new one, so a
reader takes `Snapshot.known` once and sees one moment, without a lock, whatever the writer does meanwhile.
Bounded: so many findings a group, so many in all, so many closed incidents; older ones are in the findings
table. Knows no time of its own: `now` and `wall` come with each update.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

from rebalance_monitor.coordinator.lag.committing import COMMITS_ONLY
from rebalance_monitor.dashboard.view.group_view import GroupView
from rebalance_monitor.dashboard.view.incidents import Incidents

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rebalance_monitor.coordinator.findings.finding import Finding
    from rebalance_monitor.coordinator.lag.committing import Committing
    from rebalance_monitor.coordinator.lag.measured import GroupLag

T = TypeVar("T")
FINDINGS_KEPT = 20_000
GONE_KEPT = 10_000
"""Removed groups at most whose time of removal is kept."""


@dataclass(frozen=True, slots=True)
class Update:
    """What one committed batch said.

    groups: group -> summary (coordinator/summary.py). shards: counters of each shard (stat `shard`).
    unreadable: reason -> records. types: record type -> records read. now: the batch's timestamp, wall: the
    driver's clock at writing it (both ms). committing: how groups commit, as far as it is known. lags:
    of all groups, None where nothing new is known.
    """

    findings: Sequence[Finding] = ()
    groups: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    removed: Sequence[str] = ()
    shards: Sequence[Mapping[str, Any]] = ()
    unreadable: Mapping[str, int] = field(default_factory=dict)
    types: Mapping[int, int] = field(default_factory=dict)
    now: int = -1
    wall: int = -1
    batch: int = -1
    rows: int = 0
    state_bytes: int = 0
    committing: Mapping[str, Committing] = field(default_factory=dict)
    lags: Mapping[str, GroupLag] | None = None


@dataclass(frozen=True, slots=True)
class Health:
    """The monitor itself. Times in ms, -1 before the first batch.

    started, last_batch: driver's clock. now: the last batch's timestamp: everything appended before it has
    been read, unless `lag_records` says otherwise. catching_up: shards that still read history; shards: all
    that have been heard of. history_at: time of the newest record read, per shard that is catching up.
    positions_dropped: groups without members whose positions had to make room.
    stages (seconds of each stage of the last batch) and state_store_memory (bytes) are Spark's own figures.
    """

    started: int = -1
    last_batch: int = -1
    now: int = -1
    batch: int = -1
    rows: int = 0
    state_bytes: int = 0
    groups: int = 0
    shards: frozenset[int] = frozenset()
    catching_up: frozenset[int] = frozenset()
    history_at: int = -1
    lag_records: int = 0
    positions_dropped: int = 0
    state_store_memory: int = 0
    stages: Mapping[str, float] = field(default_factory=dict)

    @property
    def is_ready(self) -> bool:
        """Whether the monitor has caught up with the topic since it started."""
        return self.last_batch >= 0 and bool(self.shards) and not self.catching_up


@dataclass(frozen=True, slots=True)
class Known:
    """One moment. version: grows with every change. others: newest findings about no single group.

    findings_held: findings of groups that are held. trim_at: up to so many, the oldest need not go. kept_at:
    when (ms) what an earlier process knew was kept, -1 where there was none. committing: group -> how it
    commits. lags: of groups whose positions and ends are known. Both are kept beside the groups: they change
    all the time.
    """

    cluster: str = ""
    version: int = 0
    groups: Mapping[str, GroupView] = field(default_factory=dict)
    incidents: Incidents = field(default_factory=Incidents)
    others: tuple[Finding, ...] = ()
    health: Health = field(default_factory=Health)
    findings_held: int = 0
    trim_at: int = 0
    kept_at: int = -1
    committing: Mapping[str, Committing] = field(default_factory=dict)
    lags: Mapping[str, GroupLag] = field(default_factory=dict)

    def last_commit(self, group: str) -> int:
        """Return when (ms) a group committed last, -1 where unknown: a summary is of its last change."""
        view = self.groups.get(group)
        summarised = -1 if view is None else int(view.summary.get("last_commit", -1))
        newest = self.committing.get(group)
        return summarised if newest is None else max(newest.at, summarised)

    def commits_per_minute(self, group: str) -> float | None:
        """Return how many offsets a minute a group committed until its last commit, None where unknown."""
        newest = self.committing.get(group)
        return None if newest is None else newest.per_minute

    @property
    def recorded(self) -> Mapping[str, GroupView]:
        """The groups that have a record of their own, without the groups that only commit."""
        return {
            name: view for name, view in self.groups.items() if view.summary.get("group_type") != COMMITS_ONLY
        }

    def after(self, update: Update) -> Known:
        """Return what is known once `update` has been applied."""
        version = self.version + 1
        # Most batches only bring commits: what stays is not copied.
        is_about = any(one.group is not None for one in update.findings)
        is_changed = is_about or bool(update.groups or update.removed)
        groups = dict(self.groups) if is_changed else {}
        for name, summary in update.groups.items():
            groups[name] = groups.get(name, GroupView(name)).summarised(summary, version)
        others = list(self.others)
        for finding in update.findings:
            if finding.group is None:
                others.append(finding)
            else:
                view = groups.get(finding.group)
                # The end of what a removed group had open does not bring it back.
                if view is None and finding.phase != "resolved":
                    view = GroupView(finding.group)
                if view is not None:
                    groups[finding.group] = view.with_finding(finding, version)
        for name in update.removed:
            groups.pop(name, None)
        known = replace(
            self,
            version=version,
            groups=groups if is_changed else self.groups,
            incidents=self.incidents.after(update.findings).without(update.removed),
            others=tuple(others[-GroupView.KEPT :]),
            health=_health(self.health, update),
            findings_held=self.findings_held + len(update.findings),
            committing=_without(_merged(self.committing, update.committing), update.removed),
            lags=_without(self.lags if update.lags is None else update.lags, update.removed),
        )
        return known.trimmed() if known.findings_held > max(known.trim_at, 1.25 * FINDINGS_KEPT) else known

    def trimmed(self) -> Known:
        """Return this without the oldest findings past `FINDINGS_KEPT`; each group keeps its newest.

        With more groups than that more are held. It visits all of them, so it is done again when a quarter as
        many have come on top.
        """
        times = sorted((f.at for view in self.groups.values() for f in view.recent), reverse=True)
        since = times[FINDINGS_KEPT] if len(times) > FINDINGS_KEPT else -1
        groups = {name: view.since(since) for name, view in self.groups.items()}
        held = sum(len(view.recent) for view in groups.values())
        return replace(self, groups=groups, findings_held=held, trim_at=held + held // 4)


def _merged(values: Mapping[str, T], newer: Mapping[str, T]) -> Mapping[str, T]:
    """Return the values with newer ones; of all groups they are copied only where there are such."""
    return {**values, **newer} if newer else values


def _without(values: Mapping[str, T], groups: Sequence[str]) -> Mapping[str, T]:
    """Return the values without the values of removed groups."""
    gone = frozenset(groups)
    return {name: value for name, value in values.items() if name not in gone} if gone else values


def _sum(update: Update, counter: str, before: int) -> int:
    """Return the sum of a counter of all shards; every batch with a clock has them."""
    return sum(int(shard[counter]) for shard in update.shards) if update.shards else before


def _health(health: Health, update: Update) -> Health:
    behind = [shard for shard in update.shards if shard.get("catching_up")]
    reported = {int(shard["shard"]) for shard in update.shards}
    still = (health.catching_up - reported) | {int(shard["shard"]) for shard in behind}
    return replace(
        health,
        # A finding about the monitor itself, between batches, has no timestamp of Spark's: it is no sign of
        # life.
        last_batch=update.wall if update.now >= 0 else health.last_batch,
        now=max(health.now, update.now),
        batch=max(health.batch, update.batch) if update.now < 0 else update.batch,
        rows=update.rows,
        state_bytes=update.state_bytes or health.state_bytes,
        groups=_sum(update, "groups", health.groups),
        positions_dropped=_sum(update, "positions_dropped", health.positions_dropped),
        shards=health.shards | reported,
        catching_up=still,
        history_at=min((int(shard["last_ts"]) for shard in behind), default=-1),
    )


class Snapshot:
    """The current `Known`, its listeners, and what changed since when. Thread-safe."""

    def __init__(self, cluster: str = "", started: int = -1) -> None:
        self._lock = threading.Lock()
        # Versions go on from one process to the next: a page that stayed open begins anew.
        self._known = Known(cluster=cluster, version=max(started, 0), health=Health(started=started))
        # Since when it is known what changed: when each group was removed, and when findings about no group
        # were published.
        self._whole_since = self._published_at = self._known.version
        self._gone: dict[str, int] = {}
        self._listeners: list[Callable[[Known, Update], None]] = []

    @property
    def known(self) -> Known:
        """What is known at this moment."""
        return self._known

    def restore(self, known: Known) -> None:
        """Begin with what an earlier process knew; the monitor's own health begins anew."""
        with self._lock:
            mine = self._known
            version = self._whole_since = mine.version + 1
            self._known = replace(known, cluster=mine.cluster, health=mine.health, version=version)

    def apply(self, update: Update) -> Known:
        """Take one committed batch and notify the listeners, on the caller's thread."""
        with self._lock:
            self._known = known = self._known.after(update)
            for name in update.removed:
                self._gone.pop(name, None)
                self._gone[name] = known.version
            while len(self._gone) > GONE_KEPT:
                self._whole_since = self._gone.pop(next(iter(self._gone)))
            if any(finding.group is None for finding in update.findings):
                self._published_at = known.version
        for listener in self._listeners:
            listener(known, update)
        return known

    def measured(self, *, stages: Mapping[str, float], lag_records: int, state_store_memory: int = 0) -> None:
        """Take what Spark measured of the last batch: seconds by stage, records not yet read, bytes."""
        with self._lock:
            health = replace(
                self._known.health,
                stages=dict(stages),
                lag_records=lag_records,
                state_store_memory=state_store_memory,
            )
            self._known = replace(self._known, health=health)

    def listen(self, listener: Callable[[Known, Update], None]) -> None:
        """Call `listener` after each update, with what is known then; it must neither block nor raise."""
        self._listeners.append(listener)

    def changed_since(self, version: int) -> frozenset[str] | None:
        """Return the groups touched after `version` ("" for what is about none); None: too long ago."""
        with self._lock:
            known = self._known
            if not self._whole_since <= version <= known.version:
                return None
            gone = {name for name, at in self._gone.items() if at > version}
            none = {""} if self._published_at > version else set()
        return frozenset(
            {name for name, view in known.groups.items() if view.version > version} | gone | none
        )
