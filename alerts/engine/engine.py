"""The dispatcher's heart: alerts in, what is due out, with Alertmanager's timing.

Pure: `now` is passed in, nothing is sent here. An alert joins one group per matching route. A group is first
notified `group_wait` after it began (at once if its alert is older than that), and then evaluated every
`group_interval`. Silences, inhibition, mute intervals and suppression are applied first. `needs_update` then
compares the remaining alerts with the notification log. A due notification stays `pending` until `sent` or
`dropped` is called: a sink that was down gets the present state, not the past.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from rebalance_monitor.alerts.engine.decision import Entry, needs_update
from rebalance_monitor.alerts.engine.mute import Hush
from rebalance_monitor.alerts.engine.types import AlertGroup, Due, Key, Rules, State, Way
from rebalance_monitor.alerts.incidents.alert import NEVER
from rebalance_monitor.alerts.routing.intervals import any_holds
from rebalance_monitor.coordinator.findings.kinds import Severity

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from rebalance_monitor.alerts.incidents.alert import Alert
    from rebalance_monitor.alerts.routing.routes import Route

__all__ = ["Due", "Engine", "Key", "Rules", "State", "Way"]
COLLECT_MS = 30_000
MAX_ALERTS = 20_000
"""Open alerts at most: beyond that new ones are counted in `State.refused` and not notified. As many critical
alerts are taken again: a page must not wait behind a flood of warnings."""


class Engine:
    """Not safe for several threads; `state` is the caller's to keep."""

    def __init__(self, rules: Rules, state: State) -> None:
        self._rules = rules
        self._state = state
        self._cached: tuple[int, Hush] | None = None
        self._catches_up = False
        self._routes = {route.path: route for route in (*rules.root.walk(), *rules.fallback)}
        for key in [key for key in state.groups if key[0] not in self._routes]:
            del state.groups[key]
        self._keys: dict[str, set[Key]] = {}
        for key, group in state.groups.items():
            for name in group.alerts:
                self._keys.setdefault(name, set()).add(key)
        known = {(way, key) for key in state.groups for way in self.ways_of(key)}
        state.pending &= known

    def reroute(self, now: int) -> None:
        """Route all open alerts anew: the tree may have changed since the state was kept."""
        for alert in list(self._state.alerts.values()):
            if not alert.resolved(now):
                self._join(alert, now)

    def take(self, alert: Alert, now: int, also: Iterable[Route] = ()) -> list[Key]:
        """Let a new or changed alert in, to the routes that it matches and `also`; return its groups."""
        state = self._state
        before = state.alerts.get(alert.fingerprint)
        most = 2 * MAX_ALERTS if alert.finding.severity is Severity.CRITICAL else MAX_ALERTS
        if before is None and len(state.alerts) >= most:
            state.refused += 1
            return []
        state.alerts[alert.fingerprint] = alert
        self._cached = None
        if before is not None and before.labels != alert.labels:
            self._leave(alert)
        return self._join(alert, now, also)

    def shorten(self, latest: int) -> None:
        """Move ends after `latest` (ms) to `latest`; this alone sends no notification."""
        for name, alert in list(self._state.alerts.items()):
            if latest < alert.ends_at < NEVER:
                self._state.alerts[name] = replace(alert, ends_at=latest)
                self._cached = None

    def hurry(self, names: Collection[str], now: int) -> None:
        """Let the groups of these alerts, by fingerprint, be looked at now if they never were."""
        for group in self._state.groups.values():
            if not group.looked and not group.alerts.isdisjoint(names):
                group.next_look = now

    def catch_up(self, now: int, *, is_behind: bool) -> None:
        """Decide about what is late only once nothing newer waits to be read: it may be over by then.

        No receiver is notified of an incident that began and ended while the monitor was away.
        """
        was_behind, self._catches_up = self._catches_up, is_behind
        if was_behind and not is_behind:
            for group in self._state.groups.values():
                if any(self._state.alerts[name].finding.late for name in group.alerts):
                    group.next_look = now

    def next_due_at(self) -> int | None:
        """Return the earliest time (ms) at which `due` may have something to say."""
        return min((group.next_look for group in self._state.groups.values()), default=None)

    def due(self, now: int) -> list[Due]:
        """Flush every group whose time has come; return the notifications that are due from now on."""
        found: list[Due] = []
        for key, group in list(self._state.groups.items()):
            route = self._routes[key[0]]
            # A clock that was set back must not delay a notification.
            longest = max(route.group_wait, route.group_interval)
            if group.next_look <= now or group.next_look > now + longest:
                group.next_look = now + route.group_interval
                group.looked = True
                found += self._due_of(key, self._hush(now), now)
        if not 0 <= now - self._state.collected_at < COLLECT_MS:
            self._collect(now)
        return found

    def present(self, way: str, key: Key, now: int) -> Due | None:
        """Return what is still to be sent of a due notification, as things are now; None if nothing is."""
        due = self._judge(way, key, self._hush(now), now)
        if due is not None and not due.firing and way in self._rules.quiet:
            self.sent(due, now)
            return None
        return due

    def shown(self, way: str, key: Key, now: int) -> tuple[tuple[Alert, ...], tuple[Alert, ...]]:
        """Return the alerts of a group as this way out sees them: firing, resolved."""
        shown = self._shown(way, key, self._hush(now))
        firing = tuple(alert for alert in shown if not alert.resolved(now))
        return firing, tuple(alert for alert in shown if alert.resolved(now))

    def sent(self, due: Due, now: int) -> None:
        """Record a delivery; resolved alerts that no receiver still waits for are forgotten."""
        self._state.log[due.way, due.key] = Entry(
            now,
            frozenset(alert.fingerprint for alert in due.firing),
            frozenset(alert.fingerprint for alert in due.resolved),
            {alert.fingerprint: alert.finding.id for alert in due.firing},
        )
        self.dropped(due.way, due.key)
        self._forget(due.key, due.resolved)

    def dropped(self, way: str, key: Key) -> None:
        """Take something due back."""
        self._state.pending.discard((way, key))

    def hushed(self, alert: Alert, now: int) -> bool:
        """Whether this alert is held back or explained by another at `now`."""
        hush = self._hush(now)
        return hush.mutes(alert) or hush.swallows(alert)

    def alerts_of(self, key: Key) -> list[Alert]:
        """Return the alerts of a group, also resolved ones that are still to be sent."""
        return [self._state.alerts[name] for name in self._state.groups[key].alerts]

    def silenced(self, way: str, key: Key, now: int) -> tuple[Alert, ...]:
        """Return what this way out knows as firing, if silences cover all of it by now."""
        group, entry = self._state.groups.get(key), self._state.log.get((way, key))
        names = group.alerts & entry.firing if group and entry else set()
        firing = [self._state.alerts[name] for name in sorted(names)]
        firing = [alert for alert in firing if not alert.resolved(now)]
        covered = all(self._rules.silenced(alert.labels, now) for alert in firing)
        return tuple(firing) if covered else ()

    def ways_of(self, key: Key) -> tuple[str, ...]:
        """Return the ways out of a group of alerts."""
        return self._rules.ways_of(self._routes[key[0]].receiver)

    def is_muted(self, key: Key, now: int) -> bool:
        """Whether an interval holds back everything of this group at `now`."""
        return key[0] in self._routes and self._muted(self._routes[key[0]], now)

    def _hush(self, now: int) -> Hush:
        """Return what is held back at `now`; kept for the questions of one moment, as it costs a walk."""
        if self._cached is None or self._cached[0] != now:
            alerts = self._state.alerts.values()
            self._cached = (now, Hush(self._rules.inhibit, alerts, self._rules.silenced, now))
        return self._cached[1]

    def _join(self, alert: Alert, now: int, also: Iterable[Route] = ()) -> list[Key]:
        if alert.quiet:
            return []
        keys = []
        for route in (*self._rules.root.match(alert.labels), *also):
            key = (route.path, route.group_of(alert.labels))
            group = self._state.groups.get(key)
            if group is None:
                group = self._state.groups[key] = AlertGroup(now + route.group_wait)
            group.alerts.add(alert.fingerprint)
            self._keys.setdefault(alert.fingerprint, set()).add(key)
            group.former.discard(alert.fingerprint)
            if not group.looked and alert.starts_at + route.group_wait < now:
                group.next_look = min(group.next_look, now)
            keys.append(key)
        return keys

    def _leave(self, alert: Alert) -> None:
        for key in self._keys.get(alert.fingerprint, ()):
            self._state.groups[key].former.add(alert.fingerprint)

    def _due_of(self, key: Key, hush: Hush, now: int) -> list[Due]:
        found = []
        for way in self.ways_of(key):
            due = self._judge(way, key, hush, now)
            if due is None:
                continue
            if due.firing or way not in self._rules.quiet:
                self._state.pending.add((way, key))
                found.append(due)
            else:
                self.sent(due, now)
        self._forget(key, [alert for alert in self.alerts_of(key) if alert.resolved(now)])
        return found

    def _judge(self, way: str, key: Key, hush: Hush, now: int) -> Due | None:
        route = self._routes[key[0]]
        if key not in self._state.groups or self._muted(route, now):
            return None
        shown = self._shown(way, key, hush)
        if not shown:
            return None
        firing = tuple(alert for alert in shown if not alert.resolved(now))
        resolved = tuple(alert for alert in shown if alert.resolved(now))
        entry = self._state.log.get((way, key))
        reason = needs_update(
            entry,
            frozenset(alert.fingerprint for alert in firing),
            frozenset(alert.fingerprint for alert in resolved),
            now,
            repeat_interval=route.repeat_interval,
            send_resolved=way not in self._rules.quiet,
            changed=way in self._rules.updating and self._changed(entry, firing, hush),
        )
        return None if reason is None else Due(way, key, firing, resolved, reason)

    def _shown(self, way: str, key: Key, hush: Hush) -> list[Alert]:
        """Return the alerts of a group for this sink; an alert known to it as firing stays until its end."""
        group = self._state.groups.get(key)
        if group is None:
            return []
        entry = self._state.log.get((way, key))
        known = entry.firing if entry else frozenset()
        return [
            alert
            for alert in (self._state.alerts[name] for name in sorted(group.alerts))
            if not hush.mutes(alert)
            and (
                alert.fingerprint in known
                or not (
                    alert.quiet
                    or alert.fingerprint in group.former
                    or (self._catches_up and alert.finding.late)
                    or hush.swallows(alert)
                )
            )
        ]

    @staticmethod
    def _changed(entry: Entry | None, firing: Iterable[Alert], hush: Hush) -> bool:
        said = entry.said if entry else {}
        return any(
            said.get(alert.fingerprint) != alert.finding.id and not alert.quiet and not hush.swallows(alert)
            for alert in firing
        )

    def _muted(self, route: Route, now: int) -> bool:
        named = self._rules.intervals
        muted = any(any_holds(named[name], now) for name in route.mute_time_intervals)
        active = route.active_time_intervals
        return muted or (bool(active) and not any(any_holds(named[name], now) for name in active))

    def _forget(self, key: Key, resolved: Iterable[Alert]) -> None:
        """Drop resolved alerts from a group, unless they fire again or a receiver still waits for the end."""
        group = self._state.groups.get(key)
        if group is None or any((way, key) in self._state.pending for way in self.ways_of(key)):
            return
        for alert in resolved:
            if self._state.alerts.get(alert.fingerprint) == alert:
                group.alerts.discard(alert.fingerprint)
                group.former.discard(alert.fingerprint)
                self._keys.get(alert.fingerprint, set()).discard(key)

    def _collect(self, now: int) -> None:
        """Forget empty groups, alerts of no group, and log entries too old to matter."""
        state = self._state
        state.collected_at = now
        for key in [key for key, group in state.groups.items() if not group.alerts]:
            del state.groups[key]
        self._keys = {name: keys for name, keys in self._keys.items() if keys}
        for name in [name for name, a in state.alerts.items() if name not in self._keys and a.resolved(now)]:
            del state.alerts[name]
        for way in [way for way, entry in state.log.items() if self._stale(way[1], entry, now)]:
            del state.log[way]

    def _stale(self, key: Key, entry: Entry, now: int) -> bool:
        route = self._routes.get(key[0])
        keep = 0 if route is None else 2 * route.repeat_interval
        return key not in self._state.groups and now - entry.at > keep
