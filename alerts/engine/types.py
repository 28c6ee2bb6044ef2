"""What the engine works on: its configuration, its memory and what it finds due. Data only."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rebalance_monitor.alerts.incidents.alert import Alerts

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rebalance_monitor.alerts.engine.decision import Entry, Reason
    from rebalance_monitor.alerts.incidents.alert import Alert
    from rebalance_monitor.alerts.routing.intervals import Interval
    from rebalance_monitor.alerts.routing.labels import Labels
    from rebalance_monitor.alerts.routing.routes import Group, InhibitRule, Route

Key = tuple[str, "Group"]
"""Path of the route and labels of the group."""
Way = tuple[str, Key]
"""One integration and one group of alerts: the unit of notification, log and retry."""


@dataclass(frozen=True, slots=True)
class Due:
    """The notification that one sink is due about one group of alerts; `resolved` if all are over."""

    way: str
    key: Key
    firing: tuple[Alert, ...]
    resolved: tuple[Alert, ...]
    reason: Reason


@dataclass(slots=True)
class AlertGroup:
    """Alerts under one node of the tree that share their group labels. `next_look` in ms.

    `former`: alerts that belong to another group since their labels changed; they resolve where they were
    sent.
    """

    next_look: int
    looked: bool = False
    alerts: set[str] = field(default_factory=set)
    former: set[str] = field(default_factory=set)


@dataclass(slots=True)
class State:
    """Everything the engine remembers: alerts by fingerprint, groups, the notification log, what is due."""

    alerts: Alerts = field(default_factory=Alerts)
    groups: dict[Key, AlertGroup] = field(default_factory=dict)
    log: dict[Way, Entry] = field(default_factory=dict)
    pending: set[Way] = field(default_factory=set)
    collected_at: int = -1
    refused: int = 0


def silence_nothing(_labels: Labels, _now: int) -> bool:
    """Silence nothing."""
    return False


@dataclass(frozen=True, slots=True)
class Rules:
    """The configuration of the engine.

    `ways`: receiver -> names of its integrations; a receiver that is not in it is one integration of its own
    name. `quiet`: integrations that get no resolved notifications. `updating`: integrations that get updates
    of an alert. `silenced(labels, now)`: whether a silence is active. `fallback`: one route per receiver
    outside the tree, for alerts that must be notified somehow.
    """

    root: Route
    inhibit: tuple[InhibitRule, ...] = ()
    intervals: Mapping[str, tuple[Interval, ...]] = field(default_factory=dict)
    ways: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    quiet: frozenset[str] = frozenset()
    updating: frozenset[str] = frozenset()
    silenced: Callable[[Labels, int], bool] = silence_nothing
    fallback: tuple[Route, ...] = ()

    def ways_of(self, receiver: str) -> tuple[str, ...]:
        """Return the ways out of a receiver."""
        return self.ways.get(receiver, (receiver,))
