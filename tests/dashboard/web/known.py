"""Snapshots for tests: a real capture replayed, a few or thousands of made-up groups, and hostile names."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.finding import CauseEntry, Finding, MemberEntry
from rebalance_monitor.coordinator.findings.kinds import Kind, Scope, Severity
from rebalance_monitor.coordinator.settings import DetectionSettings
from rebalance_monitor.dashboard.view.snapshot import Known, Snapshot, Update
from rebalance_monitor.engine.replay.feeding import Feed

CAPTURE = Path(__file__).resolve().parents[2] / "fixtures" / "scenarios" / "python-3.9.1" / "capture"
STORMY = "crash-loop.confluent"
Other = Any
T0 = 1_795_000_000_000
HOSTILE = (
    "<img src=x onerror=alert(1)>",
    "<script>document.title='owned'</script>",
    "\"><svg onload=alert(2)>' onmouseover='alert(3)",
    "javascript:alert(4)",
    "../../../etc/passwd?x=1&y=2#z%00",
    "\u202egnp.evil\u200b",
    "${7*7}{{7*7}}",
    "new\nline\ttab\x00null",
)


@cache
def replayed() -> Known:
    """Return what a real capture, of crash loops among others, leaves in the snapshot."""
    snapshot = Snapshot("lab")
    Feed(snapshot).run(CAPTURE, DetectionSettings())
    return snapshot.known


def snapshot_of(known: Known) -> Snapshot:
    """Return a snapshot that begins with `known`, its health included."""
    snapshot = Snapshot(known.cluster)
    snapshot._known = known
    return snapshot


def summary(
    group: str, generation: int = 1, members: int = 2, at: int = T0, **other: Other
) -> dict[str, Any]:
    """Return a group's summary as the coordinator writes it."""
    return {
        "group": group,
        "group_type": "classic",
        "state": "Stable" if members else "Empty",
        "generation": generation,
        "leader": f"{group}-0",
        "protocol": "range",
        "protocol_type": "consumer",
        "at": at,
        "topics": [f"{group}.orders"],
        "members": members,
        "member_list": [member(group, number) for number in range(min(members, 50))],
        "last_rebalance": at,
        "last_causes": [{"cause": "member_joined", "confidence": 0.95}],
        "storm": False,
        "last_commit": at,
        "offsets_expire_at": -1,
    } | other


def member(group: str, number: int, **other: Other) -> dict[str, Any]:
    """Return one member of a summary."""
    return {
        "member_id": f"{group}-{number}",
        "client_id": f"{group}-c{number}",
        "host": f"/10.0.0.{number}",
        "instance_id": None,
        "family": "java",
        "partitions": 3,
        "session_timeout_ms": 45_000,
        "rebalance_timeout_ms": 300_000,
        "last_commit": T0,
        "deadline": -1,
        "silent": False,
        "assigned": {f"{group}.orders": f"{3 * number}-{3 * number + 2}"},
    } | other


def rebalance(group: str, generation: int, at: int, **other: Other) -> Finding:
    """Return a completed rebalance that one member joined."""
    made = Finding(
        id=f"{abs(hash((group, generation, at))):016x}"[:16],
        kind=Kind.REBALANCE,
        scope=Scope.GROUP,
        severity=Severity.INFO,
        evidence="read",
        group=group,
        group_type="classic",
        state="Stable",
        generation=generation,
        leader=f"{group}-0",
        at=at,
        detected_at=at + 500,
        members_total=2,
        causes=(
            CauseEntry(Cause.MEMBER_JOINED, 0.95, "one joined", f"{group}-1", f"{group}-c1", "/10.0.0.1"),
        ),
        members=(
            MemberEntry(f"{group}-0", None, f"{group}-c0", "/10.0.0.0", host_is_stale=False, role="kept"),
            MemberEntry(f"{group}-1", None, f"{group}-c1", "/10.0.0.1", host_is_stale=False, role="joined"),
        ),
        details={"joined": 1, "left": 0},
    )
    return replace(made, **other)


def storm(group: str, at: int, phase: str = "opened", incident: str = "", share: float = 0.8) -> Finding:
    """Return a phase of a storm; `share`: of the client that is in most of it."""
    identity = incident or f"{abs(hash(group)):016x}"[:16]
    return rebalance(
        group,
        9,
        at,
        id=identity if phase == "opened" else f"{identity[:-1]}r",
        kind=Kind.STORM,
        severity=Severity.CRITICAL,
        evidence="derived",
        phase=phase,
        incident=identity,
        opened_at=at,
        resolution="quiet" if phase == "resolved" else None,
        details={
            "count": 7,
            "window_ms": 300_000,
            "threshold": 5,
            "rule": "generations",
            "worst_client": f"{group}-c1",
            "worst_host": "/10.0.0.1",
            "worst_share": share,
        },
    )


def shard(*, catching_up: bool = False, groups: int = 1) -> dict[str, Any]:
    """Return the counters of one shard."""
    told = {"shard": 0, "rows": 5, "groups": groups, "catching_up": int(catching_up), "last_ts": T0}
    return {**told, "positions_dropped": 0}


def small(*names: str) -> Snapshot:
    """Return a cluster of groups that rebalanced once, a minute ago."""
    snapshot = Snapshot("prod-eu")
    groups = {name: summary(name, generation=3) for name in names}
    told = [rebalance(name, 3, T0 - 60_000) for name in names]
    snapshot.apply(Update(findings=told, groups=groups, shards=[shard()], now=T0, wall=T0, batch=1))
    return snapshot


def crowd(groups: int, now: int = T0) -> Known:
    """Return a cluster of many groups: one in a hundred storms, a tenth is empty, all rebalanced lately."""
    names = [f"team-{number % 97}.service-{number:05d}" for number in range(groups)]
    findings = [rebalance(n, 1, now - 60_000 - (i * 349) % 3_400_000) for i, n in enumerate(names)]
    findings += [storm(name, now - 30_000) for name in names[::100]]
    update = Update(
        findings=sorted(findings, key=lambda finding: finding.at),
        groups={n: summary(n, members=0 if i % 10 == 0 else 1 + i % 7) for i, n in enumerate(names)},
        shards=[shard(groups=groups)],
        now=now,
        wall=now,
        batch=1,
        rows=10,
    )
    return Known(cluster="prod-eu").after(update)
