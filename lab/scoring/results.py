"""What one suite gave, small enough to keep: facts, claims, families; and what many of them give together.

`make accuracy-full` runs for hours; each finished suite is kept as one file of compressed JSON, so that it
can go on where it stopped and pool what it has. `make accuracy ARGS="--keep FOLDER"` keeps them as well. So
runs of many days give one page; a result that was kept says which code judged it.
"""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
import zlib
from collections import Counter
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from rebalance_monitor.cluster.errors import DependencyError
from rebalance_monitor.config.errors import ConfigError
from rebalance_monitor.coordinator.findings.finding import Finding, from_json
from rebalance_monitor.coordinator.findings.kinds import Kind, Severity
from rebalance_monitor.lab.scenario.limits import NEARER, overrides
from rebalance_monitor.lab.scoring.claims import claims_of
from rebalance_monitor.lab.scoring.judge import named, noises
from rebalance_monitor.lab.scoring.matching import Claim
from rebalance_monitor.lab.scoring.score import calibration, confusion, counted, matched
from rebalance_monitor.lab.scoring.scored import LIVE, REPLAY, Scored
from rebalance_monitor.lab.scoring.silences import silences
from rebalance_monitor.lab.truth.fold import Fact
from rebalance_monitor.lab.versions import commit
from rebalance_monitor.lab.workers.flags import herd_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from rebalance_monitor.lab.scoring.score import Tally
    from rebalance_monitor.lab.truth.recorded_suite import Suite


WARM_UP_MS = 60_000
"""Delays of so long after a job's first finding are not counted, ms."""


@dataclass(frozen=True, slots=True)
class Result:
    """One suite's result. `claims` and `noise` are by way of running the monitor: live, replay.

    `noise` are loud findings that name quiet groups, `quiet_ms` the time of these groups, by family; `limits`
    as in Suite, and so `timings`, as text. `written_ms`: how long the job took to write each batch of
    findings that it published live.
    """

    about: dict[str, Any]
    facts: list[Fact]
    claims: dict[str, list[Claim]]
    families: dict[str, str]
    noise: dict[str, int] = field(default_factory=dict)
    quiet_ms: dict[str, int] = field(default_factory=dict)
    spoilt: dict[str, str] = field(default_factory=dict)
    limits: dict[str, str] = field(default_factory=dict)
    written_ms: list[int] = field(default_factory=list)
    timings: dict[str, str] = field(default_factory=dict)


def result_of(suite: Suite, found: list[Finding] | None = None) -> Result:
    """Take what a replay of a suite's capture and the streaming job found, and put both beside the facts.

    `found`: what a replay has found already.
    """
    ways = {REPLAY: replayed(suite) if found is None else found}
    if live := findings_of_job(suite):
        ways[LIVE] = live
    quiet = {group: span for group, span in suite.quiet.items() if group not in suite.spoilt}
    return Result(
        about=dict(suite.about),
        facts=[fact for fact in suite.facts if fact.group in suite.families],
        claims={way: _claims(suite, found) for way, found in ways.items()},
        families=suite.families,
        noise={way: _noise(quiet, found) for way, found in ways.items()},
        quiet_ms=_quiet_ms(suite, quiet),
        spoilt=suite.spoilt,
        limits=dict(suite.limits),
        written_ms=written(suite) if live else [],
        timings={group: str(timing) for group, timing in suite.timings.items()},
    )


def _quiet_ms(suite: Suite, quiet: Mapping[str, tuple[int, int]]) -> dict[str, int]:
    found: Counter[str] = Counter()
    for group, (start, end) in quiet.items():
        # A herd has the family of its first group.
        found[suite.families.get(herd_of(group), "")] += end - start
    return dict(found)


def _claims(suite: Suite, findings: Sequence[Finding]) -> list[Claim]:
    every = claims_of(findings, suite.shards)
    counted = (claim for claim in every if claim.group in suite.families and claim.at <= suite.until)
    return [one for one in counted if one.label == Kind.GROUP_MIGRATED or one.group not in suite.migrated]


def _noise(quiet: Mapping[str, tuple[int, int]], findings: Sequence[Finding]) -> int:
    start = min((span[0] for span in quiet.values()), default=0)
    loud = noises(quiet, start, [one for one in findings if one.severity != Severity.INFO])
    return sum(any(one.at < quiet[group][1] for group in quiet.keys() & named(one)) for one in loud)


