"""Real captures replayed into what the job would have given the dashboard, batch by batch."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from rebalance_monitor.cli.replaying import Replay, read_sightings
from rebalance_monitor.cli.timeline import Lane, timeline
from rebalance_monitor.cluster.capture import read_capture
from rebalance_monitor.coordinator.outputs import GroupOut, Output, RemovedOut, StatOut
from rebalance_monitor.coordinator.settings import DetectionSettings
from rebalance_monitor.dashboard.snapshot import Update
from rebalance_monitor.decoders import decode_batch

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from rebalance_monitor.coordinator.findings import Finding

SCENARIOS = Path(__file__).resolve().parents[1] / "fixtures" / "scenarios"
CAPTURES = ("java-4.1.1", "python-3.9.1", "python-4.1.1")
SMALLEST = "python-3.9.1"


class _Updates(Replay):
    """The replay, noting what each batch put out."""

    __slots__ = ("updates",)

    def _told(self, now: int, outputs: list[Output], *parts: Any) -> list[Finding]:  # noqa: ANN401 - the replay's own
        findings = super()._told(now, outputs, *parts)
        stats = [out for out in outputs if isinstance(out, StatOut)]
        self.updates.append(
            Update(
                findings=findings,
                groups={out.group: out.summary for out in outputs if isinstance(out, GroupOut)},
                removed=[out.group for out in outputs if isinstance(out, RemovedOut)],
                shards=[stat.data for stat in stats if stat.kind == "shard"],
                types={1: sum(int(stat.data["commits"]) for stat in stats if stat.kind == "shard")},
                now=now,
                wall=now,
                batch=len(self.updates),
                rows=sum(int(stat.data["rows"]) for stat in stats if stat.kind == "shard"),
                state_bytes=1_000,
            )
        )
        return findings


@cache
def updates(name: str) -> tuple[Update, ...]:
    """The batches of one capture, by the name of its folder."""
    capture = read_capture(SCENARIOS / name / "capture")
    replay = _Updates(DetectionSettings(), capture.metadata.cluster_id)
    replay.updates: list[Update] = []
    with capture.by_partition(8_192) as streams:
        lanes = [Lane(shard, map(decode_batch, stream)) for shard, stream in streams.items()]
        for _ in replay.run(timeline(lanes), read_sightings(capture)):
            pass
    return tuple(replay.updates)


def all_updates() -> Iterator[Update]:
    """The batches of all captures, one after the other."""
    for name in CAPTURES:
        yield from updates(name)


def all_findings() -> list[Finding]:
    """The findings of all captures."""
    return [finding for update in all_updates() for finding in update.findings]
