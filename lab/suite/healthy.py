"""`make healthy`: false alarms about real clients to which nothing happens, by group-hours.

Records one suite of healthy groups of real clients at production timings, and counts what a replay of its
capture says of them, with samples of probe and ends: `--herd herds` has 600 groups of two clients in six
families, `--herd calm` 2,340 whose clients come and go, on topics with anything from a record in four seconds
to none, and a broker that restarts; it takes less than half of a core. `--suite` counts the quiet groups of
suites that were recorded before as well, as those of `make exam`. A group counts from a minute after its
start, which is a rebalance, until its end; one whose brokers were starved does not count
(lab/truth/strain.py). What the broker's own log confirms is not false.

    python -m rebalance_monitor.lab.suite.healthy --record 0 --suite build/exam/exam-4.1.1-seed301/production
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.kinds import Kind, Scope, Severity
from rebalance_monitor.coordinator.settings import DetectionSettings
from rebalance_monitor.lab.cluster.broker import DEFAULT_VERSION
from rebalance_monitor.lab.scoring.judge import named
from rebalance_monitor.lab.scoring.results import replayed
from rebalance_monitor.lab.scoring.silences import EXPELLED
from rebalance_monitor.lab.suite.accuracy import run
from rebalance_monitor.lab.suite.suite import jobs_for
from rebalance_monitor.lab.truth.recorded_suite import ABOUT, read_suite
from rebalance_monitor.lab.workers.families import FAMILIES

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rebalance_monitor.coordinator.findings.finding import Finding
    from rebalance_monitor.lab.truth.recorded_suite import Suite

CALM = ("fast", "slow", "minute", "idle", "restart")
HERDS = {"herds": ("production-herds",), "calm": tuple(f"production-calm-{one}" for one in CALM)}
FIRST_SEED = 801
PLACES = 500
"""More than the scenarios have processes: none waits for room."""

SETTLED_MS, NEAR_MS, HOUR_MS = 60_000, 120_000, 3_600_000
OF_LAG = frozenset(
    {
        Kind.CONSUMPTION_STALLED,
        Kind.CONSUMPTION_STOPPED,
        Kind.FALLING_BEHIND,
        Kind.OFFSETS_REWOUND,
        Kind.RECORDS_LOST,
        Kind.RECORDS_EXPIRING,
    }
)
UPPER_95 = (3.00, 4.74, 6.30, 7.75, 9.15, 10.51, 11.84, 13.15, 14.43, 15.71, 16.96)
"""The most that is expected where so many were counted, at 95 % (Poisson)."""


def is_false(one: Finding) -> bool:
    """Whether it accuses a healthy group: a warning about the group that is not so, or a finding of lag."""
    loud = one.severity is not Severity.INFO and one.scope is Scope.GROUP and not _is_so(one)
    return one.phase in {None, "opened"} and (loud or one.kind in OF_LAG)


def _is_so(one: Finding) -> bool:
    """Whether it says what is so: assignors deal partitions out unevenly, and a closed group is empty.

    Nothing else befalls these members than that they leave. A record says how long a leader took to assign.
    """
    claims = {
        entry.cause for entry in one.causes if entry.confidence >= DetectionSettings().attribution_confidence
    }
    return one.kind in {Kind.ASSIGNMENT_SKEWED, Kind.SLOW_SYNC} or (
        one.kind is Kind.GROUP_EMPTY and claims <= {Cause.MEMBER_LEFT}
    )


@dataclass(frozen=True, slots=True)
class Counted:
    """One suite: its healthy groups, how many hours they were judged, and the false findings by kind."""

    name: str
    groups: int
    hours: float
    false: Counter[str]


def counted(suite: Suite, name: str, found: Iterable[Finding]) -> Counted:
    """Count what the findings of a suite's capture say falsely of its healthy groups."""
    spans = {
        group: (begin + SETTLED_MS, end)
        for group, (begin, end) in suite.quiet.items()
        if group not in suite.spoilt and end > begin + SETTLED_MS
    }
    expelled: dict[str, list[int]] = defaultdict(list)
    for fact in suite.facts:
        if fact.label in EXPELLED:
            expelled[fact.group].append(fact.at)
    false = Counter(
        one.kind.value
        for one in found
        if is_false(one)
        and any(
            spans[group][0] <= one.at < spans[group][1] and not _is_near(one.at, expelled[group])
            for group in spans.keys() & named(one)
        )
    )
    hours = sum(end - begin for begin, end in spans.values()) / HOUR_MS
    return Counted(name, len(spans), hours, false)


def _is_near(at: int, times: Iterable[int]) -> bool:
    return any(abs(at - one) <= NEAR_MS for one in times)


def table(found: Sequence[Counted]) -> str:
    """Return a Markdown table, the sum last, with the false findings in 1,000 group-days."""
    false = sum((one.false for one in found), Counter[str]())
    total = Counted("all", sum(one.groups for one in found), sum(one.hours for one in found), false)
    rows = [
        "| recording | healthy groups | group-hours | false findings | in 1,000 group-days |",
        "|---" * 5 + "|",
    ]
    for one in (*found, total):
        count, days = sum(one.false.values()), one.hours / 24
        said = ", ".join(f"{kind} {some}" for kind, some in sorted(one.false.items())) or "none"
        bound = UPPER_95[count] if count < len(UPPER_95) else count + 2 * count**0.5
        rate = f"{1_000 * count / days:.0f}, at most {1_000 * bound / days:.0f}" if days else ""
        rows.append(f"| {one.name} | {one.groups} | {one.hours:,.1f} | {said} | {rate} |")
    return "\n".join(rows)


@click.command()
@click.option("--folder", type=click.Path(path_type=Path), default=Path("build/healthy"), show_default=True)
@click.option("--seed", default=FIRST_SEED, show_default=True, help="The first one; it draws the timings.")
@click.option(
    "--record", "seeds", default=1, show_default=True, help="How many, those included that are kept already."
)
@click.option("--herd", type=click.Choice([*HERDS]), default="herds", show_default=True)
@click.option("--kafka-version", "version", default=DEFAULT_VERSION, show_default=True)
@click.option(
    "--suite",
    "suites",
    multiple=True,
    type=click.Path(path_type=Path, exists=True),
    help="Count this suite folder, too.",
)
def main(folder: Path, seed: int, seeds: int, herd: str, version: str, suites: tuple[Path, ...]) -> None:
    """Record healthy groups, 25 or 45 minutes a seed, and count what is said of them and of `--suite`."""
    jobs = jobs_for(HERDS[herd], tuple(FAMILIES))
    for number in range(seed, seed + seeds):
        name = f"{herd}-{version}-seed{number}"
        if not any(folder.glob(f"{name}-*/*/{ABOUT}")):
            # Of one that was stopped in the middle, half may lie there.
            mine = folder / f"{name}-{int(time.time())}"
            run(jobs, mine, version, number, live=False, clients=PLACES, jvms=PLACES)
    kept = sorted(path.parent for path in folder.glob(f"*/*/{ABOUT}"))
    read = [read_suite(one) for one in (*suites, *kept)]
    click.echo(table([counted(suite, _named(suite), replayed(suite)) for suite in read]))


def _named(suite: Suite) -> str:
    return f"seed {suite.about['seed']}, Kafka {suite.about['kafka']}"


if __name__ == "__main__":
    main()
