"""What the detection is held to, and where each bar stands: the first table of the accuracy page.

A bar has cells: client libraries whose silences mean the same. A cell says something from `ENOUGH` truths on.
What a cell is held to are the point estimates; their intervals stand beside them. With fewer truths a cell is
missed where even the upper end of an interval is below the bar.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.kinds import Kind
from rebalance_monitor.coordinator.settings import DetectionSettings
from rebalance_monitor.lab.scenario.limits import NEARER
from rebalance_monitor.lab.scoring.score import together
from rebalance_monitor.lab.scoring.statistics import percentile, share, wilson
from rebalance_monitor.lab.workers.families import FAMILIES, IDLE, plain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from rebalance_monitor.lab.scoring.score import Band, Tally
    from rebalance_monitor.lab.scoring.scored import Scored, Tallies

ENOUGH = 60
BAND_ENOUGH, BAND_OFF = 20, 0.1
QUIET_HOURS = 100.0
DELAY_S = 2.5
GRACE_S = DetectionSettings().grace_ms / 1000

SESSION, POLL = f"cause:{Cause.SESSION_TIMEOUT}", f"cause:{Cause.POLL_INTERVAL_EXCEEDED}"
_LIMITED = frozenset({SESSION, POLL})
JAVA = ("java-range", "java-sticky", "java-cooperative")
# With auto-commit these commit when idle, whatever the protocol; aiokafka does so even while it stalls.
COMMITTING = frozenset({*JAVA, "java-848", "kafka-python"})
REST = "all others"
Place = tuple[str, str, str]
"""Label, family, and kind of limits."""

_FEW = frozenset({"streams", "streams-1071", "java-share", "connect", "connect-sinks", "raw"})
# These write nothing when they work: what is known of members without traffic is known of theirs.
SILENT = frozenset({"java-share", "connect"})


class Verdict(StrEnum):
    """Where a cell stands."""

    REACHED = "reached"
    MISSED = "**missed**"
    TOO_FEW = "too few"
    NOT_ASKED = "not asked"


@dataclass(frozen=True, slots=True)
class Bar:
    """What is to be found, and what each cell must reach; `cell` names a family's, "" where it has none."""

    what: str
    label: str
    cell: Callable[[str], str]
    precision: float
    recall: float


@dataclass(frozen=True, slots=True)
class Row:
    """One line: bar, cell, what is asked for, of how many, what was measured, and the verdict."""

    what: str
    cell: str
    asked: str
    number: str
    measured: str
    verdict: Verdict


def _library(family: str) -> str:
    """Give what a cell is called: Java's assignors are one, what few scenarios play is put together."""
    name = plain(family)
    own = "java" if name in JAVA else name
    return REST if family in _FEW else own + family.removeprefix(name)


def _no_traffic(family: str) -> bool:
    return family.endswith(IDLE) or family in SILENT


def _idle_sessions(family: str) -> str:
    commits = family.removesuffix(IDLE) in {*COMMITTING, "aiokafka"}
    return _library(family) if commits else ""


def _idle_polls(family: str) -> str:
    return _library(family) if family.removesuffix(IDLE) in COMMITTING else ""


def _other_sessions(family: str) -> str:
    return "" if _idle_sessions(family) or _no_traffic(family) else _library(family)


def _other_polls(family: str) -> str:
    return "" if _idle_polls(family) or _no_traffic(family) else _library(family)


def _quiet_sessions(family: str) -> str:
    return "" if _idle_sessions(family) or not _no_traffic(family) else _library(family)


def _quiet_polls(family: str) -> str:
    return "" if _idle_polls(family) or not _no_traffic(family) else _library(family)


def _type(family: str) -> str:
    known = FAMILIES.get(plain(family))
    kind = known.group_type if known else "classic"
    return kind if kind in {"classic", "consumer"} else "share and streams"


def _every(_: str) -> str:
    return "all"


BARS = (
    Bar("rebalances", Kind.REBALANCE, _type, 1.0, 1.0),
    Bar("failed generations", Kind.REBALANCE_FAILED, _every, 1.0, 0.95),
    Bar("session timeouts, members that commit when idle", SESSION, _idle_sessions, 0.97, 0.95),
    Bar("poll intervals exceeded, members that commit when idle", POLL, _idle_polls, 0.97, 0.95),
    Bar("session timeouts, others under traffic", SESSION, _other_sessions, 0.95, 0.85),
    Bar("poll intervals exceeded, others under traffic", POLL, _other_polls, 0.95, 0.85),
    Bar("session timeouts, others without traffic", SESSION, _quiet_sessions, 0.95, 0.0),
    Bar("poll intervals exceeded, others without traffic", POLL, _quiet_polls, 0.95, 0.0),
    Bar("storms", Kind.STORM, _every, 1.0, 1.0),
)


def cells(bar: Bar, tallies: Tallies) -> dict[str, Tally]:
    """Give what each cell of a bar has; cells of which nothing is true and nothing was said are left out."""
    parts: dict[str, list[Tally]] = {}
    for (label, family), one in tallies.items():
        if label == bar.label and (name := bar.cell(family)):
            parts.setdefault(name, []).append(one)
    return {name: together(parts[name]) for name in sorted(parts, key=lambda name: (name == REST, name))}


def poor(scored: Scored, enough: int = ENOUGH) -> set[Place]:
    """Give what is in a cell with fewer truths than are enough: label, family, and limits ("" for any)."""
    found = {
        (label, family, "")
        for bar in BARS
        for name, one in cells(bar, _asked(bar, scored)).items()
        for label, family in _of(bar, _asked(bar, scored))
        if one.facts < enough and bar.cell(family) == name
    }
    for kind, tallies in scored.limits.items():
        for bar in BARS if kind != NEARER else ():
            if any(one.facts < enough for one in _whole(bar, tallies).values()):
                found |= {(label, family, kind) for label, family in _of(bar, tallies)}
    return found