def replayed(suite: Suite) -> list[Finding]:
    """Give what `rebalance-monitor replay` finds in the suite's capture. Raises DependencyError."""
    main = "from rebalance_monitor.cli.main import main; main()"
    capture = str(suite.folder / "capture")
    command = [sys.executable, "-P", "-c", main, "replay", "--capture", capture, "-o", "jsonl"]
    # A capture holds no broker settings; the job reads them from the broker. Records do not hold what an
    # operator of these groups would configure, either.
    own = {"groups": json.dumps(overrides(suite.intervals))} if suite.intervals else {}
    settings = {**suite.settings, **own}
    command += [one for key, value in settings.items() for one in ("--set", f"detection.{key}={value}")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode not in {0, 1}:
        raise DependencyError(f"replay of {capture} failed:\n{done.stderr}")
    return [from_json(line) for line in done.stdout.splitlines()]


def findings_of_job(suite: Suite) -> list[Finding]:
    """Give what the streaming job found while the suite ran; nothing if it did not watch."""
    path = suite.folder / "monitor" / "findings.jsonl"
    if not path.exists():
        return []
    return [from_json(line) for line in path.read_text(encoding="utf-8").splitlines()]


def written(suite: Suite) -> list[int]:
    """Give how long (ms) the job took to write each batch with a live finding, by its own log."""
    found = []
    for line in (suite.folder / "monitor.log").read_text(encoding="utf-8", errors="replace").splitlines():
        with suppress(ValueError):
            said = json.loads(line)
            if said.get("event") == "batch" and said["findings"] > said["history"]:
                found.append(int(said["write_ms"]))
    return found


def pooled(name: str, way: str, results: Iterable[Result]) -> Scored:
    """Score many suites as one."""
    facts: list[Fact] = []
    claims: list[Claim] = []
    families: dict[str, str] = {}
    versions: dict[str, str] = {}
    limits: dict[str, str] = {}
    noise, quiet_ms = 0, Counter[str]()
    written_ms: list[int] = []
    for number, one in enumerate(results):
        if way not in one.claims:
            continue
        # Suites share group names; a prefix keeps their groups apart.
        facts += [replace(fact, group=f"{number}/{fact.group}") for fact in one.facts]
        timed = way == LIVE and one.about.get("load", 0) <= one.about.get("cores", 1)
        warm = _warm(one.claims[way]) if timed else None
        claims += [_moved(claim, number, warm) for claim in one.claims[way]]
        families |= {f"{number}/{group}": family for group, family in one.families.items()}
        versions |= {f"{number}/{group}": str(one.about["kafka"]) for group in one.families}
        limits |= {f"{number}/{group}": kind for group, kind in one.limits.items()}
        noise += one.noise.get(way, 0)
        quiet_ms.update(one.quiet_ms)
        written_ms += one.written_ms if timed else []

    found = matched(facts, claims)

    def parts(kinds: Mapping[str, str]) -> dict[str, dict[tuple[str, str], Tally]]:
        return {
            kind: counted(found, {name: of for name, of in families.items() if kinds.get(name) == kind})
            for kind in sorted(set(kinds.values()))
        }

    return Scored(
        name=name,
        tallies=counted(found, families),
        asked=counted(found, {name: of for name, of in families.items() if limits.get(name) != NEARER}),
        versions=parts(versions),
        limits=parts(limits),
        losses=calibration(facts, claims, of_losses=True),
        others=calibration(facts, claims, of_losses=False),
        confusion=confusion(facts, claims),
        silences=silences(facts, claims),
        noise=noise,
        quiet_hours={family: ms / 3.6e6 for family, ms in sorted(quiet_ms.items())},
        written_s=sorted(ms / 1000 for ms in written_ms),
    )


def _warm(claims: Sequence[Claim]) -> int:
    """Give from when on (ms) the job's start, in which all is compiled and loaded, delays nothing."""
    return min((claim.detected_at for claim in claims), default=0) + WARM_UP_MS


def _moved(claim: Claim, number: int, warm: int | None) -> Claim:
    detected = claim.detected_at if warm is not None and claim.detected_at >= warm else -1
    return replace(claim, group=f"{number}/{claim.group}", detected_at=detected)


def keep(result: Result, folder: Path) -> Path:
    """Keep a result beside others; give its file. One of the same runs that was kept before is replaced."""
    about = result.about
    name = f"{_moment(about['began'])}-{about['kafka']}-seed{about['seed']}"
    path = folder / f"{name}-{len(result.families)}-groups.json.gz"
    keep_as(result, path)
    return path


def keep_as(result: Result, path: Path) -> None:
    """Keep a result, with the commit of the code that judged it; the file appears whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(asdict(replace(result, about={"judged_by": commit(), **result.about}))).encode()
    # The same result is the same bytes, whenever it is kept.
    path.with_suffix(".tmp").write_bytes(gzip.compress(text, mtime=0))
    path.with_suffix(".tmp").rename(path)


def kept(folder: Path) -> list[Result]:
    """Read every result that was kept in a folder, which may be none. Raises ConfigError."""
    return [read_result(path) for path in sorted(folder.glob("*.json.gz"))]


def read_result(path: Path) -> Result:
    """Read a result that was kept. Raises ConfigError where that is not possible."""
    try:
        raw = json.loads(gzip.decompress(path.read_bytes()))
        facts = [Fact(**fact) for fact in raw["facts"]]
        claims = {way: [Claim(**one) for one in found] for way, found in raw["claims"].items()}
        return Result(**{**raw, "facts": facts, "claims": claims})
    except (OSError, EOFError, ValueError, KeyError, TypeError, zlib.error) as error:
        raise ConfigError(
            f"{path} cannot be read ({type(error).__name__}: {error}): it is damaged, or was kept by another "
            "version. Remove it, and keep the suite again if it is still there."
        ) from error


def identity(result: Result) -> tuple[object, ...]:
    """Give what distinguishes a result's runs from the runs of other results."""
    about = result.about
    return about["kafka"], about["seed"], about["began"], frozenset(result.families)


def _moment(at: int) -> str:
    return f"{datetime.fromtimestamp(at / 1000, UTC):%Y-%m-%d-%H%M%S}{at % 1000:03}"
