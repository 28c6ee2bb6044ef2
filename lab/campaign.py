"""`make accuracy-full`: every broker, family and scenario, seed after seed, until the numbers mean something.

Each suite's result is kept as `results/<version>-seed<N>-<cluster>.json` under the campaign's folder:
a campaign that was stopped goes on where it was, and everything that is there is pooled. It ends when every
judged cell (lab/bars.py) holds enough truths, or when its hours are over. From the second seed on only what
gave a poor cell its truths runs again. Every third seed runs with the clients' default session timeout of
45 s, and everything else as much slower.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from itertools import count, product
from typing import TYPE_CHECKING, Protocol

from rebalance_monitor.lab.bars import ENOUGH, poor
from rebalance_monitor.lab.families import FAMILIES
from rebalance_monitor.lab.results import REPLAY, Result, pooled, read_result, result_of, write_result
from rebalance_monitor.lab.scenario import names
from rebalance_monitor.lab.suite import clusters_for, jobs_for
from rebalance_monitor.lab.suitefolder import read_suite

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from pathlib import Path

    from rebalance_monitor.lab.score import Tally
    from rebalance_monitor.lab.suite import Job

VERSIONS = ("4.1.1", "3.9.1", "4.3.0", "4.0.0", "3.9.1+new", "2.8.2")
SLOW = 7.5
# A 32nd seed varies nothing that the first 31 have not.
MAX_SEEDS = 31


class Runner(Protocol):
    """Runs jobs on clusters of one version into a folder; gives the suite folders."""

    def __call__(
        self, jobs: Sequence[Job], folder: Path, version: str, seed: int, *, live: bool, pace: float
    ) -> list[Path]:
        """Run them."""


@dataclass(frozen=True, slots=True)
class Campaign:
    """Where a campaign keeps its results, and for how long it may go on, in hours."""

    folder: Path
    hours: float
    versions: tuple[str, ...] = VERSIONS
    families: tuple[str, ...] = field(default_factory=lambda: tuple(FAMILIES))
    enough: int = ENOUGH

    @property
    def results(self) -> list[Result]:
        """Everything that is kept."""
        return [read_result(path) for path in sorted(self.folder.glob("results/*.json"))]


def keep_going(campaign: Campaign, run: Runner) -> list[Result]:
    """Run what is missing until there is enough; give all results."""
    end = time.monotonic() + campaign.hours * 3600
    jobs = jobs_for(names(), campaign.families)
    for seed in count(1):
        wanted = jobs if seed == 1 else giving(poor(_tallies(campaign), campaign.enough), campaign, jobs)
        if not wanted or seed > MAX_SEEDS:
            break
        for version, part in product(campaign.versions, clusters_for(wanted)):
            if time.monotonic() >= end:
                return campaign.results
            _run_part(campaign, run, version, seed, part)
    return campaign.results


def _run_part(campaign: Campaign, run: Runner, version: str, seed: int, part: Sequence[Job]) -> None:
    cluster = part[0].scenario if len({job.scenario for job in part}) == 1 else "shared"
    path = campaign.folder / "results" / f"{version}-seed{seed}-{cluster}.json"
    if path.exists():
        return
    pace = SLOW if seed % 3 == 0 else 1.0
    for folder in run(part, campaign.folder / "suites" / path.stem, version, seed, live=True, pace=pace):
        write_result(result_of(read_suite(folder)), path)


def _tallies(campaign: Campaign) -> Mapping[tuple[str, str], Tally]:
    return pooled("all", REPLAY, campaign.results).tallies


def giving(cells: Collection[tuple[str, str]], campaign: Campaign, jobs: Sequence[Job]) -> list[Job]:
    """Give those of `jobs` whose groups have had truths of these labels and families."""
    gave = {
        fact.group
        for one in campaign.results
        for fact in one.facts
        if (fact.label, one.families.get(fact.group)) in cells
    }
    return [job for job in jobs if any(_is_of(group, job) for group in gave)]


def _is_of(group: str, job: Job) -> bool:
    """Whether a group is the job's, or one of its herd, or of its connector."""
    own = group == job.group or group.startswith(f"{job.group}.")
    return own or (job.family == "connect" and group.startswith("connect-"))
