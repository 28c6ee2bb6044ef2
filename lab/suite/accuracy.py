"""`make accuracy`: run the scenarios with the monitor watching, replay the captures, score both.

`python -m rebalance_monitor.lab.suite.accuracy --help` says what can be chosen. Suites that were run before
are scored again with `--score FOLDER`, so that a change of the detection is judged without new runs. `--keep`
puts what was scored into a folder of results, and `--score` takes such a folder as well. `--full` (`make
accuracy-full`) records everything that an accuracy page needs; see lab/suite/campaign.py.
"""

from __future__ import annotations

import shutil
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rebalance_monitor.config.errors import ConfigError
from rebalance_monitor.lab.cluster.broker import DEFAULT_VERSION
from rebalance_monitor.lab.scenario.limits import overrides
from rebalance_monitor.lab.scoring.origin import origin
from rebalance_monitor.lab.scoring.report import DEVELOPED_ON, page
from rebalance_monitor.lab.scoring.results import Result, identity, keep, kept, pooled, result_of
from rebalance_monitor.lab.scoring.score import unmatched
from rebalance_monitor.lab.scoring.scored import LIVE, REPLAY, Scored
from rebalance_monitor.lab.suite.campaign import (
    CORE_FAMILIES,
    FIRST_SEED,
    Campaign,
    cluster_name,
    core_jobs,
    judge_again,
    keep_going,
    plan,
)
from rebalance_monitor.lab.suite.job import Job
from rebalance_monitor.lab.suite.suite import (
    MAX_JVMS,
    MAX_PYTHONS,
    broker_for,
    clusters_for,
    jobs_for,
    run_suite,
    undisclosed_intervals,
)
from rebalance_monitor.lab.truth.recorded_suite import ABOUT, read_suite

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rebalance_monitor.lab.scoring.page_origin import Origin
    from rebalance_monitor.lab.suite.suite import Job as Play

# In a folder of results: what a reader of its page must know, a remark a line.
NOTES = "notes.txt"


def run(
    jobs: Sequence[Play],
    folder: Path,
    version: str,
    seed: int,
    *,
    live: bool,
    pace: float = 1.0,
    clients: int = MAX_PYTHONS,
    jvms: int = MAX_JVMS,
) -> list[Path]:
    """Run jobs, each cluster's into a suite folder of its own; give these folders. `pace` stretches time."""
    folders: list[Path] = []

    def say(text: str) -> None:
        click.echo(text, err=True)

    for part in clusters_for(jobs):
        suite = folder / cluster_name(part)
        with ExitStack() as stack:
            broker = stack.enter_context(broker_for(part, version, suite / "broker"))
            if live:
                overridden = overrides(undisclosed_intervals(part, seed, pace))
                stack.enter_context(Job(broker.bootstrap, suite, {"groups": overridden})).wait_ready()
            run_suite(broker, part, suite, seed=seed, pace=pace, clients=clients, jvms=jvms, say=say)
            # The job is some seconds behind the log; its last findings count too.
            time.sleep(10 if live else 0)
        shutil.rmtree(suite / "broker", ignore_errors=True)
        folders.append(suite)
    return folders


@click.command()
@click.option("--folder", type=click.Path(path_type=Path), default=Path("build/accuracy"), show_default=True)
@click.option("--pace", default=1.0, show_default=True, help="Stretches all times; 7.5 is Kafka's defaults.")
@click.option("--clients", default=MAX_PYTHONS, show_default=True, help="So many client processes at once.")
@click.option("--kafka-version", default=DEFAULT_VERSION, show_default=True)
@click.option(
    "--seed",
    default=None,
    type=int,
    help=f"Varies timings and time-outs; 0 leaves them.  [default: 1; with --full the first is {FIRST_SEED}]",
)
@click.option("--family", "families", multiple=True, default=CORE_FAMILIES, show_default=True)
@click.option("--scenario", "chosen", multiple=True, help="Only these, of all there are.")
@click.option(
    "--score",
    "folders",
    multiple=True,
    type=click.Path(path_type=Path, exists=True),
    help="Only score these: suite folders, or folders of results that were kept.",
)
@click.option(
    "--keep",
    "kept",
    type=click.Path(path_type=Path, file_okay=False),
    help="Keep the results in this folder.",
)
@click.option("--live/--no-live", default=True, show_default=True, help="Let the streaming job watch.")
@click.option("--misses", is_flag=True, help="List on stderr what was missed and what was wrong.")
@click.option("--write", type=click.Path(path_type=Path), help="Write the page here as well.")
@click.option("--note", "notes", multiple=True, help="Say this on the page as well.")
@click.option("--full", is_flag=True, help="Every part of the plan, until each cell holds enough truths.")
@click.option(
    "--again",
    is_flag=True,
    help="With --full: record nothing, judge what was kept anew by the suites that are still there.",
)
@click.option(
    "--hours", default=12.0, show_default=True, help="With --full: start nothing new after so long."
)
def main(**options: Any) -> None:  # noqa: ANN401 - click's values
    """Measure the detection against the broker's own log."""
    if options["full"]:
        results = _campaign(options)
        command = "make accuracy-full"
    else:
        results = [one for folder in _folders(options) for one in _results(folder)]
        command = "make accuracy" + (" (several runs, scored together)" if len(results) > 1 else "")
    results = _once(results)
    if not results:
        raise click.ClickException("Nothing ran, so there is nothing to say.")
    for result in results:
        if options["misses"]:
            _list_misses(result)
        if options["kept"] is not None and not options["full"]:
            click.echo(f"kept {keep(result, options['kept'])}", err=True)
    notes = [*_remarks(options["folders"]), *options["notes"]]
    text = page(origin(command, results, notes), sections(results))
    click.echo(text)
    if options["write"] is not None:
        options["write"].write_text(text, encoding="utf-8")


