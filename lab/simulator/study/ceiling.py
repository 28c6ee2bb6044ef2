"""How often an observer who knows every setting could be sure why a member left, from records alone.

`python -m rebalance_monitor.lab.simulator.study.ceiling` simulates, for each cell (family, commit mode,
timers), many departures of groups that are all set up so. A learner (`forest`) is grown on one half of them,
from what the topic shows of each, and answers for the other half. Classic groups only.

Its figures are estimates. More departures raise them. The learner also knows the habits of drawn lives (how
soon after a crash a new pod starts), which no observer of a real group does.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from random import Random
from statistics import median
from typing import TYPE_CHECKING

import numpy as np

from rebalance_monitor.decoders import Decoded, GroupMetadataValue, decode_record, rows
from rebalance_monitor.decoders.embedded.consumer import Assignment, decode_assignment
from rebalance_monitor.lab.simulator.engine import simulate
from rebalance_monitor.lab.simulator.plans.draw import draw_plan
from rebalance_monitor.lab.simulator.plans.plan import Mode
from rebalance_monitor.lab.simulator.plans.setup import SECOND, Timing
from rebalance_monitor.lab.simulator.study.forest import Forest
from rebalance_monitor.lab.simulator.truth import Removed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rebalance_monitor.decoders import GroupMember, Row
    from rebalance_monitor.lab.simulator.engine import Simulation

CAUSES = (Removed.EXPIRED, Removed.POLL, Removed.LEFT, Removed.JOIN_DEADLINE, Removed.SYNC_DEADLINE)
_LABELS = {cause: place for place, cause in enumerate(CAUSES)} | {Removed.ADMIN: 2}
SURE = (0.8, 0.9)
FAR = 10_000_000


@dataclass(frozen=True, slots=True)
class Cell:
    """Groups that are set up alike."""

    family: str
    mode: Mode
    timing: Timing

    def __str__(self) -> str:
        """Name it, as columns of a table: family, mode, and S/P/h/c in seconds."""
        timing = self.timing
        ms = (timing.session, timing.poll, timing.heartbeat, timing.interval)
        return f"{self.family} | {self.mode} | {'/'.join(f'{n / SECOND:g}' for n in ms)}"


_SECONDS = (
    (6, 8, 1, 1),
    (10, 60, 3, 5),
    (30, 60, 10, 5),
    (30, 90, 10, 15),
    (45, 300, 3, 5),
    (45, 120, 15, 30),
)
TIMINGS = tuple(Timing(*(n * SECOND for n in one)) for one in _SECONDS)
_SETUPS = (
    ("java", Mode.IN_POLL),
    ("java", Mode.PER_POLL),
    ("kafka-python", Mode.IN_POLL),
    ("librdkafka", Mode.BACKGROUND),
    ("librdkafka", Mode.OWN_TIMER),
    ("aiokafka", Mode.BACKGROUND),
    ("sarama", Mode.BACKGROUND),
)
CELLS = tuple(Cell(family, mode, timing) for family, mode in _SETUPS for timing in TIMINGS)


@dataclass(slots=True)
class _Member:
    stored: int
    entry: GroupMember
    commits: int = 0
    last: int = -1

    def silence(self, at: int) -> int:
        """Give the time (ms) since its last commit, or since its generation was stored."""
        return at - (self.last if self.last >= 0 else self.stored)


@dataclass(slots=True)
class _Seen:
    generation: int
    owner: dict[tuple[str, int], str]
    members: dict[str, _Member]


def examples(made: Simulation) -> Iterator[tuple[list[float], Removed]]:
    """Yield what the topic shows of each departure of a simulation, and its cause."""
    causes = {(one.group, one.member): one.cause for one in made.truth.removals}
    for place, shown in departures(made):
        if place in causes:
            yield shown, causes[place]


def departures(made: Simulation) -> Iterator[tuple[tuple[str, str], list[float]]]:
    """Yield what the topic shows of each departure of a simulation, by group and member."""
    groups: dict[str, _Seen] = {}
    for row in made.rows:
        if row.row_kind == rows.COMMIT_RUN:
            _commit(groups, row)
            continue
        found = decode_record(*rows.record(row))
        if isinstance(found, Decoded) and isinstance(found.value, GroupMetadataValue):
            before, now = groups.get(row.group), _as_seen_in_records(found.value, row.record_ts)
            groups[row.group] = now
            for name, shown in _departures(before, now, found.value) if before else ():
                yield (row.group, name), shown


def _commit(groups: dict[str, _Seen], row: Row) -> None:
    seen = groups.get(row.group)
    for place in rows.commit_run(row).partitions() if seen else ():
        member = seen.members.get(seen.owner.get(place, "")) if seen else None
        if member is not None and member.last != row.commit_ts:
            member.last, member.commits = row.commit_ts, member.commits + 1


def _as_seen_in_records(value: GroupMetadataValue, stored: int) -> _Seen:
    owner: dict[tuple[str, int], str] = {}
    for member in value.members:
        given = decode_assignment(member.assignment)
        for topic, numbers in given.partitions if isinstance(given, Assignment) else ():
            owner.update(((topic, number), member.member_id) for number in numbers)
    return _Seen(value.generation, owner, {m.member_id: _Member(stored, m) for m in value.members})


def _departures(before: _Seen, now: _Seen, value: GroupMetadataValue) -> Iterator[tuple[str, list[float]]]:
    """Yield the members that `now` lacks, each with its features (ms, counts)."""
    at = value.current_state_timestamp
    gone = {name: one for name, one in before.members.items() if name not in now.members}
    kept = sorted(one.silence(at) for name, one in before.members.items() if name in now.members)
    fresh = [one.entry for name, one in now.members.items() if name not in before.members]
    hosts = {one.client_host for one in fresh}
    tails = [float(kept[0]), float(median(kept)), float(kept[-1])] if kept else [FAR] * 3
    for name, one in gone.items():
        others = sorted(other.silence(at) for key, other in gone.items() if key != name) or [FAR]
        silence, age = one.silence(at), at - one.stored
        returned = one.entry.client_host in hosts
        context: list[float] = [
            len(kept),
            len(fresh),
            returned,
            len(gone),
            now.generation - before.generation,
        ]
        lattice: list[float] = [
            (age - one.entry.session_timeout) % 1000,
            float(one.last >= 0),
            min(one.commits, 50),
            age,
        ]
        compared = [silence - tail for tail in tails]
        shown = (silence, *tails, others[0], others[-1], *context, *lattice, *compared)
        yield name, [float(number) for number in shown]


def simulated(cell: Cell, departures: int, seed: int = 0) -> tuple[list[list[float]], list[int]]:
    """Simulate at least `departures` departures of a cell: features and places in `CAUSES`."""
    features: list[list[float]] = []
    labels: list[int] = []
    number = seed
    while len(labels) < departures:
        number += 1
        plan = draw_plan(Random(number), cell.timing, family=cell.family, mode=cell.mode, steady=True)
        for shown, cause in examples(simulate(plan, number)):
            features.append(shown)
            labels.append(_LABELS[cause])
    return features, labels


@dataclass(frozen=True, slots=True)
class Reached:
    """Of one cause in one cell: how many truths, and by threshold how many were claimed, and rightly."""

    truths: int
    claimed: dict[float, int]
    right: dict[float, int]

    def recall(self, sure: float) -> float:
        """Give the share of truths that were claimed."""
        return self.right[sure] / max(self.truths, 1)

    def precision(self, sure: float) -> float:
        """Give the share of claims that were true."""
        return self.right[sure] / max(self.claimed[sure], 1)


def ceiling(cell: Cell, departures: int, seed: int = 0) -> dict[Removed, Reached]:
    """Learn a cell from one half of its departures, and judge the other half."""
    features, labels = simulated(cell, departures, seed)
    shown, known = np.array(features, np.float64), np.array(labels)
    half = len(known) // 2
    forest = Forest(shown[:half], known[:half], len(CAUSES), seed=seed)
    posterior, truth = forest.posterior(shown[half:]), known[half:]
    found = {}
    for place, cause in enumerate(CAUSES):
        claims = {sure: posterior[:, place] >= sure for sure in SURE}
        counts = {sure: int(claim.sum()) for sure, claim in claims.items()}
        right = {sure: int((claim & (truth == place)).sum()) for sure, claim in claims.items()}
        found[cause] = Reached(int((truth == place).sum()), counts, right)
    return found


def main() -> None:
    """Print the ceiling of each cell."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--departures", type=int, default=4_000, help="of each cell")
    parser.add_argument("--family", action="append", default=[])
    asked = parser.parse_args()
    sys.stdout.write(
        "| family | commits | S/P/h/c, s | cause | truths judged | recall (precision) at 0.8 | at 0.9 |\n"
        "|---|---|---|---|--:|---|---|\n"
    )
    for cell in CELLS:
        if asked.family and cell.family not in asked.family:
            continue
        for cause, one in ceiling(cell, asked.departures).items():
            if one.truths:
                shown = " | ".join(f"{one.recall(sure):.2f} ({one.precision(sure):.3f})" for sure in SURE)
                sys.stdout.write(f"| {cell} | `{cause}` | {one.truths} | {shown} |\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
