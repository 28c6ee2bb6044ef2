"""Prints how many modules of coordinator one record enters, and how often it crosses between them.

    python -m tools.route [CAPTURE …]        (by default every recorded scenario of the tests)

A profiler watches every row that a shard's coordinator takes. Rows are grouped by what came of them: a commit
run, a `rebalance`, or a rebalance with a departure (`session_timeout` or `poll_interval_exceeded` beside it).
Medians are over all rows of a group; `crossings` counts calls from one module into another.
"""

import sys
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from statistics import median
from types import FrameType
from typing import Self

from rebalance_monitor.cluster.captures.capture import read_capture
from rebalance_monitor.config.model import Settings
from rebalance_monitor.coordinator.findings.kinds import Kind
from rebalance_monitor.coordinator.findings.outputs import FindingOut, Output
from rebalance_monitor.coordinator.shard import ShardCoordinator
from rebalance_monitor.decoders import Row, rows
from rebalance_monitor.engine.replay.replaying import replay_capture
from rebalance_monitor.engine.settings import detection_settings

ROOT = Path(__file__).resolve().parent.parent
CAPTURES = sorted((ROOT / "tests" / "fixtures" / "scenarios").glob("*/capture"))
DEPARTURES = frozenset({Kind.SESSION_TIMEOUT, Kind.POLL_INTERVAL_EXCEEDED})
Route = tuple[int, int]
"""Modules entered, crossings between modules."""


class Profiler:
    """Counts the modules of coordinator that are entered while it is on, and the crossings between them."""

    def __init__(self) -> None:
        self._modules: set[str] = set()
        self._crossings = 0

    def __enter__(self) -> Self:
        self._modules, self._crossings = set(), 0
        sys.setprofile(self._called)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _called(self, frame: FrameType, event: str, _argument: object) -> None:
        if event != "call":
            return
        module = frame.f_globals.get("__name__", "")
        if not module.startswith("rebalance_monitor.coordinator."):
            return
        self._modules.add(module)
        caller = frame.f_back.f_globals.get("__name__", "") if frame.f_back else ""
        self._crossings += caller != module and caller.startswith("rebalance_monitor.coordinator.")

    @property
    def route(self) -> Route:
        """Return what was counted since the last `with`."""
        return len(self._modules), self._crossings


def routes(captures: Iterable[Path]) -> dict[str, list[Route]]:
    """Return what came of a row -> the route of each such row."""
    found: dict[str, list[Route]] = defaultdict(list)
    plain, profiler = ShardCoordinator.on_row, Profiler()

    def watched(self: ShardCoordinator, row: Row) -> list[Output]:
        with profiler:
            outputs = plain(self, row)
        if name := outcome(row, outputs):
            found[name].append(profiler.route)
        return outputs

    ShardCoordinator.on_row = watched  # type: ignore[method-assign] # for this process only
    try:
        for capture in captures:
            detection = detection_settings(Settings().detection, read_capture(capture).metadata)
            for _ in replay_capture(capture, detection):
                pass
    finally:
        ShardCoordinator.on_row = plain  # type: ignore[method-assign] # as above
    return found


def outcome(row: Row, outputs: Iterable[Output]) -> str:
    """Name what came of a row; "" for what the table has no line for."""
    if row.row_kind == rows.COMMIT_RUN:
        return "commit run"
    kinds = {one.finding.kind for one in outputs if isinstance(one, FindingOut)}
    if Kind.REBALANCE not in kinds:
        return ""
    return "rebalance with a departure" if kinds & DEPARTURES else "rebalance"


def main(arguments: list[str]) -> int:
    """Print the table."""
    found = routes([Path(one) for one in arguments] or CAPTURES)
    print("| what came of a row | rows | modules (median, most) | crossings (median, most) |")
    print("|---|--:|--:|--:|")
    for name, each in sorted(found.items()):
        modules, crossings = zip(*each, strict=True)
        print(
            f"| {name} | {len(each):,} | {median(modules):.0f}, {max(modules)} "
            f"| {median(crossings):.0f}, {max(crossings)} |"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
