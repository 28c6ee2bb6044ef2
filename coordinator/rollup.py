"""What no single shard can see: unreadable records by rate, and many groups with one cause at once.

Runs on the driver after each batch; its memory is JSON-able and bounded. Groups that rebalance among the
same members within seconds of each other share a coordinator that moved or restarted; groups that restart one
member after the other share a deployment; members of many groups that expire together share a host.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from rebalance_monitor.coordinator.causes import Cause
from rebalance_monitor.coordinator.findings import MAX_GROUPS, CauseEntry, Finding, finding_id, record_anchor
from rebalance_monitor.coordinator.kinds import KINDS, Kind, Scope, Severity
from rebalance_monitor.coordinator.reasons import MAJORITY

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rebalance_monitor.coordinator.findings import Details
    from rebalance_monitor.coordinator.outputs import StatOut
    from rebalance_monitor.coordinator.settings import DetectionSettings

_SAME_MEMBERS = frozenset({Cause.LEADER_REJOINED, Cause.COORDINATOR_MOVED})
_SETTLE_MS = {Kind.ROLLING_RESTART: 60_000}
_USUAL_SETTLE_MS = 3_000
_TALLY_MS = 1_000
_WHY = {
    Kind.COORDINATOR_MOVED: "{n} groups rebalanced among the same members at once: their coordinator moved",
    Kind.ROLLING_RESTART: "{n} groups replaced their members one by one at the same time: a deployment",
    Kind.SESSION_TIMEOUT: "members of {n} groups expired at once: a host, network or broker they share",
}
_CAUSES = {
    Kind.COORDINATOR_MOVED: Cause.COORDINATOR_MOVED,
    Kind.ROLLING_RESTART: Cause.MEMBER_LEFT,
    Kind.SESSION_TIMEOUT: Cause.SESSION_TIMEOUT,
}


class RollUp:
    """The roll-up; `state` is what `snapshot` returned, None for a new start."""

    def __init__(
        self, settings: DetectionSettings, cluster: str, state: dict[str, Any] | None = None
    ) -> None:
        self._settings = settings
        self._cluster = cluster
        memory = state or {}
        # A dict of groups: a burst may be of all groups there are, and each is looked up.
        self._bursts: dict[str, dict[str, Any]] = {
            kind: {**burst, "groups": dict.fromkeys(burst["groups"])}
            for kind, burst in memory.get("bursts", {}).items()
        }
        self._reasons: dict[str, dict[str, Any]] = dict(memory.get("reasons", {}))

    def snapshot(self) -> dict[str, Any]:
        """JSON-able memory for the ledger."""
        bursts = {kind: {**burst, "groups": list(burst["groups"])} for kind, burst in self._bursts.items()}
        return {"bursts": bursts, "reasons": self._reasons}

    def on_batch(self, findings: Iterable[Finding], stats: Iterable[StatOut], batch_ts: int) -> list[Finding]:
        """Take one batch's findings and counters; `batch_ts` in ms never goes back."""
        for finding in findings:
            self._collect(finding, min(finding.at, batch_ts))
        found = self._settled(batch_ts)
        for stat in stats:
            if stat.kind == "unreadable":
                found += self._unreadable(stat.data, min(int(stat.data["ts"]), batch_ts))
        return found + self._readable_again(batch_ts)

    def _collect(self, finding: Finding, at: int) -> None:
        """Take one finding; `at` is its time, but never in the future: a record's own time may be forged."""
        kind = _burst_kind(finding)
        if kind is None or finding.history or finding.group is None:
            return
        burst = self._bursts.get(kind)
        if burst is None or at - burst["first"] > self._window(kind):
            if burst is not None and not burst["told"]:
                return
            burst = self._bursts[kind] = {
                "first": at,
                "last": at,
                "anchor": finding.id,
                "groups": {},
                "hosts": [],
                "told": False,
            }
        burst["last"] = max(burst["last"], at)
        if finding.group not in burst["groups"]:
            burst["groups"][finding.group] = None
            burst["hosts"] += [member.host for member in finding.members[:1]]

    def _settled(self, now: int) -> list[Finding]:
        """Tell a burst once it has settled; forget it once it is over."""
        found = []
        for name, burst in list(self._bursts.items()):
            window = self._window(Kind(name))
            quiet = burst["last"] + _SETTLE_MS.get(Kind(name), _USUAL_SETTLE_MS)
            if now >= min(quiet, burst["first"] + window) and not burst["told"]:
                burst["told"] = True
                if len(burst["groups"]) >= self._settings.roll_up_groups:
                    found.append(self._burst(Kind(name), burst))
            if now > burst["first"] + 2 * window:
                del self._bursts[name]
        return found

    def _window(self, kind: Kind) -> int:
        """Return what counts as at once (ms); a deployment takes its time over the groups."""
        settings = self._settings
        return settings.storm_window_ms if kind is Kind.ROLLING_RESTART else settings.roll_up_window_ms

    def _burst(self, kind: Kind, burst: dict[str, Any]) -> Finding:
        groups = sorted(burst["groups"])
        why = _WHY[kind].format(n=len(groups))
        host = _common(burst["hosts"]) if kind is Kind.SESSION_TIMEOUT else None
        entry = CauseEntry(_CAUSES[kind], 0.8, why, host=host)
        return Finding(
            id=finding_id(self._cluster, kind, "cluster", burst["anchor"]),
            kind=kind,
            scope=Scope.CLUSTER,
            severity=KINDS[kind].severity,
            evidence="suspected",
            confidence=0.8,
            cluster=self._cluster,
            groups=tuple(groups[:MAX_GROUPS]),
            groups_total=len(groups),
            at=burst["first"],
            causes=(entry,),
            details={},
        )

    def _unreadable(self, data: dict[str, Any], at: int) -> list[Finding]:
        reason = str(data["reason"])
        memory = self._reasons.setdefault(reason, {"counts": [], "incident": "", "opened": at, "last": at})
        memory["last"] = max(memory["last"], at)
        since = memory["last"] - self._settings.unreadable_window_ms
        memory["counts"] = [entry for entry in memory["counts"] if entry[0] > since]
        _count(memory["counts"], at - at % _TALLY_MS + _TALLY_MS - 1, int(data["count"]))
        total = sum(count for _, count in memory["counts"])
        if memory["incident"] or total < self._settings.unreadable_threshold:
            return []
        anchor = record_anchor(int(data["shard"]), int(data["first_offset"]), at) + f"/{reason}"
        memory["opened"] = at
        memory["incident"] = finding_id(
            self._cluster, Kind.UNREADABLE_RECORDS, "cluster", anchor, phase="opened"
        )
        details: Details = {
            "reason": reason,
            "count": total,
            "window_ms": self._settings.unreadable_window_ms,
            "sample": f"{data['shard']}/{data['first_offset']}",
        }
        return [self._about(memory, at, "opened", details, memory["incident"])]

    def _readable_again(self, now: int) -> list[Finding]:
        found = []
        for reason, memory in list(self._reasons.items()):
            over = memory["last"] + self._settings.unreadable_window_ms
            if now < over:
                continue
            del self._reasons[reason]
            if memory["incident"]:
                identity = finding_id(
                    self._cluster,
                    Kind.UNREADABLE_RECORDS,
                    "cluster",
                    f"{memory['incident']}/{over}",
                    phase="resolved",
                )
                found.append(self._about(memory, over, "resolved", {"reason": reason}, identity))
        return found

    def _about(self, memory: dict[str, Any], at: int, phase: str, details: Details, identity: str) -> Finding:
        return Finding(
            id=identity,
            kind=Kind.UNREADABLE_RECORDS,
            scope=Scope.CLUSTER,
            severity=KINDS[Kind.UNREADABLE_RECORDS].severity,
            evidence="read",
            cluster=self._cluster,
            at=at,
            incident=memory["incident"],
            phase=phase,
            opened_at=memory["opened"],
            resolution="quiet" if phase == "resolved" else None,
            details=details,
        )


