"""Compares the simulator with recordings: the same scenarios, measured the same way.

`python -m rebalance_monitor.lab.simulator.study.agreement FOLDER...` reads suite folders, recorded with real
brokers and clients, and plays each of their scenarios again in virtual time. It prints, for each client
family, the Kolmogorov-Smirnov distance of two things: the silence before a removal less the timer that
ended it, and the length of join phases by what began them. It also prints how sharply removals lie on the
lattice of heartbeats.
"""

from __future__ import annotations

import argparse
import cmath
import math
import sys
from bisect import bisect_right
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from rebalance_monitor.lab.cluster.properties import SESSION_TIMEOUT_848_MS
from rebalance_monitor.lab.simulator.engine import simulate
from rebalance_monitor.lab.simulator.study.measures import SERVER_SIDE, Fact, departures
from rebalance_monitor.lab.simulator.study.recorded import read_recording
from rebalance_monitor.lab.simulator.study.twin import twin
from rebalance_monitor.lab.simulator.truth import Removed

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rebalance_monitor.lab.simulator.study.measures import Departure
    from rebalance_monitor.lab.simulator.study.recorded import Recording, Run

    Samples = dict[tuple[str, str], list[float]]
    """Values (ms) by client family and measure."""

SEEDS = 20
_TRIGGERS = {
    "removing": "join phase after an expiry",
    "explicit": "join phase after a leave",
    "adding": "join phase after a join",
}
_SILENCES = {
    Removed.EXPIRED: "silence - session timeout",
    Removed.POLL: "silence - max.poll.interval",
    Removed.LEFT: "silence before a leave",
}
LATTICE = "lattice of heartbeats"


def distance(first: Sequence[float], second: Sequence[float]) -> float:
    """Give the Kolmogorov-Smirnov distance of two samples: 0 is the same, 1 is apart.

    >>> distance([1, 2, 3], [1, 2, 3]), distance([1, 2], [3, 4])
    (0.0, 1.0)
    """
    one, two = sorted(first), sorted(second)
    places = one + two
    return max(abs(bisect_right(one, x) / len(one) - bisect_right(two, x) / len(two)) for x in places)


def noise(first: int, second: int) -> float:
    """Give the distance that two samples of one distribution exceed once in twenty times."""
    return 1.36 * math.sqrt((first + second) / (first * second))


def concentration(values: Sequence[float]) -> float:
    """Give how sharply phases (0..1) gather: 1 all the same, 0 evenly spread."""
    return abs(sum(cmath.exp(2j * math.pi * value) for value in values)) / len(values)


def recorded_samples(recording: Recording, skip: float = 0) -> Samples:
    """Measure a recording, in the scenarios that the simulator plays, from `skip` ms after their start."""
    found: Samples = defaultdict(list)
    runs = {group: run for group, run in recording.runs.items() if twin(run, Random(0)) is not None}
    facts = [
        fact for fact in recording.facts if fact.group in runs and _counts(runs[fact.group], fact.at, skip)
    ]
    for rows in recording.shards.values():
        groups = {row.group for row in rows}
        for departure in departures(rows, [fact for fact in facts if fact.group in groups]):
            _measure(found, runs[departure.fact.group], departure)
    for phase in recording.phases:
        label = _TRIGGERS.get(phase.reason.split(" ", 1)[0].lower())
        if label and phase.group in runs and _counts(runs[phase.group], phase.began, skip):
            found[runs[phase.group].family, label].append(phase.ended - phase.began)
    return found


def _counts(run: Run, at: float, skip: float) -> bool:
    """Whether something at `at` (ms since 1970) came before any broker was restarted, and not too early."""
    return skip <= at - run.began < run.until


