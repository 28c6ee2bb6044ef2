"""How an exam went, by margins: each family, session timeout, way of committing and version by itself.

A margin pools all others, so that a fault of one kind shows although no single cell of all kinds has truths
enough. All losses together are counted beside each kind. Only groups whose timings were drawn count.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.finding import CLAIMED
from rebalance_monitor.lab.scoring.score import matched
from rebalance_monitor.lab.scoring.scored import REPLAY
from rebalance_monitor.lab.scoring.statistics import share
from rebalance_monitor.lab.workers.families import plain
from rebalance_monitor.lab.workers.timings import Timing, classes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from rebalance_monitor.lab.scoring.matching import Claim
    from rebalance_monitor.lab.scoring.results import Result
    from rebalance_monitor.lab.truth.fold import Fact

ALL = ("all", "")
LEAST = 60
"""Margins with fewer truths say too little."""

LOSSES = "all losses"
_LABELS = {
    f"cause:{Cause.SESSION_TIMEOUT}": "session timeouts",
    f"cause:{Cause.STATIC_MEMBER_EXPIRED}": "session timeouts",
    f"cause:{Cause.POLL_INTERVAL_EXCEEDED}": "poll breaches",
    f"cause:{Cause.JOIN_DEADLINE_MISSED}": "join deadlines missed",
    f"cause:{Cause.SYNC_DEADLINE_MISSED}": "sync deadlines missed",
}
Margin = tuple[str, str]
"""A property and its value: ("session timeout", "45 s")."""


@dataclass(slots=True)
class Row:
    """One margin of one kind of loss: truths and how many were claimed, claims and how many are true."""

    truths: int = 0
    found: int = 0
    claims: int = 0
    true: int = 0


def margins(
    results: Iterable[Result], *, often: bool = False, claimed: float = CLAIMED
) -> dict[tuple[str, Margin], Row]:
    """Count each kind of loss in each margin, over all results.

    `often`: only in groups that commit within their session timeout. `claimed`: what makes a claim.
    """
    rows: dict[tuple[str, Margin], Row] = defaultdict(Row)
    for result in results:
        places = {
            group: list(_places(result, group, text))
            for group, text in result.timings.items()
            if not often or commits_often(text)
        }
        facts = [fact for fact in result.facts if fact.group in places]
        claims = [one for one in result.claims[REPLAY] if one.group in places and one.confidence >= claimed]
        _count(facts, claims, places, rows)
    return dict(sorted(rows.items()))


def commits_often(timing: str) -> bool:
    """Whether a group with this timing commits within its session timeout."""
    read = Timing.read(timing)
    return read.commit_ms <= read.session_ms


def _count(
    facts: Sequence[Fact],
    claims: Sequence[Claim],
    places: Mapping[str, Sequence[Margin]],
    rows: Mapping[tuple[str, Margin], Row],
) -> None:
    found = matched(facts, claims)
    for fact, claim in found.facts:
        for row in _rows(fact, places, rows) if fact.required else ():
            row.truths += 1
            row.found += claim is not None
    for one, is_true in found.claims:
        for row in _rows(one, places, rows):
            row.claims += 1
            row.true += is_true


def _rows(
    thing: Fact | Claim, places: Mapping[str, Sequence[Margin]], rows: Mapping[tuple[str, Margin], Row]
) -> Iterator[Row]:
    """Yield the rows in which a loss counts."""
    label = _LABELS.get(thing.label)
    for margin in places[thing.group] if label else ():
        yield rows[label or "", margin]
        yield rows[LOSSES, margin]


def _places(result: Result, group: str, text: str) -> Iterator[Margin]:
    family = result.families.get(group)
    if family is None:
        # The machine or a broker was away meanwhile.
        return
    yield ALL
    yield "scenario", group.partition(".")[0]
    yield "family", plain(family)
    yield "Kafka", str(result.about["kafka"])
    yield from classes(Timing.read(text)).items()


def table(rows: Mapping[tuple[str, Margin], Row]) -> str:
    """Give the margins as a table, with intervals."""
    lines = [
        "| what was lost | by | | truths | found | claims | true |",
        "|---|---|---|---|---|---|---|",
    ]
    for (label, (kind, value)), row in rows.items():
        recall, true = share(row.found, row.truths), share(row.true, row.claims)
        lines.append(f"| {label} | {kind} | {value} | {row.truths} | {recall} | {row.claims} | {true} |")
    return "\n".join(lines) + "\n"
