"""The routing tree: the receivers of an alert, its grouping, and when it may be repeated.

Alertmanager's semantics: children inherit what they do not set; an alert goes down the first child that
matches, and on to the next siblings where that child says `continue`; where none does, the node takes it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rebalance_monitor.alerts.routing.matchers import Matcher, all_match

if TYPE_CHECKING:
    from rebalance_monitor.alerts.routing.labels import Labels

ALL_LABELS = "..."
"""In `group_by`: every alert is a group of its own."""

Group = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Route:
    """One node, with inherited values filled in; intervals in ms. `path` names it: `0/2/1`."""

    path: str
    receiver: str
    matchers: tuple[Matcher, ...] = ()
    group_by: tuple[str, ...] = ()
    group_wait: int = 30_000
    group_interval: int = 300_000
    repeat_interval: int = 14_400_000
    goes_on: bool = False
    mute_time_intervals: tuple[str, ...] = ()
    active_time_intervals: tuple[str, ...] = ()
    routes: tuple[Route, ...] = ()

    def match(self, labels: Labels) -> tuple[Route, ...]:
        """Return the nodes that take an alert with these labels, in the order of the tree."""
        if not all_match(self.matchers, labels):
            return ()
        taken: list[Route] = []
        for child in self.routes:
            found = child.match(labels)
            taken += found
            if found and not child.goes_on:
                break
        return tuple(taken) or (self,)

    def group_of(self, labels: Labels) -> Group:
        """Return the labels that alerts of one group share under this node."""
        names = sorted(labels) if ALL_LABELS in self.group_by else sorted(self.group_by)
        return tuple((name, labels[name]) for name in names if name in labels)

    def walk(self) -> tuple[Route, ...]:
        """Return this node and all below it."""
        return (self, *(node for child in self.routes for node in child.walk()))


@dataclass(frozen=True, slots=True)
class InhibitRule:
    """While a `source` alert fires, `target` alerts with the same `equal` labels are muted."""

    source: tuple[Matcher, ...]
    target: tuple[Matcher, ...]
    equal: tuple[str, ...] = ()

    def inhibits(self, target: Labels, *, one_sided: bool) -> bool:
        """Whether a firing source that shares the labels `equal` silences `target`.

        `one_sided`: such a source is no target itself; alerts on both sides never silence each other.
        """
        return all_match(self.target, target) and (one_sided or not all_match(self.source, target))
