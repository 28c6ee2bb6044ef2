"""Recordings of `make exam`, judged by what each bar of the departure model counts.

`python -m rebalance_monitor.lab.suite.judged FOLDER...` replays each recording three times: from records
alone, with the samples of the probe, and with the samples of the topics' ends beside these. It prints how
many losses were found and how many claims are right; then the same by margins with enough truths, over all
recordings; then how often what was stated was true, and the false alarms about groups to which nothing was
done; at last each client family, by what it was judged from, over the recordings that have all of it.

Counted are groups that commit within their session timeout. A claim is a cause of 0.8 and more. A false alarm
is one as `lab.suite.healthy` counts them: what the broker's own log confirms is none.
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, NamedTuple

import click

from rebalance_monitor.coordinator.findings.finding import CLAIMED
from rebalance_monitor.lab.scoring.margins import ALL, LEAST, LOSSES, Row, commits_often, margins
from rebalance_monitor.lab.scoring.results import replayed, result_of
from rebalance_monitor.lab.scoring.score import calibration
from rebalance_monitor.lab.scoring.scored import REPLAY
from rebalance_monitor.lab.scoring.statistics import share
from rebalance_monitor.lab.suite.healthy import Counted, counted
from rebalance_monitor.lab.truth.recorded_suite import read_suite, suite_folders

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rebalance_monitor.lab.scoring.margins import Margin
    from rebalance_monitor.lab.scoring.results import Result
    from rebalance_monitor.lab.truth.recorded_suite import Suite

SAMPLES, ENDS = "sightings.jsonl", "ends.jsonl"
WAYS = {"records": (), "records, samples": (SAMPLES,), "records, samples, ends": (SAMPLES, ENDS)}
"""What is judged from -> what of a capture that takes beside the records."""

SURE, MINUTE_MS = 0.9, 60_000
KINDS = ("session timeouts", "poll breaches", "join deadlines missed")
_HEAD = (
    f"| recording | judged from | {' | '.join(f'{kind}: found' for kind in KINDS)} | claims: right | "
    "of these at 0.9 | false alarms about healthy groups |\n|---|---|---|---|---|---|---|---|"
)


class Judged(NamedTuple):
    """One recording, judged from some of its evidence (`way`)."""

    name: str
    way: str
    result: Result
    healthy: Counted


def judged(suite: Suite, name: str, way: str, skip: int = 0) -> Judged | None:
    """Judge a recording from some of its evidence, from `skip` ms on; None where it does not have that."""
    capture, extra = suite.folder / "capture", WAYS[way]
    if any(not (capture / one).exists() for one in extra):
        return None
    with TemporaryDirectory() as folder:
        some = Path(folder) / "capture"
        left_out = {SAMPLES, ENDS} - set(extra)
        shutil.copytree(capture, some, ignore=lambda *_: left_out)
        part = replace(suite, folder=Path(folder))
        found = replayed(part)
        result = result_of(part, found)
        if skip:
            result = _after(result, int(str(suite.about["began"])) + skip)
        return Judged(name, way, result, counted(part, name, found))


def _after(result: Result, since: int) -> Result:
    """Return what happened, and was claimed of what happened, from then on."""
    return replace(
        result,
        facts=[one for one in result.facts if one.at >= since],
        claims={how: [one for one in some if one.at >= since] for how, some in result.claims.items()},
    )


def line(some: Sequence[Judged], name: str, way: str) -> str:
    """Return one line of the first table: what bars count, over some recordings."""
    results = [one.result for one in some]
    rows, sure = margins(results, often=True), margins(results, often=True, claimed=SURE)
    surest = _right(sure.get((LOSSES, ALL), Row()))
    hours = sum(one.healthy.hours for one in some)
    noise = f"{sum(one.healthy.false.total() for one in some)} in {hours:.0f} group-hours"
    return f"| {' | '.join([name, way, _cells(rows, ALL), surest, noise])} |"


def _found(row: Row) -> str:
    return f"{row.found} of {row.truths}: {share(row.found, row.truths)}"


def _right(row: Row) -> str:
    return f"{row.true} of {row.claims}: {share(row.true, row.claims)}"


def by_margins(rows: Mapping[tuple[str, Margin], Row]) -> Iterator[str]:
    """Yield the margins with enough truths, as lines of a table."""
    yield f"| losses by | | {' | '.join(KINDS)} | claims: right |\n|---|---|---|---|---|---|"
    for (label, margin), row in rows.items():
        if label == LOSSES and row.truths >= LEAST:
            yield f"| {' | '.join(margin)} | {_cells(rows, margin)} |"


def by_families(ways: Mapping[str, Sequence[Result]]) -> Iterator[str]:
    """Yield what was found in each client family, and from what, as lines of a table."""
    yield f"| family | judged from | {' | '.join(KINDS)} | claims: right |\n|---|---|---|---|---|---|"
    rows = {way: margins(results, often=True) for way, results in ways.items()}
    families = sorted({one for some in rows.values() for _, (kind, one) in some if kind == "family"})
    for family in families:
        for way, some in rows.items():
            yield f"| {family} | {way} | {_cells(some, ('family', family))} |"


def _cells(rows: Mapping[tuple[str, Margin], Row], margin: Margin) -> str:
    """Return what was found of each kind of loss in a margin, and how many claims are right."""
    found = [_found(rows.get((kind, margin), Row())) for kind in KINDS]
    return " | ".join([*found, _right(rows.get((LOSSES, margin), Row()))])


def calibrated(results: Sequence[Result]) -> Iterator[str]:
    """Yield how often what was stated of a member's loss was true, as lines of a table."""
    yield "| confidence | stated | claims | true |\n|---|--:|--:|---|"
    facts, claims = [], []
    for number, one in enumerate(results):
        often = {group for group, text in one.timings.items() if commits_often(text)}
        # Recordings share group names.
        facts += [replace(fact, group=f"{number}/{fact.group}") for fact in one.facts if fact.group in often]
        claims += [
            replace(claim, group=f"{number}/{claim.group}")
            for claim in one.claims[REPLAY]
            if claim.group in often
        ]
    for band in calibration(facts, claims, of_losses=True):
        true = share(band.true, band.claims)
        yield f"| {band.low:.1f}-{band.low + 0.1:.1f} | {band.stated:.2f} | {band.claims} | {true} |"


@click.command()
@click.argument("folders", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True))
@click.option("--way", "ways", multiple=True, type=click.Choice(list(WAYS)), default=list(WAYS))
@click.option("--skip", default=0, help="Leave out the first minutes of each, in which it starved.")
def main(folders: tuple[Path, ...], ways: tuple[str, ...], skip: int) -> None:
    """Judge recordings, and print what the bars count."""
    found: list[Judged] = []
    click.echo(f"A claim is a cause of {CLAIMED} and more.\n\n{_HEAD}")
    for suite in map(read_suite, suite_folders(folders)):
        name = f"{suite.about['seed']}, {suite.about['kafka']}"
        for way in ways:
            if one := judged(suite, name, way, skip * MINUTE_MS):
                found.append(one)
                click.echo(line([one], name, way))
    for way in ways:
        some = [one for one in found if one.way == way]
        results = [one.result for one in some]
        if results:
            click.echo(f"\n{line(some, 'all', way)}\n")
            click.echo("\n".join(by_margins(margins(results, often=True))))
            click.echo("\n" + "\n".join(calibrated(results)))
    whole = [one.name for one in found if one.way == ways[-1]]
    same = {way: [one.result for one in found if one.way == way and one.name in whole] for way in ways}
    click.echo("\n" + "\n".join(by_families(same)))


if __name__ == "__main__":
    main()
