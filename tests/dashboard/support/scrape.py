"""Metrics for tests: a snapshot with its tallies, and what a scrape of them gives."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client.parser import text_string_to_metric_families as prometheus

from rebalance_monitor.config.teams import nobodys
from rebalance_monitor.dashboard.metrics.collector import SnapshotCollector, exposition, registry_of
from rebalance_monitor.dashboard.metrics.definitions import METRICS, PREFIX
from rebalance_monitor.dashboard.metrics.lag_series import Wanted
from rebalance_monitor.dashboard.metrics.tallies import Limits, Tallies
from rebalance_monitor.dashboard.view.snapshot import Snapshot

if TYPE_CHECKING:
    from collections.abc import Callable

NOW = 2_000_000_000.0
OPENMETRICS = "application/openmetrics-text; version=1.0.0"
LABELS = list(dict.fromkeys([*(label for metric in METRICS.values() for label in metric.labels), "le"]))
BUILD = {"version": "1", "python": "3", "spark": "4"}


class Page:
    """Snapshot, tallies and what a scrape of them gives."""

    def __init__(self, limits: Limits | None = None, team_of: Callable[[str], str] = nobodys) -> None:
        self.snapshot, self.tallies = Snapshot("c"), Tallies(limits or Limits())
        self.snapshot.listen(self.tallies.on_update)
        collector = SnapshotCollector(self.snapshot, self.tallies, BUILD, lambda: NOW, Wanted(), team_of)
        self.registry = registry_of(collector)

    def samples(self) -> dict[tuple[str, tuple[str, ...]], float]:
        """(name, values of the labels in the order of the table) -> value."""
        text = exposition(self.registry, "")[0].decode()
        return {
            (sample.name.removeprefix(PREFIX), values(sample.labels)): sample.value
            for family in prometheus(text)
            for sample in family.samples
        }

    def total(self, name: str) -> float:
        return sum(value for (found, _), value in self.samples().items() if found == name)


def values(labels: dict[str, str]) -> tuple[str, ...]:
    return tuple(labels[name] for name in LABELS if name in labels)