def _asked(bar: Bar, scored: Scored) -> Tallies:
    """Give what counts for a bar: limits matter to what they limit alone."""
    return scored.asked if bar.label in _LIMITED else scored.tallies


def _of(bar: Bar, tallies: Tallies) -> Iterator[tuple[str, str]]:
    return ((label, family) for label, family in tallies if label == bar.label and bar.cell(family))


def _whole(bar: Bar, tallies: Tallies) -> dict[str, Tally]:
    """Give all cells of a bar on one of the two limits as one: windows are what is judged there."""
    if bar.label not in _LIMITED or not bar.recall:
        return {}
    found = cells(bar, tallies)
    return {"all": together(found.values())} if found else {}


def rows(scored: Scored) -> Iterator[Row]:
    """Give the lines of every bar; the lines of delays only where the job watched live."""
    tallies = scored.tallies
    for bar in BARS:
        for name, one in cells(bar, _asked(bar, scored)).items():
            yield _row(bar, name, one)
    for kind, of_kind in scored.limits.items():
        for bar in BARS:
            for one in _whole(bar, of_kind).values():
                row = _row(replace(bar, what=f"{bar.what}, {kind}"), "all", one)
                yield replace(row, verdict=Verdict.NOT_ASKED) if kind == NEARER else row
    yield _healthy(scored.noise, sum(scored.quiet_hours.values()))
    yield from (_band("how members were lost", band) for band in scored.losses)
    yield from (_band("what else is said of members", band) for band in scored.others)
    live = [delay for (label, _), one in tallies.items() if label == Kind.REBALANCE for delay in one.delays]
    if live:
        yield _delay("rebalances, log line to finding written, p95", sorted(live), DELAY_S, scored.written_s)
    after = sorted(delay for one in scored.silences.values() for delay in one.after)
    if after:
        limit = GRACE_S + DELAY_S
        yield _delay("silences, deadline to finding written, p95", after, limit, scored.written_s)


def _healthy(noise: int, hours: float) -> Row:
    verdict = Verdict.REACHED if hours >= QUIET_HOURS else Verdict.TOO_FEW
    return Row(
        "warnings about healthy groups",
        "all",
        f"0 in {QUIET_HOURS:.0f} group-hours",
        f"{hours:.1f} h",
        str(noise),
        Verdict.MISSED if noise else verdict,
    )


def _row(bar: Bar, name: str, one: Tally) -> Row:
    few = one.facts < ENOUGH
    shares = (one.right, one.claims, bar.precision), (one.detected, one.facts, bar.recall)
    # What is all right may still become so: the upper end of its interval is 1, but for rounding.
    most = [
        (wilson(hits, of)[1] if few and hits < of else hits / of, least) for hits, of, least in shares if of
    ]
    missed = any(reached < least for reached, least in most)
    return Row(
        bar.what,
        name,
        f"recall {bar.recall:.2f}, precision {bar.precision:.2f}",
        str(one.facts),
        f"{share(one.detected, one.facts)}, {share(one.right, one.claims)}",
        Verdict.MISSED if missed else Verdict.TOO_FEW if few else Verdict.REACHED,
    )


def _band(what: str, band: Band) -> Row:
    off = abs(band.stated - band.true / band.claims) > BAND_OFF
    verdict = Verdict.MISSED if off else Verdict.REACHED
    return Row(
        f"calibration, {band.low:.1f} to {band.low + 0.1:.1f}",
        what,
        f"within {BAND_OFF}",
        str(band.claims),
        f"stated {band.stated:.2f}, true {share(band.true, band.claims)}",
        Verdict.TOO_FEW if band.claims < BAND_ENOUGH else verdict,
    )


def _delay(what: str, ordered: list[float], most: float, written: Sequence[float]) -> Row:
    """Judge findings by the time of their batch, and add what writing takes (p95)."""
    late = percentile(ordered, 0.95) + (percentile(written, 0.95) if written else 0)
    verdict = Verdict.REACHED if late <= most else Verdict.MISSED
    return Row(what, "all", f"{most:.1f} s", str(len(ordered)), f"{late:.1f} s", verdict)


def by_version(scored: Scored) -> str:
    """Give, in Markdown, what was detected and what was wrong in each cell, on each broker version."""
    versions = list(scored.versions)
    lines = ["By version of the broker: detected of how many, and how many claims were wrong.", ""]
    lines += [f"| bar | clients | {' | '.join(versions)} |", "|---|---|" + "--:|" * len(versions)]
    for bar in BARS:
        found = {version: cells(bar, tallies) for version, tallies in scored.versions.items()}
        for name in dict.fromkeys(name for of_version in found.values() for name in of_version):
            counts = (_counts(of_version.get(name)) for of_version in found.values())
            lines.append(f"| {bar.what} | {name} | {' | '.join(counts)} |")
    return "\n".join(lines)


def _counts(one: Tally | None) -> str:
    if one is None:
        return ""
    return f"{one.detected} of {one.facts}" + (f", **{one.wrong} wrong**" if one.wrong else "")


def table(found: Iterable[Row]) -> str:
    """Give the rows in Markdown."""
    lines = ["| bar | clients | asked | of | measured | |", "|---|---|---|--:|---|---|"]
    lines += [
        f"| {row.what} | {row.cell} | {row.asked} | {row.number} | {row.measured} | {row.verdict} |"
        for row in found
    ]
    return "\n".join(lines)