def simulated_samples(runs: Iterable[Run], seeds: int = SEEDS, skip: float = 0) -> Samples:
    """Measure each of the scenarios, played `seeds` times."""
    found: Samples = defaultdict(list)
    for run in runs:
        for seed in range(seeds):
            rng = Random(seed)
            plan = twin(run, rng)
            if plan is None:
                break
            made = simulate(plan, seed)
            played = replace(run, began=plan.epoch)
            removals = [one for one in made.truth.removals if _counts(played, one.at, skip)]
            for departure in departures(
                made.rows, [Fact(r.group, r.member, r.cause, int(r.at)) for r in removals]
            ):
                _measure(found, run, departure)
            gone = {(r.group, r.at): r.cause for r in removals if r.triggered}
            for phase in made.truth.phases if not plan.groups[0].modern else ():
                label = _trigger(phase.trigger, gone.get((phase.group, phase.began)))
                if label and _counts(played, phase.began, skip):
                    found[run.family, label].append(phase.ended - phase.began)
    return found


def _trigger(trigger: str, cause: Removed | None) -> str | None:
    if trigger == "departure":
        return _TRIGGERS["removing" if cause is Removed.EXPIRED else "explicit"]
    return _TRIGGERS["adding"] if trigger == "join" else None


def _measure(found: Samples, run: Run, departure: Departure) -> None:
    cause = Removed(departure.fact.cause)
    manual = run.settings.get("commit") == "manual"
    if cause not in _SILENCES or departure.last_commit < 0 or manual:
        return
    session = SESSION_TIMEOUT_848_MS if departure.session == SERVER_SIDE else departure.session
    timer = {Removed.EXPIRED: session, Removed.POLL: run.poll}.get(cause, 0)
    label = _SILENCES[cause] + (", static" if departure.static else "")
    found[run.family, label].append(departure.fact.at - departure.last_commit - timer)
    if cause is Removed.EXPIRED and not departure.static and departure.session != SERVER_SIDE:
        beat = int(run.settings.get("heartbeat_ms", 1_000))
        phase = (departure.fact.at - departure.session - departure.stored) / beat % 1
        found[run.family, LATTICE].append(phase)


def table(real: Samples, made: Samples, least: int) -> list[str]:
    """Write the comparison: one line for each family and measure with at least `least` recorded values."""
    lines = [
        f"{'family':18} {'measure':34} {'real':>5} {'made':>6} {'KS':>5} {'noise':>5}  medians (p10-p90), ms"
    ]
    for key in sorted(real):
        one, two = real[key], made.get(key, [])
        if len(one) < least or not two:
            continue
        shown = f"{key[0]:18} {key[1]:34} {len(one):5} {len(two):6}"
        if key[1] == LATTICE:
            lines.append(
                f"{shown}              concentration {concentration(one):.2f} | {concentration(two):.2f}"
            )
            continue
        apart, chance = distance(one, two), noise(len(one), len(two))
        lines.append(f"{shown} {apart:5.2f} {chance:5.2f}  {_spread(one)} | {_spread(two)}")
    return lines


def _spread(values: Sequence[float]) -> str:
    ordered = sorted(values)
    low, mid, high = (ordered[int(part * (len(ordered) - 1))] for part in (0.1, 0.5, 0.9))
    return f"{mid:.0f} ({low:.0f}-{high:.0f})"


def compare(folders: Iterable[Path], seeds: int = SEEDS, skip: float = 0) -> tuple[Samples, Samples]:
    """Measure all recordings and their repetitions, from `skip` ms after their start."""
    real: Samples = defaultdict(list)
    runs: list[Run] = []
    for folder in folders:
        recording = read_recording(folder)
        runs += recording.runs.values()
        for key, values in recorded_samples(recording, skip).items():
            real[key] += values
    return real, simulated_samples(runs, seeds, skip)


def main() -> None:
    """Print the comparison."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--least", type=int, default=8, help="recorded values that a line needs")
    parser.add_argument("--skip", type=float, default=0, help="minutes after the start that do not count")
    asked = parser.parse_args()
    found = compare(asked.folders, asked.seeds, asked.skip * 60_000)
    sys.stdout.write("\n".join(table(*found, asked.least)) + "\n")


if __name__ == "__main__":
    main()
