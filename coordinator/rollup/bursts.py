"""Many groups with one cause at once: they share a coordinator, a deployment or a host.

Groups are counted in a sliding window that ends with the newest one. A burst is published when there are
enough groups, and none has followed for a while or the window is over. Groups that follow within its window
belong to it: it is published again with all of them, when none has followed for a while. All of that is one
incident until it is quiet (burst_incidents.py). A few groups are no burst, and they do not delay a later one.
Findings count by their own time, in that order: neither their batch nor their order in it matters.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import msgspec

from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.finding import MAX_GROUPS, CauseEntry, Finding
from rebalance_monitor.coordinator.findings.kind_table import KINDS
from rebalance_monitor.coordinator.findings.kinds import Kind, Scope, Severity, louder
from rebalance_monitor.coordinator.refine.refinement import among_the_same
from rebalance_monitor.coordinator.rollup.burst_incidents import BurstIncidents

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rebalance_monitor.coordinator.settings import DetectionSettings

_SETTLE_MS = {Kind.ROLLING_RESTART: 60_000}
_USUAL_SETTLE_MS = 3_000
_WHY = {
    Kind.COORDINATOR_MOVED: "{n} groups rebalanced among the same members at once: their coordinator moved",
    Kind.ROLLING_RESTART: "{n} groups replaced all their members at the same time: a deployment",
    Kind.SESSION_TIMEOUT: "members of {n} groups expired at once: a host, network or broker they share",
    Kind.POLL_INTERVAL_EXCEEDED: "members of {n} groups stopped polling at once: something they all wait for",
}
_CAUSES = {
    Kind.COORDINATOR_MOVED: Cause.COORDINATOR_MOVED,
    Kind.ROLLING_RESTART: Cause.MEMBER_LEFT,
    Kind.SESSION_TIMEOUT: Cause.SESSION_TIMEOUT,
    Kind.POLL_INTERVAL_EXCEEDED: Cause.POLL_INTERVAL_EXCEEDED,
}
_EXPIRED = (
    "{n} groups replaced all their members at the same time; "
    "in most groups the members expired instead of leaving"
)
ROLLED_UP = frozenset(_CAUSES)
"""Kinds that are published of many groups at once: with scope cluster these have phases."""

_ITSELF = frozenset({Kind.ROLLING_RESTART, Kind.SESSION_TIMEOUT, Kind.POLL_INTERVAL_EXCEEDED})
"""Kinds of findings that count for a burst of their own kind."""


class Burst(msgspec.Struct):
    """Findings that count together: first and last time (ms), groups, and how much of it is published.

    `groups`: name -> when, id of its finding, host of the member that it is about; forgotten when the window
    is over. `counted`: how many groups are published. `anchor`: id of the first finding. `severity`: the
    highest of these findings. `expired`: groups whose members expired.
    """

    first: int
    last: int
    groups: dict[str, tuple[int, str, str | None]] = msgspec.field(default_factory=dict)
    counted: int = 0
    anchor: str = ""
    severity: Severity = Severity.INFO
    expired: list[str] = msgspec.field(default_factory=list)

    def collect(self, finding: Finding, at: int, window: int) -> None:
        """Count one more; what is older than the newest by more than the window (ms) no longer does.

        What is published still counts.
        """
        group = finding.group or ""
        self.severity = louder(self.severity, finding.severity)
        self.last = max(self.last, at)
        since = self.first if self.counted else self.last - window
        if self.first < since:
            self.groups = {name: one for name, one in self.groups.items() if one[0] >= since}
            self.expired = [name for name in self.expired if name in self.groups]
            self.first = min((one[0] for one in self.groups.values()), default=self.last)
        if at >= since or self.counted:
            self.first = min(self.first, at)
            if group not in self.groups:
                host = finding.members[0].host if finding.members else None
                self.groups[group] = (at, finding.id, host)
                self.expired += [
                    group for entry in finding.causes[:1] if entry.cause is Cause.SESSION_TIMEOUT
                ]

    @property
    def most_expired(self) -> bool:
        """Whether the members of most of its groups were not closed, but expired."""
        return 2 * len(self.expired) > len(self.groups)

    def set_back(self, now: int) -> None:
        """Go on from `now` where the clock that saw the rest was ahead of it."""
        if self.last > now:
            self.first, self.last = min(self.first, now), now
            self.groups = {
                name: (min(at, now), identity, host) for name, (at, identity, host) in self.groups.items()
            }


class Bursts:
    """One burst a kind at most; `state` is what `snapshot` returned, None for a new start.

    `opened`: likewise what that of the incidents did.
    """

    def __init__(
        self,
        settings: DetectionSettings,
        cluster: str,
        state: Mapping[str, Any] | None = None,
        opened: Mapping[str, Any] | None = None,
    ) -> None:
        self._settings = settings
        self._cluster = cluster
        self._bursts = msgspec.convert(dict(state or {}), dict[str, Burst])
        self.incidents = BurstIncidents(cluster, opened)

    def snapshot(self) -> dict[str, Any]:
        """JSON-able memory for the ledger."""
        found: dict[str, Any] = msgspec.to_builtins(self._bursts)
        return found

    def on_batch(self, findings: Iterable[Finding], now: int) -> list[Finding]:
        """Take one batch's findings at `now` (ms); returns the bursts to publish."""
        for burst in self._bursts.values():
            burst.set_back(now)
        self.incidents.set_back(now)
        found: list[Finding] = []
        for at, _, kind, finding in sorted(_counting(findings, now), key=lambda one: one[:2]):
            found += self._settle(kind, at - 1)
            self._collect(kind, finding, at)
        kinds = dict.fromkeys([*self._bursts, *self.incidents.of_kinds()])
        return found + [one for kind in kinds for one in self._settle(Kind(kind), now)]

    def _collect(self, kind: Kind, finding: Finding, at: int) -> None:
        burst, window = self._bursts.get(kind), self._window(kind)
        if burst is None or (burst.counted and at > burst.first + window):
            burst = self._bursts[kind] = Burst(at, at)
        burst.collect(finding, at, window)

    def _settle(self, kind: Kind, now: int) -> list[Finding]:
        """Publish a burst once it has settled by `now` (ms), and resolve its incident once it is over."""
        burst, window, settle = self._bursts.get(kind), self._window(kind), _settle_ms(kind)
        # It cannot be over while its burst may still grow.
        quiet = max(self._settings.storm_quiet_ms, window + settle)
        if burst is None:
            return self.incidents.over(kind, now, quiet)
        found: list[Finding] = []
        settled = min(burst.last + settle, burst.first + window)
        enough = len(burst.groups) >= max(self._settings.roll_up_groups, burst.counted + 1)
        if enough and now >= settled:
            found = [*self.incidents.over(kind, settled, quiet), self._burst_finding(kind, burst)]
        if burst.counted and now > burst.first + window:
            burst.groups, burst.expired = {}, []
        if now > burst.last + 2 * window:
            del self._bursts[kind]
        return found + self.incidents.over(kind, now, quiet)

    def _window(self, kind: Kind) -> int:
        """Return what counts as at once (ms); a deployment takes its time over the groups."""
        settings = self._settings
        return settings.storm_window_ms if kind is Kind.ROLLING_RESTART else settings.roll_up_window_ms

    def _burst_finding(self, kind: Kind, burst: Burst) -> Finding:
        """Make the finding: at the time of its first group, then at its newest, since the first."""
        groups = sorted(burst.groups)
        first, anchor, _ = min(burst.groups.values(), key=lambda one: (one[0], one[1]))
        lost = kind is Kind.ROLLING_RESTART and burst.most_expired
        cause = Cause.SESSION_TIMEOUT if lost else _CAUSES[kind]
        why, at = (_EXPIRED if lost else _WHY[kind]).format(n=len(groups)), first
        if burst.counted:
            why, at = f"{why}; {len(groups) - burst.counted} of them since the last update", burst.last
        burst.anchor = burst.anchor or anchor
        burst.counted = len(groups)
        hosts = [host for _, _, host in burst.groups.values() if host is not None]
        host = _common(hosts) if kind is Kind.SESSION_TIMEOUT else None
        severity = burst.severity if kind in _ITSELF else KINDS[kind].severity
        if lost:
            severity = louder(severity, KINDS[Kind.SESSION_TIMEOUT].severity)
        found = Finding(
            id="",
            kind=kind,
            scope=Scope.CLUSTER,
            severity=severity,
            evidence="suspected",
            confidence=0.8,
            cluster=self._cluster,
            groups=tuple(groups[:MAX_GROUPS]),
            groups_total=len(groups),
            at=at,
            opened_at=first,
            causes=(CauseEntry(cause, 0.8, why, host=host),),
            details={},
        )
        return self.incidents.as_incident(found, burst.anchor, burst.last)


