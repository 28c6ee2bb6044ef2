"""Prints which modules of coordinator one record enters, and how often it crosses between them.

    python -m tools.route [--modules] [CAPTURE …]        (by default every recorded scenario of the tests)

A profiler watches every row that a shard's coordinator takes. Rows are grouped by what came of them: a commit
run, a `rebalance`, or a rebalance with a departure (`session_timeout` or `poll_interval_exceeded` beside it).
Medians are over all rows of a group; `crossings` counts calls from one module into another. `--modules` lists
the modules that at least one row in twenty enters, and the functions by which they are entered.
"""

import sys
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from statistics import median
from types import FrameType
from typing import NamedTuple, Self

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
PACKAGE = "rebalance_monitor.coordinator."
COMMIT_RUN = "commit run"
_SOME = 0.05


class Route(NamedTuple):
    """Of one row: the functions by which each module was entered, and the crossings between modules."""

    entered: dict[str, set[str]]
    crossings: int


class Profiler:
    """Counts the modules of coordinator that are entered while it is on, and the crossings between them."""

    def __init__(self) -> None:
        self._entered: dict[str, set[str]] = {}
        self._crossings = 0

    def __enter__(self) -> Self:
        self._entered, self._crossings = {}, 0
        sys.setprofile(self._called)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _called(self, frame: FrameType, event: str, _argument: object) -> None:
        if event != "call":
            return
        module = frame.f_globals.get("__name__", "")
        if not module.startswith(PACKAGE):
            return
        caller = frame.f_back.f_globals.get("__name__", "") if frame.f_back else ""
        functions = self._entered.setdefault(module, set())
        if caller != module:
            functions.add(frame.f_code.co_name)
            self._crossings += caller.startswith(PACKAGE)

    @property
    def route(self) -> Route:
        """Return what was counted since the last `with`."""
        return Route(self._entered, self._crossings)


def routes(captures: Iterable[Path]) -> dict[str, list[Route]]:
    """Return what came of a row -> the route of each such row."""
    found: dict[str, list[Route]] = defaultdict(list)
    plain, profiler = ShardCoordinator.on_row, Profiler()

    def watched(self: ShardCoordinator, row: Row, *, waits: bool = False) -> list[Output]:
        # Each row for itself: one that waited would take its route with others.
        del waits
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
        return COMMIT_RUN
    kinds = {one.finding.kind for one in outputs if isinstance(one, FindingOut)}
    if Kind.REBALANCE not in kinds:
        return ""
    return "rebalance with a departure" if kinds & DEPARTURES else "rebalance"


def main(arguments: list[str]) -> int:
    """Print the tables."""
    found = routes([Path(one) for one in arguments if one != "--modules"] or CAPTURES)
    print("| what came of a row | rows | modules (median, most) | crossings (median, most) |")
    print("|---|--:|--:|--:|")
    for name, each in sorted(found.items()):
        modules = [len(route.entered) for route in each]
        crossings = [route.crossings for route in each]
        print(
            f"| {name} | {len(each):,} | {median(modules):.0f}, {max(modules)} "
            f"| {median(crossings):.0f}, {max(crossings)} |"
        )
    if "--modules" in arguments:
        for name, each in sorted(found.items()):
            print_modules(name, each)
    return 0


def print_modules(name: str, each: list[Route]) -> None:
    """Print the modules that rows with this outcome enter, most rows first."""
    rows_of: Counter[str] = Counter()
    functions: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for route in each:
        rows_of.update(route.entered.keys())
        for module, names in route.entered.items():
            functions[module].update(names)
    print(f"\n| {name}: module | rows | entered by |\n|---|--:|---|")
    for module, count in rows_of.most_common():
        if count >= _SOME * len(each):
            by = ", ".join(function for function, _ in functions[module].most_common(4))
            print(f"| {module.removeprefix(PACKAGE)} | {count / len(each):.0%} | {by} |")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
