"""Counters and histograms behind `/metrics`, with a bound on how many groups have series of their own.

Which groups: the ones that `allow` matches and `deny` does not, in the order of their first news, at most
`max_groups`. Trouble always has a name: a group with a warning takes the place of one that never had a
finding, else of one with mere information, else of another troubled one, whichever was heard of longest ago;
one with mere information only that of a quiet one. What is counted as `(other)` stays there, so that no
counter ever goes back. A group's series go with it, or with its place.
"""

from __future__ import annotations

import re
import threading
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from fnmatch import translate
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

from rebalance_monitor.coordinator.findings.causes import OF_MONITOR, Cause
from rebalance_monitor.coordinator.findings.kind_table import KINDS
from rebalance_monitor.coordinator.findings.kinds import Kind, Severity
from rebalance_monitor.dashboard.metrics.definitions import DELAY, OTHER, SHORT, STAGE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from rebalance_monitor.coordinator.findings.finding import Finding
    from rebalance_monitor.dashboard.view.snapshot import Known, Update


QUIET, EVENTFUL, TROUBLED = range(3)
"""Ranks of a group: no finding since the process began, information only, a warning or worse."""

_OF_GROUPS = tuple(cause.value for cause in Cause if cause not in OF_MONITOR)


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
                self.session += finding.members_affected or 1
            case Kind.POLL_INTERVAL_EXCEEDED:
                self.poll += finding.members_affected or 1
            case _:
                pass

    def _rebalance(self, finding: Finding) -> None:
        self.rebalances += 1
        self.causes[_cause(finding)] += 1
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
    """The groups that have series of their own; `gone` is called with each group that loses its place."""

    def __init__(self, limits: Limits, gone: Callable[[str], object]) -> None:
        self._most = limits.max_groups
        self._allowed, self._denied = any_of(limits.allow), any_of(limits.deny)
        self._gone = gone
        self._rank: dict[str, int] = {}
        self._seats: tuple[dict[str, None], ...] = tuple({} for _ in range(TROUBLED + 1))
        """By rank, the groups whose last finding or summary is oldest first."""

    def seat(self, group: str, rank: int = QUIET) -> str | None:
        """Return the label of `group`, giving it a place if there is one; None for a denied group."""
        held = self._rank.get(group)
        if held is not None:
            if rank != QUIET:
                del self._seats[held][group]
                self._sit(group, max(held, rank))
            return group
        if not self.may_have_series(group):
            return self.label(group)
        if self.is_full and not self._evict(rank):
            return OTHER
        self._sit(group, rank)
        return group

    def may_have_series(self, group: str) -> bool:
        """Whether series of its own are allowed; a group of the very name of the sum is part of it."""
        return group != OTHER and not self._denied.match(group) and bool(self._allowed.match(group))

    @property
    def is_full(self) -> bool:
        """Whether there is a place only where somebody leaves."""
        return len(self._rank) >= self._most

    def label(self, group: str) -> str | None:
        """Return the label of `group` as it is; None for a denied group."""
        if group in self._rank:
            return group
        return None if self._denied.match(group) else OTHER

    def leave(self, group: str) -> None:
        """Free the place of a group that is gone."""
        held = self._rank.pop(group, None)
        if held is not None:
            del self._seats[held][group]
            self._gone(group)

    def _sit(self, group: str, rank: int) -> None:
        self._rank[group] = rank
        self._seats[rank][group] = None

    def _evict(self, rank: int) -> bool:
        """Free a place for a group of this rank: that of a lower one, or of another troubled one."""
        below = self._seats[: rank + 1 if rank == TROUBLED else rank]
        seated = next((group for seats in below for group in seats), None)
        if seated is not None:
            self.leave(seated)
        return seated is not None


class Tallies:
    """Everything counted since the process began. `lock` guards the counters while they are read."""

    def __init__(self, limits: Limits) -> None:
        self.lock = threading.Lock()
        self.groups: dict[str, GroupTally] = {}
        self.places = Places(limits, lambda group: self.groups.pop(group, None))
        self.findings: Counter[tuple[str, str]] = Counter(
            {(kind.value, severity.value): 0 for kind in Kind for severity in Severity}
        )
        self.causes: Counter[str] = Counter(dict.fromkeys(_OF_GROUPS, 0))
        self.history = 0
        self.types: Counter[int] = Counter()
        self.unreadable: Counter[str] = Counter()
        self.batches = 0
        self.stages: defaultdict[str, Histogram] = defaultdict(lambda: Histogram(STAGE))
        self.delays: defaultdict[str, Histogram] = defaultdict(lambda: Histogram(DELAY))
        self.sends: Counter[tuple[str, str]] = Counter()
        self.audits: dict[str, int] = {}
        self.audited_at = -1

    def expect(self, reasons: Iterable[str], sinks: Iterable[str]) -> None:
        """Begin the counts of unreadable records and of notifications at 0: a first burst is an increase."""
        self.unreadable.update(dict.fromkeys(reasons, 0))
        self.sends.update(dict.fromkeys(product(sinks, ("ok", "failed")), 0))

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
            self._seat(update.committing)
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
        if self.places.is_full and OTHER in self.groups:
            # Quiet groups take no other group's place, and commits of thousands come with every batch.
            return
        for group in groups:
            label = self.places.seat(group)
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
        if finding.kind is Kind.REBALANCE:
            self.causes[_cause(finding)] += 1
        # The end of a removed group's incidents gives no group a place.
        if finding.group is None or finding.phase == "resolved" or finding.kind is Kind.GROUP_REMOVED:
            return
        label = self.places.seat(finding.group, EVENTFUL if finding.severity is Severity.INFO else TROUBLED)
        if label is not None:
            self.groups.setdefault(label, GroupTally()).count(finding)


def _cause(finding: Finding) -> str:
    return (finding.causes[0].cause if finding.causes else Cause.UNKNOWN).value


def _mark(finding: Finding, value: float) -> Mark:
    return Mark(finding.id, value, finding.at / 1000)


def any_of(patterns: Sequence[str]) -> re.Pattern[str]:
    """Return what matches a name that one of the shell patterns matches: every commit of a group asks."""
    return re.compile("|".join(map(translate, patterns)) or "(?!)")
