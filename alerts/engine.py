"""The dispatcher's heart: alerts in, notifications due out, with Alertmanager's timing.

Pure: `now` is passed in, nothing is sent here. An alert joins one group per matching route; a group is first
told `group_wait` after it began (at once, if its alert is older than that), then looked at every
`group_interval`. What is told is what is left after inhibition and muting, if `decision.needs_update` says so
against the notification log. A notification counts as told when `sent` is called; until then every further
look finds it due again, with what is true by then: a sink that was down gets the present, not the past.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rebalance_monitor.alerts.decision import Entry, Reason, needs_update
from rebalance_monitor.alerts.intervals import Interval, any_holds

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rebalance_monitor.alerts.alert import Alert
    from rebalance_monitor.alerts.routes import Group, InhibitRule, Route

_COLLECT_MS = 30_000

Key = tuple[str, "Group"]
"""Path of the route and labels of the group."""


@dataclass(frozen=True, slots=True)
class Notification:
    """One message due to one receiver about one group of alerts, `resolved` among them if all are over."""

    receiver: str
    key: Key
    firing: tuple[Alert, ...]
    resolved: tuple[Alert, ...]
    reason: Reason


@dataclass(slots=True)
class AlertGroup:
    """Alerts under one node of the tree that share their group labels. `next_look` in ms."""

    next_look: int
    looked: bool = False
    alerts: set[str] = field(default_factory=set)


@dataclass(slots=True)
class State:
    """Everything the engine remembers: alerts by fingerprint, groups, and the log by (receiver, key)."""

    alerts: dict[str, Alert] = field(default_factory=dict)
    groups: dict[Key, AlertGroup] = field(default_factory=dict)
    log: dict[tuple[str, Key], Entry] = field(default_factory=dict)
    collected_at: int = -1


@dataclass(frozen=True, slots=True)
class Rules:
    """The configuration of the engine. `quiet`: receivers that are not told when an alert is over."""

    root: Route
    inhibit: tuple[InhibitRule, ...] = ()
    intervals: Mapping[str, tuple[Interval, ...]] = field(default_factory=dict)
    quiet: frozenset[str] = frozenset()


class Engine:
    """Not safe for several threads; `state` is the caller's to keep."""

    def __init__(self, rules: Rules, state: State) -> None:
        self._rules = rules
        self._state = state
        self._routes = {route.path: route for route in rules.root.walk()}
        for key in [key for key in state.groups if key[0] not in self._routes]:
            del state.groups[key]

    def take(self, alert: Alert, now: int) -> None:
        """Let a new or changed alert in."""
        self._state.alerts[alert.fingerprint] = alert
        for route in self._rules.root.match(alert.labels):
            key = (route.path, route.group_of(alert.labels))
            group = self._state.groups.get(key)
            if group is None:
                group = self._state.groups[key] = AlertGroup(now + route.group_wait)
            group.alerts.add(alert.fingerprint)
            if not group.looked and alert.starts_at + route.group_wait < now:
                group.next_look = min(group.next_look, now)

    def next_look(self) -> int | None:
        """Return the earliest time (ms) at which `due` may have something to say."""
        return min((group.next_look for group in self._state.groups.values()), default=None)

    def due(self, now: int) -> list[Notification]:
        """Look at every group whose time has come and return what has to be told now."""
        found = []
        for key, group in list(self._state.groups.items()):
            if group.next_look <= now:
                group.next_look = now + self._routes[key[0]].group_interval
                group.looked = True
                found += self._look(key, group, now)
        if now >= self._state.collected_at + _COLLECT_MS:
            self._collect(now)
        return found

    def sent(self, told: Notification, now: int) -> None:
        """Record that the receiver knows; resolved alerts are then forgotten."""
        self._state.log[told.receiver, told.key] = Entry(
            now,
            frozenset(alert.fingerprint for alert in told.firing),
            frozenset(alert.fingerprint for alert in told.resolved),
        )
        self._forget(told.key, told.resolved)

    def _look(self, key: Key, group: AlertGroup, now: int) -> list[Notification]:
        route = self._routes[key[0]]
        known = [self._state.alerts[name] for name in sorted(group.alerts)]
        told = [] if self._muted(route, now) else [a for a in known if not self._inhibited(a, now)]
        firing = tuple(alert for alert in told if not alert.resolved(now))
        resolved = tuple(alert for alert in told if alert.resolved(now))
        reason = self._reason(route, key, firing, resolved, now) if told else None
        if reason is None:
            self._forget(key, [alert for alert in known if alert.resolved(now)])
            return []
        notification = Notification(route.receiver, key, firing, resolved, reason)
        if firing or route.receiver not in self._rules.quiet:
            return [notification]
        self.sent(notification, now)
        return []

    def _reason(
        self, route: Route, key: Key, firing: tuple[Alert, ...], resolved: tuple[Alert, ...], now: int
    ) -> Reason | None:
        return needs_update(
            self._state.log.get((route.receiver, key)),
            frozenset(alert.fingerprint for alert in firing),
            frozenset(alert.fingerprint for alert in resolved),
            now,
            repeat_interval=route.repeat_interval,
            send_resolved=route.receiver not in self._rules.quiet,
        )

    def _muted(self, route: Route, now: int) -> bool:
        named = self._rules.intervals
        muted = any(any_holds(named[name], now) for name in route.mute_time_intervals)
        active = route.active_time_intervals
        return muted or (bool(active) and not any(any_holds(named[name], now) for name in active))

    def _inhibited(self, alert: Alert, now: int) -> bool:
        firing = (other for other in self._state.alerts.values() if not other.resolved(now))
        return any(
            rule.inhibits(other.labels, alert.labels) for other in firing for rule in self._rules.inhibit
        )

    def _forget(self, key: Key, resolved: Iterable[Alert]) -> None:
        """Drop alerts that are over from a group, unless they began anew meanwhile."""
        group = self._state.groups.get(key)
        if group is None:
            return
        for alert in resolved:
            if self._state.alerts.get(alert.fingerprint) == alert:
                group.alerts.discard(alert.fingerprint)

    def _collect(self, now: int) -> None:
        """Forget empty groups, alerts of no group, and log entries too old to matter."""
        state = self._state
        state.collected_at = now
        for key in [key for key, group in state.groups.items() if not group.alerts]:
            del state.groups[key]
        used = {name for group in state.groups.values() for name in group.alerts}
        for name in [name for name, a in state.alerts.items() if name not in used and a.resolved(now)]:
            del state.alerts[name]
        for log_key in [
            log_key for log_key, entry in state.log.items() if self._stale(log_key[1], entry, now)
        ]:
            del state.log[log_key]

    def _stale(self, key: Key, entry: Entry, now: int) -> bool:
        route = self._routes.get(key[0])
        keep = 0 if route is None else 2 * route.repeat_interval
        return key not in self._state.groups and now - entry.at > keep
