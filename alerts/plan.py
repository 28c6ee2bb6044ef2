"""What a dispatcher works on: its configuration, its memory, and what it hands to a sink. Data only."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rebalance_monitor.alerts.board import Due, Rules, State, Way
from rebalance_monitor.alerts.incidents import Policy
from rebalance_monitor.alerts.links import Links
from rebalance_monitor.alerts.watchdog import WatchdogRule

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rebalance_monitor.alerts.pacing import Pace
    from rebalance_monitor.alerts.sinks.base import Notification
    from rebalance_monitor.alerts.threads import Thread


@dataclass(frozen=True, slots=True)
class WayOut:
    """One way out. `resend_ms`: see `sinks.base.Sink`.

    `closes`: it is told of silences, and of the end of what ended unseen, since that pages nobody there.
    """

    name: str
    kind: str
    per_minute: int = 30
    resend_ms: int | None = None
    closes: bool = False


@dataclass(slots=True)
class Memory:
    """Everything that outlives the process. `batches`: query id -> last batch whose findings were taken."""

    engine: State = field(default_factory=State)
    threads: dict[Way, Thread] = field(default_factory=dict)
    paces: dict[str, Pace] = field(default_factory=dict)
    batches: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Plan:
    """The configuration of a dispatcher. `sink_failing_ms`: from then on a failure is an alert."""

    rules: Rules
    ways: Mapping[str, WayOut]
    policy: Policy = field(default_factory=Policy)
    links: Links = field(default_factory=Links)
    watchdog: WatchdogRule = field(default_factory=WatchdogRule)
    sink_failing_ms: int = 300_000
    cluster: str = ""


@dataclass(frozen=True, slots=True)
class Outgoing:
    """One notification under way, and why."""

    way: Way
    due: Due
    notification: Notification
