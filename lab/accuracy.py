"""`make accuracy`: run the scenarios with the monitor watching, replay the capture, score both.

`python -m rebalance_monitor.lab.accuracy --help` says what can be chosen. Suites that were run before are
scored again with `--score FOLDER`, so that a change of the detection is judged without new runs.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click
import yaml

from rebalance_monitor.cluster.capture import read_capture
from rebalance_monitor.coordinator.findings import Finding, from_json
from rebalance_monitor.coordinator.kinds import Kind, Severity
from rebalance_monitor.lab.broker import DEFAULT_VERSION, LabBroker
from rebalance_monitor.lab.facts import Fact, facts_of, migrated_groups
from rebalance_monitor.lab.job import Job
from rebalance_monitor.lab.judge import noises
from rebalance_monitor.lab.properties import SESSION_TIMEOUT_848_MS
from rebalance_monitor.lab.report import Origin, Scored, page
from rebalance_monitor.lab.scenario import names
from rebalance_monitor.lab.score import Claim, calibration, claims_of, tally, unmatched
from rebalance_monitor.lab.suite import jobs_for, run_suite
from rebalance_monitor.lab.truth import read_truth, write_truth

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

CORE_FAMILIES = ("confluent", "kafka-python", "aiokafka", "confluent-848", "java-range", "java-848")
# A JVM per member: what Java groups add to the others, within the time that CI has.
JAVA_SCENARIOS = ("sigkill", "slow-processing", "clean-close", "static-restart")
DEMO_ONLY = ("crash-loop-fast",)
# A record of the last moments may miss the capture, which is taken before the log is copied.
EDGE_MS = 1_500


@dataclass(frozen=True, slots=True)
class Suite:
    """A finished suite folder, read: its facts, and what is known of its groups."""

    folder: Path
    facts: list[Fact]
    families: dict[str, str]
    quiet: dict[str, tuple[int, int]]
    about: dict[str, object]


def read_suite(folder: Path) -> Suite:
    """Read a suite folder, leaving out facts that are younger than its capture."""
    about = json.loads((folder / "suite.json").read_text(encoding="utf-8"))
    scenarios = {
        path.parent.name: cast("dict[str, object]", yaml.safe_load(path.read_text(encoding="utf-8")))
        for path in sorted(folder.glob("runs/*/scenario.yaml"))
    }
    until = read_capture(folder / "capture").metadata.captured_at - EDGE_MS
    # Where the logs are there they are read again: the parser may have learnt since.
    truth = write_truth(folder) if any(folder.glob("coordinator-*.log")) else read_truth(folder)
    events = [event for event in truth if event.at <= until]
    migrated = migrated_groups(events)
    static = [group for group, raw in scenarios.items() if raw["static"]]
    quiet = [group for group, raw in scenarios.items() if raw["silent"]]
    return Suite(
        folder=folder,
        facts=facts_of(events, static) + _storms(folder, scenarios),
        families={group: str(raw["family"]) for group, raw in scenarios.items() if group not in migrated},
        quiet={group: _span(folder, group, scenarios[group]) for group in quiet},
        about=about,
    )


def _storms(folder: Path, scenarios: Mapping[str, Mapping[str, object]]) -> list[Fact]:
    """Give the storms that scenario files announce: no log line says that something is one."""
    announced = {
        group
        for group, raw in scenarios.items()
        for wanted in cast("Sequence[Mapping[str, object]]", raw["expect"])
        if wanted["kind"] == Kind.STORM and wanted["phase"] == "opened"
    }
    return [Fact(Kind.STORM, group, -1, "", _first_fault(folder, group)) for group in sorted(announced)]


def _first_fault(folder: Path, group: str) -> int:
    lines = (folder / "runs" / group / "steps.jsonl").read_text(encoding="utf-8").splitlines()
    steps = [json.loads(line) for line in lines]
    return next(int(step["at"]) for step in steps if step["verb"] != "start")


def _span(folder: Path, group: str, raw: dict[str, object]) -> tuple[int, int]:
    first = json.loads((folder / "runs" / group / "steps.jsonl").read_text(encoding="utf-8").splitlines()[0])
    return int(first["at"]), int(first["at"] + float(str(raw["end"])) * 1000)


def replayed(suite: Suite) -> list[Finding]:
    """Give what `rebalance-monitor replay` finds in the suite's capture. Raises CalledProcessError."""
    main = "from rebalance_monitor.cli.main import main; main()"
    capture = str(suite.folder / "capture")
    command = [sys.executable, "-c", main, "replay", "--capture", capture, "-o", "jsonl"]
    # A capture holds no broker settings; the job reads them from the broker.
    command += ["--set", f"detection.session_timeout_848_ms={SESSION_TIMEOUT_848_MS}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode not in {0, 1}:
        raise click.ClickException(f"replay of {capture} failed:\n{done.stderr}")
    return [from_json(line) for line in done.stdout.splitlines()]


def watched(suite: Suite) -> list[Finding]:
    """Give what the streaming job found while the suite ran; nothing if it did not watch."""
    path = suite.folder / "monitor" / "findings.jsonl"
    if not path.exists():
        return []
    return [from_json(line) for line in path.read_text(encoding="utf-8").splitlines()]


def score(name: str, pairs: Iterable[tuple[Suite, Sequence[Finding]]], *, live: bool) -> Scored:
    """Pool suites and their findings into one score."""
    facts: list[Fact] = []
    claims: list[Claim] = []
    families: dict[str, str] = {}
    noise, quiet_ms = 0, 0
    for number, (suite, findings) in enumerate(pairs):
        # Suites share group names; a prefix keeps their groups apart.
        facts += [_moved(fact, number) for fact in suite.facts]
        claims += [_claimed(claim, number, live=live) for claim in claims_of(findings)]
        families |= {f"{number}/{group}": family for group, family in suite.families.items()}
        for group, (start, end) in suite.quiet.items():
            loud = (one for one in noises([group], start, findings) if one.at < end)
            noise += sum(one.severity != Severity.INFO for one in loud)
            quiet_ms += end - start
    return Scored(name, tally(facts, claims, families), calibration(facts, claims), noise, quiet_ms / 3.6e6)


def _moved(fact: Fact, number: int) -> Fact:
    return replace(fact, group=f"{number}/{fact.group}")


def _claimed(claim: Claim, number: int, *, live: bool) -> Claim:
    detected = claim.detected_at if live else -1
    return replace(claim, group=f"{number}/{claim.group}", detected_at=detected)


def run(folder: Path, version: str, seed: int, families: Sequence[str], *, live: bool) -> None:
    """Run the core of the suite into `folder`, with the streaming job watching if `live`."""
    python = [family for family in families if not family.startswith("java")]
    java = [family for family in families if family.startswith("java")]
    scenarios = [name for name in names() if name not in DEMO_ONLY]
    jobs = jobs_for(JAVA_SCENARIOS, java) + jobs_for(scenarios, python)
    with ExitStack() as stack:
        broker = stack.enter_context(LabBroker(version, folder / "broker"))
        if live:
            stack.enter_context(Job(broker.bootstrap, folder)).wait_ready()
        run_suite(broker, jobs, folder, seed=seed, say=lambda text: click.echo(text, err=True))
        # The job is some seconds behind the log; its last findings count too.
        time.sleep(10 if live else 0)


@click.command()
@click.option("--folder", type=click.Path(path_type=Path), default=Path("build/accuracy"), show_default=True)
@click.option("--kafka-version", default=DEFAULT_VERSION, show_default=True)
@click.option("--seed", default=1, show_default=True, help="Varies timings and time-outs; 0 leaves them.")
@click.option("--family", "families", multiple=True, default=CORE_FAMILIES, show_default=True)
@click.option("--score", "folders", multiple=True, type=click.Path(path_type=Path), help="Only score these.")
@click.option("--live/--no-live", default=True, show_default=True, help="Let the streaming job watch.")
@click.option("--misses", is_flag=True, help="List on stderr what was missed and what was wrong.")
@click.option("--write", type=click.Path(path_type=Path), help="Write the page here as well.")
def main(
    folder: Path,
    kafka_version: str,
    seed: int,
    families: tuple[str, ...],
    folders: tuple[Path, ...],
    *,
    live: bool,
    misses: bool,
    write: Path | None,
) -> None:
    """Measure the detection against the broker's own log."""
    if not folders:
        folders = (folder / f"{kafka_version}-seed{seed}-{int(time.time())}",)
        run(folders[0], kafka_version, seed, families, live=live)
    suites = [read_suite(one) for one in folders]
    again = [(one, replayed(one)) for one in suites]
    if misses:
        _list_misses(again)
    scored = [score("Replay of the capture", again, live=False)]
    pairs = [(one, found) for one in suites if (found := watched(one))]
    if pairs:
        scored.insert(0, score("The streaming job, live", pairs, live=True))
    text = page(_origin(suites), scored)
    click.echo(text)
    if write is not None:
        write.write_text(text, encoding="utf-8")


def _list_misses(pairs: Iterable[tuple[Suite, Sequence[Finding]]]) -> None:
    for suite, findings in pairs:
        missed, wrong = unmatched(suite.facts, claims_of(findings))
        for fact in missed:
            click.echo(
                f"missed {fact.label} {fact.group} {fact.generation} {fact.member} {fact.at}", err=True
            )
        for claim in wrong:
            what = f"{claim.label} {claim.group} {claim.generation} {claim.member}"
            click.echo(f"wrong  {what} {claim.confidence:.2f}", err=True)


def _origin(suites: Sequence[Suite]) -> Origin:
    skipped = {
        group: why
        for suite in suites
        for group, why in cast("dict[str, str]", suite.about["skipped"]).items()
    }
    return Origin(
        command="make accuracy",
        brokers=sorted({str(suite.about["kafka"]) for suite in suites}),
        seeds=sorted({int(str(suite.about["seed"])) for suite in suites}),
        runs=sum(len(suite.families) for suite in suites),
        seconds=sum(int(str(one.about["ended"])) - int(str(one.about["began"])) for one in suites) / 1000,
        remarks=[*_loads(suites), *(f"Skipped {group}: {why}" for group, why in sorted(skipped.items()))],
    )


def _loads(suites: Sequence[Suite]) -> list[str]:
    """Say how starved the machine was: delays and time-outs cannot be read without it."""
    return [
        f"Seed {suite.about['seed']}: mean load {suite.about['load']} on {suite.about['cores']} cores."
        for suite in suites
        if "load" in suite.about
    ]


if __name__ == "__main__":
    main()