def _settle_ms(kind: Kind) -> int:
    """Return for how long (ms) no finding must follow before a burst of this kind is published."""
    return _SETTLE_MS.get(kind, _USUAL_SETTLE_MS)


def _counting(findings: Iterable[Finding], now: int) -> list[tuple[int, str, Kind, Finding]]:
    """Return the findings that count, each with its time, id and the kind of burst that it counts for.

    A time is never in the future: a record's own may be forged.
    """
    live = ((_kind(one), one) for one in findings if one.group is not None and not one.history)
    return [(min(one.at, now), one.id, kind, one) for kind, one in live if kind is not None]


def _kind(finding: Finding) -> Kind | None:
    named = [entry.cause for entry in finding.causes]
    # If samples show that no coordinator moved, a move is not among the causes.
    moved = Cause.COORDINATOR_MOVED in named
    if finding.kind is Kind.REBALANCE and moved:
        same = named[0] is Cause.COORDINATOR_MOVED or among_the_same(finding.causes)
        return Kind.COORDINATOR_MOVED if same else None
    if finding.kind is Kind.REBALANCE and finding.details.get("renewed"):
        return Kind.ROLLING_RESTART
    return finding.kind if finding.kind in _ITSELF else None


def _common(hosts: list[str]) -> str | None:
    """Return the host that most of them share, if most do."""
    host, count = Counter(hosts).most_common(1)[0] if hosts else ("", 0)
    return host if 2 * count > len(hosts) else None
