"""Pages, counted: incidents that were critical at some time, against what was worth waking somebody.

Worth a page are a group that storms and a join phase that outlasts what any expired session explains. Whether
it is one in the end depends on the records that wait (`coordinator/lag/costs/impact.py`): a page of either
may be left out, without being missed, where none did.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rebalance_monitor.coordinator.findings.kinds import Kind, Severity
from rebalance_monitor.coordinator.settings import DetectionSettings

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rebalance_monitor.coordinator.findings.finding import Finding
    from rebalance_monitor.lab.truth.fold import Fact

_GENERATIONS = frozenset({Kind.REBALANCE, Kind.REBALANCE_FAILED})
Page = tuple[str, Kind]
"""Group, or "" where it is about none, and kind."""


@dataclass(frozen=True, slots=True)
class Pages:
    """Pages of one recording: right ones, wrong ones and missing ones, each with how many incidents."""

    right: Mapping[Page, int]
    wrong: Mapping[Page, int]
    missing: Mapping[Page, int]


def pages_of(findings: Iterable[Finding]) -> Counter[Page]:
    """Return how many incidents of which kind paged for which group."""
    loud = {
        (one.incident or one.id, one.group or "", one.kind)
        for one in findings
        if one.severity is Severity.CRITICAL and not one.history
    }
    return Counter((group, kind) for _, group, kind in loud)


def counted_pages(findings: Iterable[Finding], worth: Mapping[Page, bool]) -> Pages:
    """Count the pages of findings; `worth`: what is worth a page, and whether leaving it out misses it."""
    made = pages_of(findings)
    return Pages(
        right={page: number for page, number in made.items() if page in worth},
        wrong={page: number for page, number in made.items() if page not in worth},
        missing={page: 1 for page, must in worth.items() if must and page not in made},
    )


def worth_of(facts: Iterable[Fact]) -> dict[Page, bool]:
    """Return what a recording's facts say is worth a page.

    A storm that the script announced did not come about where the log has too few generations for one; where
    it has none at all the storm is one that completes none.
    """
    every, found = list(facts), dict[Page, bool]()
    generations = Counter(fact.group for fact in every if fact.label in _GENERATIONS)
    for fact in every:
        if fact.label == Kind.STORM:
            page = fact.group, Kind.STORM
            came = not 0 < generations[fact.group] < DetectionSettings().storm_threshold
            found[page] = found.get(page, False) or (fact.required and came)
    return found
