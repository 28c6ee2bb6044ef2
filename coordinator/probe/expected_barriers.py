"""Completed generations that explain join phases in probe samples: these do not count towards a storm.

A scale-out or a rolling restart has one join phase after the other, and each ends in a generation that storms
do not count. Samples that show such a join phase do not count either. The record of the generation may be
read before the samples of the same time are taken, or after.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from rebalance_monitor.coordinator.findings.kinds import Kind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rebalance_monitor.coordinator.findings.finding import Finding
    from rebalance_monitor.coordinator.settings import DetectionSettings

SLACK_MS = 2_500
"""How far the clock of the samples may be from that of the records, ms."""

Span = tuple[int, int]
"""After the first, until the second (ms)."""


def span(finding: Finding, settings: DetectionSettings) -> Span | None:
    """Return the span of a join phase that ended in a generation which no storm counts, None for others.

    A join phase with an unknown start explains at most one window of samples.
    """
    if finding.kind is not Kind.REBALANCE or finding.details.get("disruptive"):
        return None
    window = settings.for_group(finding.group or "").storm_sightings_window_ms
    began = finding.at - window if finding.started_at_min is None else finding.started_at_min
    return began - SLACK_MS, finding.at + SLACK_MS


class Calm:
    """The spans that some findings explain, by group."""

    def __init__(self, settings: DetectionSettings, findings: Iterable[Finding] = ()) -> None:
        self._spans: defaultdict[str, list[Span]] = defaultdict(list)
        for finding in findings:
            found = span(finding, settings)
            if found is not None:
                self._spans[finding.group or ""].append(found)

    def explains(self, group: str, at: int) -> bool:
        """Whether a sample at `at` (ms) shows a join phase that one of the findings explains."""
        return any(since < at <= until for since, until in self._spans.get(group, ()))
