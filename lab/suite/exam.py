"""`make exam`: runs at production timings, on several versions of Kafka, with seeds never examined before.

A seed is one cluster of three brokers that every scenario of the part shares (`cluster: production`), for
twenty minutes. Two cores do not carry all families at once, so each seed plays every third job of the list,
and three seeds in turn play all. What a seed gave is kept as soon as it is there, and what is kept is not
recorded again: an exam that was stopped goes on.
"""

from __future__ import annotations

import time
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rebalance_monitor.lab.scenario.scenario import load, names
from rebalance_monitor.lab.scoring.margins import margins, table
from rebalance_monitor.lab.scoring.results import kept
from rebalance_monitor.lab.suite.campaign import Campaign, Part, record
from rebalance_monitor.lab.suite.suite import jobs_for
from rebalance_monitor.lab.workers.families import FAMILIES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rebalance_monitor.lab.suite.suite import Job

CLUSTER = "production"
# A broker restarts in each seed, which no KRaft broker before 3.0 can.
VERSIONS = ("4.1.1", "3.9.1", "4.3.0")
# The runs of this seed and of later ones have never been examined.
FIRST_SEED = 301
SHARES = 3
# In every seed, beside whatever else its share is.
ALWAYS = ("production-outage",)
# More than any share has: nothing waits for room, for all are to see the same outage.
PLACES = 500


def everything() -> list[Job]:
    """Give every job at production timings."""
    mine = [name for name in names() if load(name).cluster == CLUSTER]
    return sorted(jobs_for(mine, tuple(FAMILIES)), key=lambda job: (job.scenario, job.family))


def share(seed: int) -> list[Job]:
    """Give the jobs of one seed."""
    jobs = [job for job in everything() if job.scenario not in ALWAYS]
    always = [job for job in everything() if job.scenario in ALWAYS]
    return [job for number, job in enumerate(jobs) if number % SHARES == seed % SHARES] + always


def parts(first_seed: int, versions: tuple[str, ...]) -> Iterator[tuple[int, Part]]:
    """Give one seed after the other, on each version in turn, without end."""
    turns = cycle(versions)
    seed = first_seed
    while True:
        # Each version gets every share before the next one comes.
        version = next(turns)
        for _ in range(SHARES):
            yield seed, Part("exam", version, tuple(share(seed)), clients=PLACES, jvms=PLACES)
            seed += 1


@click.command()
@click.option("--folder", type=click.Path(path_type=Path), default=Path("build/exam"), show_default=True)
@click.option(
    "--keep", "results", type=click.Path(path_type=Path, file_okay=False), help="Keep results here."
)
@click.option("--seed", default=FIRST_SEED, show_default=True, help="The first one.")
@click.option(
    "--seeds", default=12, show_default=True, help="How many, those included that are kept already."
)
@click.option("--kafka-version", "versions", multiple=True, default=VERSIONS, show_default=True)
@click.option("--hours", default=12.0, show_default=True, help="Start nothing new after so long.")
def main(
    folder: Path, results: Path | None, seed: int, seeds: int, versions: tuple[str, ...], hours: float
) -> None:
    """Record production timings seed by seed, and print how it went by margins (lab/scoring/margins.py).

    `make accuracy ARGS="--score FOLDER"` gives the page of the results that are kept.
    """
    from rebalance_monitor.lab.suite.accuracy import run  # noqa: PLC0415 - it is the other command

    campaign = Campaign(folder, results or folder / "results", hours, seed)
    end = time.monotonic() + hours * 3600
    for number, part in parts(seed, versions):
        if number >= seed + seeds or time.monotonic() >= end:
            break
        path = record(campaign, run, part, number, part.jobs)
        click.echo(f"kept {path}", err=True)
    click.echo(table(margins(kept(campaign.results))))


if __name__ == "__main__":
    main()