def kept_sections(folder: Path) -> tuple[Origin, list[Scored]]:
    """Score a folder of results, as `make accuracy-full` keeps them. Raises ConfigError."""
    results = kept(folder)
    return origin("make accuracy-full", results, _remarks([folder])), sections(results)


def sections(results: Sequence[Result]) -> list[Scored]:
    """Score what was seen live, what a replay finds on seeds not examined before, and all replays."""
    fresh = [one for one in results if one.about["seed"] not in DEVELOPED_ON]
    # What a job saw live was found by the detection of its day.
    parts = [(LIVE, "The streaming job, live", [one for one in fresh if LIVE in one.claims] or results)]
    if 0 < len(fresh) < len(results):
        parts.append((REPLAY, "Replay of the captures, seeds that detection had not seen", fresh))
    parts.append((REPLAY, "Replay of the captures, all", results))
    some = (part for part in parts if any(part[0] in one.claims for one in part[2]))
    return [pooled(name, way, chosen) for way, name, chosen in some]


def _folders(options: dict[str, Any]) -> Sequence[Path]:
    if options["folders"]:
        return tuple(options["folders"])
    families, chosen = options["families"], options["chosen"]
    jobs = jobs_for(chosen, families) if chosen else core_jobs(families)
    version, seed = options["kafka_version"], 1 if options["seed"] is None else options["seed"]
    folder = options["folder"] / f"{version}-seed{seed}-{int(time.time())}"
    how = {name: options[name] for name in ("live", "pace", "clients")}
    return run(jobs, folder, version, seed, **how)


def _results(folder: Path) -> list[Result]:
    """Score a suite, or read what was kept."""
    if (folder / ABOUT).exists():
        return [result_of(read_suite(folder))]
    results = _kept(folder)
    if not results:
        raise click.ClickException(
            f"{folder} is neither a suite (no suite.json) nor holds results (no *.json.gz)."
        )
    return results


def _kept(folder: Path) -> list[Result]:
    try:
        return kept(folder)
    except ConfigError as error:
        raise click.ClickException(str(error)) from error


def _campaign(options: dict[str, Any]) -> list[Result]:
    suites = options["folder"].with_name("accuracy-full")
    seed = FIRST_SEED if options["seed"] is None else options["seed"]
    campaign = Campaign(suites, options["kept"] or suites / "results", options["hours"], seed)
    options["folders"] = [campaign.results]
    try:
        return judge_again(campaign) if options["again"] else keep_going(campaign, plan(), run)
    except ConfigError as error:
        raise click.ClickException(str(error)) from error


def _once(results: Sequence[Result]) -> list[Result]:
    """Leave out runs that are there twice, as a suite and as what was kept of it: the first counts."""
    found: dict[tuple[object, ...], Result] = {}
    for result in results:
        about = result.about
        if found.setdefault(identity(result), result) is not result:
            click.echo(f"counted once: seed {about['seed']} on Kafka {about['kafka']}", err=True)
    return list(found.values())


def _remarks(folders: Sequence[Path]) -> list[str]:
    """Give the remarks that lie beside results that were kept."""
    paths = (folder / NOTES for folder in folders)
    texts = (path.read_text(encoding="utf-8") for path in paths if path.exists())
    return [line for text in texts for line in text.splitlines() if line.strip()]


def _list_misses(result: Result) -> None:
    missed, wrong = unmatched(result.facts, result.claims[REPLAY])
    for fact in missed:
        click.echo(f"missed {fact.label} {fact.group} {fact.generation} {fact.member} {fact.at}", err=True)
    for claim in wrong:
        what = f"{claim.label} {claim.group} {claim.generation} {claim.member}"
        click.echo(f"wrong  {what} {claim.confidence:.2f}", err=True)


if __name__ == "__main__":
    main()
