"""Counters and histograms behind `/metrics`, with a bound on how many groups have series of their own.

Which groups: those that `allow` matches and `deny` does not, in the order in which they are heard of, at most
`max_groups`. A group with a finding takes the place of one that never had any: that loses no count. The rest
is counted as group `(other)`, for good, so that no counter ever goes back. A group's series go with it.
"""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, NamedTuple

from rebalance_monitor.coordinator.kinds import KINDS, Kind
from rebalance_monitor.dashboard.metrics import DELAY, OTHER, SHORT, STAGE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from rebalance_monitor.coordinator.findings import Finding
    from rebalance_monitor.dashboard.snapshot import Known, Update


class Mark(NamedTuple):
    """An exemplar: the finding behind a value (seconds, or 1 for a count), with its time (s)."""

    finding: str
    value: float
    at: float


@dataclass(slots=True)
class Histogram:
    """Observations in seconds; counts and marks per bucket, the last one without bound."""

    bounds: tuple[float, ...]
    total: float = 0.0
    counts: list[int] = field(default_factory=list)
    marks: dict[int, Mark] = field(default_factory=dict)

    def observe(self, value: float, mark: Mark | None = None) -> None:
        """Count one value; `mark` becomes the exemplar of its bucket."""
        self.counts = self.counts or [0] * (len(self.bounds) + 1)
        slot = next((n for n, bound in enumerate(self.bounds) if value <= bound), len(self.bounds))
        self.counts[slot] += 1
        self.total += value
        if mark is not None:
            self.marks[slot] = mark


@dataclass(slots=True)
class GroupTally:
    """The counters of one group, or of `(other)`."""

    rebalances: int = 0
    last: Mark | None = None
    causes: Counter[str] = field(default_factory=Counter)
    failed: int = 0
    session: int = 0
    poll: int = 0
    stopped_s: float = 0.0
    join: Histogram = field(default_factory=lambda: Histogram(SHORT))
    sync: Histogram = field(default_factory=lambda: Histogram(SHORT))

    def count(self, finding: Finding) -> None:
        """Take one live finding."""
        match finding.kind:
            case Kind.REBALANCE:
                self._rebalance(finding)
            case Kind.REBALANCE_FAILED:
                self.failed += int(finding.details.get("failed", 1))
            case Kind.SESSION_TIMEOUT:
                self.session += 1
            case Kind.POLL_INTERVAL_EXCEEDED:
                self.poll += 1
            case _:
                pass

    def _rebalance(self, finding: Finding) -> None:
        self.rebalances += 1
        self.causes[finding.causes[0].cause.value if finding.causes else "unknown"] += 1
        self.last = _mark(finding, 1.0)
        stopped = finding.stopped_ms_min if finding.stopped_ms_max is None else finding.stopped_ms_max
        self.stopped_s += max(stopped or 0, 0) / 1000
        for histogram, ms in ((self.join, finding.join_ms_max), (self.sync, finding.sync_ms)):
            if ms is not None and ms >= 0:
                histogram.observe(ms / 1000, _mark(finding, ms / 1000))


@dataclass(frozen=True, slots=True)
class Limits:
    """Which groups may have series of their own: shell patterns, and how many at most."""

    allow: Sequence[str] = ("*",)
    deny: Sequence[str] = ()
    max_groups: int = 500


class Places:
    """Who has series of its own; `gone` is called with each group that loses its place."""

    def __init__(self, limits: Limits, gone: Callable[[str], object]) -> None:
        self._limits = limits
        self._gone = gone
        self._own: set[str] = set()
        self._quiet: dict[str, None] = {}

    def seat(self, group: str, *, event: bool) -> str | None:
        """Return the label of `group`, giving it a place if there is one; None for a denied group."""
        if group in self._own:
            if event:
                self._quiet.pop(group, None)
            return group
        label = self.label(group)
        # A group may go by the very name of the sum: it is part of it.
        if label is None or group == OTHER or not _matches(group, self._limits.allow):
            return label
        if len(self._own) >= self._limits.max_groups and not (event and self._evict()):
            return OTHER
        self._own.add(group)
        if not event:
            self._quiet[group] = None
        return group

    def label(self, group: str) -> str | None:
        """Return the label of `group` as it is; None for a denied group."""
        if group in self._own:
            return group
        return None if _matches(group, self._limits.deny) else OTHER

    def leave(self, group: str) -> None:
        """Free the place of a group that is gone."""
        if group in self._own:
            self._own.discard(group)
            self._quiet.pop(group, None)
            self._gone(group)

    def _evict(self) -> bool:
        quiet = next(iter(self._quiet), None)
        if quiet is not None:
            self.leave(quiet)
        return quiet is not None


class Tallies:
    """Everything counted since the process began. `lock` guards the counters while they are read."""

    def __init__(self, limits: Limits) -> None:
        self.lock = threading.Lock()
        self.groups: dict[str, GroupTally] = {}
        self.places = Places(limits, lambda group: self.groups.pop(group, None))
        self.findings: Counter[tuple[str, str]] = Counter()
        self.history = 0
        self.types: Counter[int] = Counter()
        self.unreadable: Counter[str] = Counter()
        self.batches = 0
        self.stages: defaultdict[str, Histogram] = defaultdict(lambda: Histogram(STAGE))
        self.delays: defaultdict[str, Histogram] = defaultdict(lambda: Histogram(DELAY))
        self.sends: Counter[tuple[str, str]] = Counter()
        self.audits: dict[str, int] = {}
        self.audited_at = -1

    def seed(self, groups: Iterable[str]) -> None:
        """Give groups that are known from an earlier process their places."""
        with self.lock:
            self._seat(groups)

    def on_update(self, _known: Known, update: Update) -> None:
        """Count one batch; a listener of the snapshot."""
        with self.lock:
            self.batches += 1
            self.types.update(update.types)
            self.unreadable.update(update.unreadable)
            self._seat(update.groups)
            for finding in update.findings:
                self._count(finding)
            for group in update.removed:
                self.places.leave(group)

    def measured(self, stages: Mapping[str, float]) -> None:
        """Take the durations (s) of one batch's stages."""
        with self.lock:
            for stage, took in stages.items():
                self.stages[stage].observe(took)

    def sent(self, sink: str, result: str) -> None:
        """Count one notification that was handed to `sink`."""
        with self.lock:
            self.sends[sink, result] += 1

    def audited(self, unmet: Mapping[str, int], at: int) -> None:
        """Take the result of an audit: suite -> expectations that did not hold, at `at` (ms)."""
        with self.lock:
            self.audits, self.audited_at = dict(unmet), at

    def _seat(self, groups: Iterable[str]) -> None:
        for group in groups:
            label = self.places.seat(group, event=False)
            if label is not None:
                self.groups.setdefault(label, GroupTally())

    def _count(self, finding: Finding) -> None:
        if finding.history:
            self.history += 1
            return
        self.findings[finding.kind.value, finding.severity.value] += 1
        if finding.detected_at >= 0 and finding.phase != "updated":
            delay = max(finding.detected_at - finding.at, 0) / 1000
            self.delays[KINDS[finding.kind].driven_by.value].observe(delay, _mark(finding, delay))
        label = None if finding.group is None else self.places.seat(finding.group, event=True)
        if label is not None:
            self.groups.setdefault(label, GroupTally()).count(finding)


def _mark(finding: Finding, value: float) -> Mark:
    return Mark(finding.id, value, finding.at / 1000)


def _matches(group: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(group, pattern) for pattern in patterns)
