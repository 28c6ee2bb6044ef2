"""`make accuracy-full`: the recordings that an accuracy page is made of, until they say something.

A part is what runs on one version of Kafka, watched live or not. Each cluster's result is kept as
`<part>-<version>-seed<N>-<cluster>.json.gz` as soon as it is there: a campaign that was stopped goes on where
it was, on another day as well, and everything that is kept is pooled. The first seed runs every part; each
later one what gave its truths to a judged cell (lab/scoring/bars.py) that holds too few by then. It ends when
each holds enough, or when its hours are over.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from rebalance_monitor.lab.scenario.scenario import load, names
from rebalance_monitor.lab.scoring.bars import ENOUGH, poor
from rebalance_monitor.lab.scoring.results import keep_as, kept, pooled, result_of
from rebalance_monitor.lab.scoring.scored import REPLAY
from rebalance_monitor.lab.suite.suite import MAX_JVMS, MAX_PYTHONS, Job, clusters_for, jobs_for
from rebalance_monitor.lab.truth.recorded_suite import ABOUT, read_suite
from rebalance_monitor.lab.workers.families import FAMILIES

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from pathlib import Path

    from rebalance_monitor.lab.scoring.bars import Place
    from rebalance_monitor.lab.scoring.results import Result

# A 32nd seed varies nothing that the first 31 have not.
MAX_SEEDS = 31
# The runs of this seed and of later ones have never been examined.
FIRST_SEED = 101

CORE_FAMILIES = ("confluent", "kafka-python", "aiokafka", "confluent-848", "java-range", "java-848")
# A JVM per member: what Java groups add to the others, within the time that CI has.
JAVA_SCENARIOS = ("sigkill", "slow-processing", "clean-close", "static-restart")
OTHERS = (("streams", "sigkill"), ("streams-1071", "sigkill"), ("java-share", "sigkill"))
# Of the demo, and what takes long or asks for a cluster of its own.
FULL_ONLY = (
    "crash-loop-fast",
    "codec-",
    "many-",
    "coordinator-killed",
    "group-max-size",
    "group-expired",
    "assignment-not-stored",
    "rolling-static-late",
    "reported-",
    "production-",
)
# With these beside them, delays would say more of the machine than of the job.
FEW_CLIENTS = 10
HERDS = ("many-killed", "many-slow", "many-killed-manual", "many-slow-manual", "many-idle")
QUIET = ("many-healthy", "many-healthy-idle")
HERD_FAMILIES = (*CORE_FAMILIES, "java-cooperative")
# Clients of other languages, built on demand (lab/workers/toolchains.py).
BUILT_FAMILIES = ("sarama", "franz-go", "kafka-go", "kafkajs")
BUILT_SCENARIOS = ("healthy", "sigkill", "clean-close", "crash-loop", "rolling-restart")
# What each broker writes differently, or could.
EVERYWHERE = (
    "sigkill",
    "slow-processing",
    "clean-close",
    "static-restart",
    "static-gone",
    "rolling-restart",
    "crash-loop",
    "members-removed",
    "no-common-assignor",
    "sync-deadline",
)
OTHER_VERSIONS = ("4.3.0", "4.0.0", "3.9.1", "3.9.1+new", "2.8.2")


def core_jobs(families: Sequence[str] = CORE_FAMILIES) -> list[Job]:
    """Give the jobs of `make accuracy`: every scenario with the Python families, a few with the JVMs."""
    python = [family for family in families if not family.startswith("java")]
    java = [family for family in families if family.startswith("java")]
    shared = [name for name in names() if not name.startswith(FULL_ONLY)]
    jobs = jobs_for(JAVA_SCENARIOS, java) + jobs_for(shared, [*python, "raw"])
    if java:
        jobs += jobs_for(("connect-tasks",), ["connect"])
        jobs += [job for family, name in OTHERS for job in jobs_for([name], [family])]
    return jobs


@dataclass(frozen=True, slots=True)
class Part:
    """What is recorded on one version of Kafka; `live`: watched by the job.

    At most so many `jvms` and other `clients` (processes) run at once.
    """

    name: str
    version: str
    jobs: tuple[Job, ...]
    live: bool = False
    clients: int = MAX_PYTHONS
    jvms: int = MAX_JVMS


def plan(first: str = "4.1.1", others: Sequence[str] = OTHER_VERSIONS) -> list[Part]:
    """Give every part, most of them on one version; what says most comes first."""
    return [
        Part("herds", first, tuple(jobs_for(HERDS, HERD_FAMILIES)), live=True, clients=FEW_CLIENTS),
        Part("defaults", first, tuple(jobs_for(("many-at-defaults",), HERD_FAMILIES))),
        Part("watched", first, tuple(core_jobs()), live=True, clients=FEW_CLIENTS),
        Part("others", first, tuple(jobs_for(("many-killed",), ("java-share", "streams", "streams-1071")))),
        Part("storms", first, tuple(jobs_for(("many-storms",), tuple(FAMILIES)))),
        *(Part("version", version, tuple(_everywhere())) for version in others),
        Part("healthy", first, tuple(jobs_for(QUIET, HERD_FAMILIES)), live=True, clients=FEW_CLIENTS),
        Part("rest", first, tuple(_rest())),
        Part("reported", first, tuple(reported_jobs())),
    ]


def reported_jobs() -> list[Job]:
    """Give what real people reported, and what the clients that only these scenarios have do otherwise."""
    reported = [name for name in names() if name.startswith("reported-")]
    return jobs_for(reported, tuple(FAMILIES)) + jobs_for(BUILT_SCENARIOS, BUILT_FAMILIES)


def _everywhere() -> list[Job]:
    python = [family for family in CORE_FAMILIES if not family.startswith("java")]
    return jobs_for(JAVA_SCENARIOS, ["java-range"]) + jobs_for(EVERYWHERE, [*python, "raw"])


def _rest() -> list[Job]:
    """Give what has a cluster of its own, a scenario made for one family, and families seen nowhere else."""
    parts = ("many-", "reported-", "production-")
    alone = [name for name in names() if name.startswith(FULL_ONLY) and not name.startswith(parts)]
    jobs = jobs_for(alone, [*CORE_FAMILIES, "raw"])
    jobs += jobs_for(("leader-rejoins", "streams-probing"), tuple(FAMILIES))
    return jobs + jobs_for(JAVA_SCENARIOS, ("java-sticky", "confluent-cooperative"))


class Runner(Protocol):
    """Runs jobs on one cluster of a version into a folder; gives the suite folders."""

    def __call__(
        self,
        jobs: Sequence[Job],
        folder: Path,
        version: str,
        seed: int,
        *,
        live: bool,
        clients: int,
        jvms: int,
    ) -> list[Path]:
        """Run them."""


@dataclass(frozen=True, slots=True)
class Campaign:
    """Where a campaign records and where it keeps results, for how long it may begin more (hours)."""

    suites: Path
    results: Path
    hours: float
    first_seed: int = FIRST_SEED
    enough: int = ENOUGH


def keep_going(campaign: Campaign, parts: Sequence[Part], run: Runner) -> list[Result]:
    """Record what is missing until there is enough; give everything that is kept. Raises ConfigError."""
    end = time.monotonic() + campaign.hours * 3600
    for seed in range(campaign.first_seed, campaign.first_seed + MAX_SEEDS):
        for part in parts:
            # What the part before gave may be what this one was wanted for.
            wanted = None if seed == campaign.first_seed else _poor(campaign)
            if wanted == set():
                return kept(campaign.results)
            jobs = part.jobs if wanted is None else giving(wanted, kept(campaign.results), part.jobs)
            for cluster in clusters_for(jobs):
                if time.monotonic() >= end:
                    return kept(campaign.results)
                record(campaign, run, part, seed, cluster)
    return kept(campaign.results)


def judge_again(campaign: Campaign) -> list[Result]:
    """Judge what was kept once more, by the suites that are still there; give everything that is kept."""
    for path in sorted(campaign.results.glob("*.json.gz")):
        name = path.name.removesuffix(".json.gz")
        # The last one is the one that was kept: one that was stopped in the middle comes before it.
        suites = sorted(campaign.suites.glob(f"{name}-[0-9]*/*/{ABOUT}"))
        if suites:
            keep_as(result_of(read_suite(suites[-1].parent)), path)
    return kept(campaign.results)


def record(campaign: Campaign, run: Runner, part: Part, seed: int, jobs: Sequence[Job]) -> Path:
    """Record jobs of one cluster and keep their result, unless it is kept already; give its file."""
    cluster = cluster_name(jobs)
    name = f"{part.name}-{part.version}-seed{seed}-{cluster}"
    path = campaign.results / f"{name}.json.gz"
    if path.exists():
        return path
    # Of a campaign that was stopped in the middle of this, half may lie there.
    folder = campaign.suites / f"{name}-{int(time.time())}"
    (suite,) = run(jobs, folder, part.version, seed, live=part.live, clients=part.clients, jvms=part.jvms)
    keep_as(result_of(read_suite(suite)), path)
    return path


def cluster_name(jobs: Sequence[Job]) -> str:
    """Name the cluster that these jobs share."""
    alone = jobs[0].scenario if len({job.scenario for job in jobs}) == 1 else "shared"
    return load(jobs[0].scenario).cluster or alone


def _poor(campaign: Campaign) -> set[Place]:
    return poor(pooled("all", REPLAY, kept(campaign.results)), campaign.enough)


def giving(cells: Collection[Place], results: Sequence[Result], jobs: Sequence[Job]) -> list[Job]:
    """Give those of `jobs` whose groups have had truths of these labels, families and limits."""
    gave = {
        fact.group
        for one in results
        for fact in one.facts
        for limits in ("", one.limits.get(fact.group, ""))
        if (fact.label, one.families.get(fact.group), limits) in cells
    }
    return [job for job in jobs if any(_is_of(group, job) for group in gave)]


def _is_of(group: str, job: Job) -> bool:
    """Whether a group is the job's, or one of its herd, or of its connector."""
    own = group == job.group or group.startswith(f"{job.group}.")
    return own or (job.family == "connect" and group.startswith("connect-"))