def degraded(
    cluster: str, cause: Cause, why: str, *, opened_at: int, at: int, phase: str, details: Details
) -> Finding:
    """Make a finding about the monitor itself; `cause` is one of those of monitor_degraded, times in ms."""
    kind = Kind.MONITOR_DEGRADED
    anchor = f"degraded/{cause}/{opened_at}"
    return Finding(
        id=finding_id(cluster, kind, "monitor", anchor, phase=phase),
        kind=kind,
        scope=Scope.MONITOR,
        severity=Severity.CRITICAL if cause is Cause.BLIND else KINDS[kind].severity,
        evidence="read",
        cluster=cluster,
        at=at,
        causes=(CauseEntry(cause, 1.0, why),),
        incident=finding_id(cluster, kind, "monitor", anchor, phase="opened"),
        phase=phase,
        opened_at=opened_at,
        resolution="quiet" if phase == "resolved" else None,
        details={"cause": cause.value, **details},
    )


def _burst_kind(finding: Finding) -> Kind | None:
    if finding.kind is Kind.REBALANCE and finding.causes and finding.causes[0].cause in _SAME_MEMBERS:
        # Of a rejoin that is certain the probe has seen that no coordinator moved.
        first = finding.causes[0]
        asked = first.cause is Cause.LEADER_REJOINED and first.confidence >= MAJORITY
        return None if asked else Kind.COORDINATOR_MOVED
    return finding.kind if finding.kind in {Kind.ROLLING_RESTART, Kind.SESSION_TIMEOUT} else None


def _count(counts: list[list[int]], at: int, number: int) -> None:
    """Add to the tally of a second: shards and batches do not multiply what is remembered."""
    for entry in counts:
        if entry[0] == at:
            entry[1] += number
            return
    counts.append([at, number])


def _common(hosts: list[str]) -> str | None:
    """Return the host that most of them share, if most do."""
    host, count = Counter(hosts).most_common(1)[0] if hosts else ("", 0)
    return host if 2 * count > len(hosts) else None
