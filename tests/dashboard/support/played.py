"""Real captures replayed into what the job would have given the dashboard, batch by batch."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from rebalance_monitor.coordinator.settings import DetectionSettings
from rebalance_monitor.engine.replay.feeding import update_of
from rebalance_monitor.engine.replay.replaying import replay_capture

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rebalance_monitor.coordinator.findings.finding import Finding
    from rebalance_monitor.dashboard.view.snapshot import Update
    from rebalance_monitor.engine.batch.batches import Batch

SCENARIOS = Path(__file__).resolve().parents[2] / "fixtures" / "scenarios"
CAPTURES = ("java-4.1.1", "python-3.9.1", "python-4.1.1")
SMALLEST = "python-3.9.1"


@cache
def updates(name: str) -> tuple[Update, ...]:
    """The batches of one capture, by the name of its folder."""
    found: list[Update] = []

    def take(_: int, batch: Batch, findings: list[Finding]) -> None:
        update = update_of(batch, findings, len(found))
        commits = sum(int(stat["commits"]) for stat in update.shards)
        found.append(replace(update, types={1: commits}, state_bytes=1_000))

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
