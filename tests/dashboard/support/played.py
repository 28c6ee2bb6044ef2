"""Real captures replayed into what the job would have given the dashboard, batch by batch."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from rebalance_monitor.coordinator.findings.outputs import GroupOut, Output, RemovedOut, StatOut
from rebalance_monitor.coordinator.settings import DetectionSettings
from rebalance_monitor.dashboard.view.snapshot import Update
from rebalance_monitor.engine.replay.replaying import replay_capture

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rebalance_monitor.coordinator.findings.finding import Finding

SCENARIOS = Path(__file__).resolve().parents[2] / "fixtures" / "scenarios"
CAPTURES = ("java-4.1.1", "python-3.9.1", "python-4.1.1")
SMALLEST = "python-3.9.1"


@cache
def updates(name: str) -> tuple[Update, ...]:
    """The batches of one capture, by the name of its folder."""
    found: list[Update] = []

    def take(now: int, outputs: list[Output], findings: list[Finding]) -> None:
        stats = [out for out in outputs if isinstance(out, StatOut)]
        found.append(
            Update(
                findings=findings,
                groups={out.group: out.summary for out in outputs if isinstance(out, GroupOut)},
                removed=[out.group for out in outputs if isinstance(out, RemovedOut)],
                shards=[stat.data for stat in stats if stat.kind == "shard"],
                types={1: sum(int(stat.data["commits"]) for stat in stats if stat.kind == "shard")},
                now=now,
                wall=now,
                batch=len(found),
                rows=sum(int(stat.data["rows"]) for stat in stats if stat.kind == "shard"),
                state_bytes=1_000,
            )
        )

    for _ in replay_capture(SCENARIOS / name / "capture", DetectionSettings(), watch=take):
        pass
    return tuple(found)


def all_updates() -> Iterator[Update]:
    """The batches of all captures, one after the other."""
    for name in CAPTURES:
        yield from updates(name)


def all_findings() -> list[Finding]:
    """The findings of all captures."""
    return [finding for update in all_updates() for finding in update.findings]
