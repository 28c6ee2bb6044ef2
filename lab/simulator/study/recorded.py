"""A recording of real brokers and clients (a suite folder of the lab), as rows, facts and join phases."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from rebalance_monitor.cluster.captures.capture import read_capture
from rebalance_monitor.decoders import decode_batch
from rebalance_monitor.decoders.rows import made_rows
from rebalance_monitor.lab.scenario.traffic import TICK_S
from rebalance_monitor.lab.simulator.study.measures import Fact
from rebalance_monitor.lab.simulator.truth import Removed
from rebalance_monitor.lab.truth.facts import breaches
from rebalance_monitor.lab.truth.runfolder import BROKER_VERBS, read_run
from rebalance_monitor.lab.truth.truth import read_truth

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from rebalance_monitor.decoders import Row
    from rebalance_monitor.lab.truth.truth import Truth
    from rebalance_monitor.lab.workers.timings import Timing

_CAUSES = {
    "expired": Removed.EXPIRED,
    "left": Removed.LEFT,
    "poll_left": Removed.POLL,
    "join_deadline": Removed.JOIN_DEADLINE,
    "sync_deadline": Removed.SYNC_DEADLINE,
}


@dataclass(frozen=True, slots=True)
class Run:
    """One group's scenario: client family, timers of its clients (ms), and how they commit.

    `every`: seconds between two records of a partition. `began`: when (ms) its first members were started.
    `until`: for how long after that no broker was restarted and no coordinator moved. `many`: many groups
    started at once, on three brokers.
    """

    scenario: str
    family: str
    session: int
    poll: int
    static: bool
    settings: dict[str, Any]
    members: tuple[str, ...]
    topics: dict[str, int]
    steps: list[dict[str, Any]]
    end: float
    every: float = TICK_S
    began: int = 0
    until: float = math.inf
    many: bool = False


@dataclass(frozen=True, slots=True)
class RecordedPhase:
    """A join phase by the broker's log; `reason` is its wording of what began it."""

    group: str
    began: int
    ended: int
    reason: str


@dataclass(frozen=True, slots=True)
class Recording:
    """Rows by shard, and the events of the broker's log and of the members' journals."""

    shards: dict[int, list[Row]]
    facts: list[Fact]
    phases: list[RecordedPhase]
    runs: dict[str, Run]


def read_recording(folder: Path) -> Recording:
    """Read a suite folder. Raises CaptureError, OSError."""
    events = read_truth(folder)
    return Recording(_rows(folder), list(removals_of(events)), list(_phases(events)), _runs(folder))


def _rows(folder: Path) -> dict[int, list[Row]]:
    found: dict[int, list[Row]] = {}
    with read_capture(folder / "capture").by_partition() as streams:
        for shard, stream in streams.items():
            found[shard] = [row for batch in stream for row in made_rows(decode_batch(batch))]
    return found


def removals_of(events: Sequence[Truth]) -> Iterator[Fact]:
    """Yield the removals of a log, and whether a journal says that the member had stalled before."""
    spans = breaches(events)
    for event in events:
        for member in event.members if event.what in _CAUSES else ():
            cause = _CAUSES[event.what]
            stalled = any(event.at in span for span in spans.get(member, ()))
            if cause is Removed.LEFT and stalled:
                cause = Removed.POLL
            yield Fact(event.group, member, cause, event.at, stalled)


def _phases(events: Iterable[Truth]) -> Iterator[RecordedPhase]:
    began: dict[str, Truth] = {}
    for event in sorted(events, key=lambda event: event.at):
        if event.what == "started":
            began[event.group] = event
        elif event.what in {"completed", "empty"} and event.group in began:
            start = began.pop(event.group)
            yield RecordedPhase(event.group, start.at, event.at, start.reason)
        elif event.what in {"loaded", "unloaded"}:
            began.pop(event.group, None)


def _runs(folder: Path) -> dict[str, Run]:
    """Read the scenario of each group; the groups of a herd with timings differ in these."""
    found: dict[str, Run] = {}
    played = [read_run(path.parent) for path in sorted(folder.glob("runs/*/scenario.yaml"))]
    # All scenarios at production timings share a cluster.
    shared = [step for one in played if one.timings for step in one.steps]
    until = min((step["at"] for step in shared if step["verb"] in BROKER_VERBS), default=math.inf)
    for one in played:
        raw, began = one.raw, one.steps[0]["at"] if one.steps else 0
        run = Run(
            raw["name"],
            raw["family"],
            int(raw["session_ms"]),
            int(raw["poll_ms"]),
            bool(raw["static"]),
            dict(raw["settings"]),
            tuple(raw["members"]),
            dict(raw["topics"]),
            list(raw["steps"]),
            float(raw["end"]) * 1000,
            _every(raw.get("traffic", TICK_S)),
            began,
            until - began,
        )
        found[one.group] = run
        found |= {group: _timed(run, timing) for group, timing in one.timings.items()}
    return found


def _every(traffic: float | bool) -> float:  # noqa: FBT001 - as it was written: early recordings say yes or no
    """Return the seconds between two records of a partition, infinite where none is produced."""
    return TICK_S if traffic is True else float(traffic) or math.inf


def _timed(run: Run, timing: Timing) -> Run:
    """Return the run of one group of a herd: its settings are its own timing."""
    drawn = {
        "heartbeat_ms": timing.heartbeat_ms,
        "commit_ms": timing.commit_ms,
        "commit": timing.way,
        "processing_s": timing.processing_s,
    }
    kept = {key: value for key, value in run.settings.items() if key not in {"groups", "timings"}}
    return replace(run, session=timing.session_ms, poll=timing.poll_ms, settings=kept | drawn, many=True)
