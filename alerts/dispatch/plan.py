"""What a dispatcher works on: its configuration, its memory, and what it hands to a sink. Data only."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from rebalance_monitor.alerts.dispatch.watchdog import WatchdogRule
from rebalance_monitor.alerts.engine.types import Due, Rules, State, Way
from rebalance_monitor.alerts.incidents.incidents import Policy
from rebalance_monitor.alerts.messages.links import Links

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rebalance_monitor.alerts.dispatch.retry import Pace
    from rebalance_monitor.alerts.dispatch.threads import Thread
    from rebalance_monitor.alerts.messages.notification import Notification


@dataclass(frozen=True, slots=True)
class WayOut:
    """One way out. `resend_ms`: see `sinks.base.Sink`.

    `closes`: it gets notifications about silences and unseen ends too, because those do not page there.
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
    """One notification under way, and why. `along`: the notifications that it combines, if several."""

    way: Way
    due: Due
    notification: Notification
    along: tuple[Outgoing, ...] = ()

    def parts(self, state: dict[str, str]) -> list[tuple[Outgoing, dict[str, str]]]:
        """Return each that it stands for, with its part of the `state` that the sink returned."""
        if not self.along:
            return [(self, state)]
        names = [{alert.fingerprint for alert in one.notification.alerts} for one in self.along]
        return [
            (one, {name: value for name, value in state.items() if name in own})
            for one, own in zip(self.along, names, strict=True)
        ]


def in_one(several: Sequence[Outgoing]) -> Outgoing:
    """Merge the resends of several threads into one notification: one call costs as much as another."""
    first = several[0]
    if len(several) == 1:
        return first
    parts = [one.notification for one in several]
    alerts = tuple(alert for one in parts for alert in one.alerts)
    state = {name: said for one in parts for name, said in one.state.items()}
    whole = replace(first.notification, labels={}, alerts=alerts, state=state)
    return replace(first, notification=whole, along=tuple(several))
