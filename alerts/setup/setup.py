"""The configuration of alerts as the engine's rules, and everything that is wrong or odd about it.

Refuses what Alertmanager refuses (unknown receivers and intervals, a top route with matchers or without a
receiver, a group interval of 0) and labels that no alert of ours ever has. Warns of receivers that nothing
reaches.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rebalance_monitor.alerts.engine.engine import Rules
from rebalance_monitor.alerts.incidents.incidents import Policy
from rebalance_monitor.alerts.render.services import SERVICES, Service
from rebalance_monitor.alerts.routing.labels import KNOWN
from rebalance_monitor.alerts.routing.matchers import Matcher, parse
from rebalance_monitor.alerts.routing.routes import ALL_LABELS, InhibitRule, Route
from rebalance_monitor.alerts.setup.periods import interval_of
from rebalance_monitor.config.errors import ConfigError
from rebalance_monitor.coordinator.findings.kinds import Severity

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rebalance_monitor.alerts.routing.intervals import Interval
    from rebalance_monitor.config import alerts as config
    from rebalance_monitor.config.durations import Duration
    from rebalance_monitor.config.receivers import WayOut

TOP = Route(
    path="{}",
    receiver="",
    group_by=("cluster", "group", "scope"),
    group_wait=10_000,
    group_interval=60_000,
    repeat_interval=14_400_000,
)
"""What the top route has where the configuration says nothing."""


@dataclass(frozen=True, slots=True)
class Checked:
    """The result of a check of the configuration: errors and warnings."""

    problems: tuple[str, ...]
    warnings: tuple[str, ...]


def rules_of(section: config.Alerts) -> Rules:
    """Return the engine's rules, without silences. Raises ConfigError with every problem."""
    found = checked(section)
    if found.problems:
        raise ConfigError.of(found.problems)
    ways = ways_of(section)
    return Rules(
        root=_route(section.route, TOP, "{}"),
        inhibit=tuple(_inhibit(rule) for rule in section.inhibit_rules),
        intervals=intervals_of(section),
        ways=names_of(section),
        quiet=frozenset(name for name, (_, way) in ways.items() if not way.send_resolved),
        updating=frozenset(name for name, (kind, way) in ways.items() if takes_updates(kind, way)),
    )


def policy_of(section: config.Alerts, teams: Mapping[str, str]) -> Policy:
    """Return the mapping of findings to alerts; `teams` maps patterns of groups to teams."""
    return Policy(
        hold_ms=section.hold.ms,
        min_confidence=section.min_confidence,
        minimum_severity=Severity(section.minimum_severity),
        teams=teams,
    )


def names_of(section: config.Alerts) -> dict[str, tuple[str, ...]]:
    """Return receiver -> names of its ways out, `<name>/<kind>`: one keeps its own when another is added."""
    return {
        receiver.name: tuple(f"{receiver.name}/{kind}" for kind in receiver.ways())
        for receiver in section.receivers
    }


def ways_of(section: config.Alerts) -> dict[str, tuple[str, WayOut]]:
    """Return the name of each way out -> its kind and its options."""
    names = names_of(section)
    return {
        name: (kind, way)
        for receiver in section.receivers
        for name, (kind, way) in zip(names[receiver.name], receiver.ways().items(), strict=True)
    }


def takes_updates(kind: str, way: WayOut) -> bool:
    """Whether this sink is sent news of an open incident: only a Slack thread does not page for it."""
    if way.send_updates is not None:
        return way.send_updates
    return kind == "slack" and getattr(way, "token", None) is not None


def service_of(section: config.Alerts, way: WayOut) -> Service | None:
    """Return the ready-made template that a webhook names; one of `alerts.templates` goes before it."""
    name = getattr(way, "template", "")
    return None if name in section.templates else SERVICES.get(name)


def intervals_of(section: config.Alerts) -> dict[str, tuple[Interval, ...]]:
    """Return the named intervals. Raises ValueError for a range that is none."""
    return {
        named.name: tuple(interval_of(interval) for interval in named.time_intervals)
        for named in section.time_intervals
    }


def checked(section: config.Alerts) -> Checked:
    """Say what is wrong with the section, and what is odd; nothing at all is fine: no alerts."""
    if not section.is_on and section.route.receiver is None:
        return Checked((), ())
    return Checked(tuple(_problems(section)), tuple(_warnings(section)))


def _problems(section: config.Alerts) -> Iterator[str]:
    names = [receiver.name for receiver in section.receivers]
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield f"`alerts.receivers` has the name {name!r} twice"
    if section.route.receiver is None:
        yield "`alerts.route.receiver` is missing: it names the receiver of what no other route matches"
    if section.route.matchers:
        yield "`alerts.route.matchers`: the top route takes everything and may not have matchers"
    try:
        intervals = set(intervals_of(section))
    except ValueError as error:
        yield f"`alerts.time_intervals`: {error}"
        intervals = {named.name for named in section.time_intervals}
    yield from _route_problems(section.route, "alerts.route", set(names), intervals)
    for number, rule in enumerate(section.inhibit_rules):
        where = f"alerts.inhibit_rules.{number}"
        yield from _matcher_problems(rule.source_matchers, f"{where}.source_matchers")
        yield from _matcher_problems(rule.target_matchers, f"{where}.target_matchers")
        yield from _label_problems(rule.equal, f"{where}.equal")
    yield from _hold_problems(section)
    yield from _watchdog_problems(section)
    for name, (_, way) in ways_of(section).items() if len(set(names)) == len(names) else ():
        template = getattr(way, "template", "")
        if template and template not in {*section.templates, *SERVICES}:
            yield (
                f"the webhook {name!r} names the template {template!r}, which is not in `alerts.templates` "
                f"nor one of {', '.join(SERVICES)}"
            )


def _hold_problems(section: config.Alerts) -> Iterator[str]:
    hold = section.hold.ms
    for where, wait in _waits(section.route, "alerts.route", TOP.group_wait):
        if wait >= hold:
            yield (
                f"`alerts.hold` ({section.hold}) must be longer than `{where}.group_wait`: what has no end "
                "of its own, such as a session timeout, would end before it notifies"
            )


def _waits(route: config.Route, where: str, above: int | None = None) -> Iterator[tuple[str, int]]:
    """Yield each `group_wait` (ms) with its place in the tree; where none is set, `above`."""
    wait = above if route.group_wait is None else route.group_wait.ms
    if wait is not None:
        yield where, wait
    for number, child in enumerate(route.routes):
        yield from _waits(child, f"{where}.routes.{number}")


def _watchdog_problems(section: config.Alerts) -> Iterator[str]:
    known = names_of(section)
    for name in section.watchdog.to:
        if name not in known:
            yield f"`alerts.watchdog.to` names the receiver {name!r}, which does not exist"
        elif not known[name]:
            yield f"`alerts.watchdog.to` names the receiver {name!r}, which has no integration"


def _route_problems(
    route: config.Route, where: str, receivers: set[str], intervals: set[str]
) -> Iterator[str]:
    if route.receiver is not None and route.receiver not in receivers:
        yield f"`{where}.receiver` names the receiver {route.receiver!r}, which does not exist"
    yield from _matcher_problems(route.matchers, f"{where}.matchers")
    group_by = route.group_by or ()
    yield from _label_problems([name for name in group_by if name != ALL_LABELS], f"{where}.group_by")
    if ALL_LABELS in group_by and len(group_by) > 1:
        yield f"`{where}.group_by`: `...` cannot stand beside labels"
    for field in ("group_interval", "repeat_interval"):
        value = getattr(route, field)
        if value is not None and value.ms == 0:
            yield f"`{where}.{field}` must be longer than 0"
    for name in (*route.mute_time_intervals, *route.active_time_intervals):
        if name not in intervals:
            yield f"`{where}` names the time interval {name!r}, which does not exist"
    for number, child in enumerate(route.routes):
        yield from _route_problems(child, f"{where}.routes.{number}", receivers, intervals)


def _matcher_problems(texts: tuple[str, ...], where: str) -> Iterator[str]:
    for text in texts:
        try:
            matchers = parse(text)
        except ValueError as error:
            yield f"`{where}`: {error}"
            continue
        yield from _label_problems([matcher.label for matcher in matchers], where)


def _label_problems(labels: list[str] | tuple[str, ...], where: str) -> Iterator[str]:
    for label in labels:
        if label not in KNOWN:
            known = ", ".join(KNOWN)
            yield f"`{where}` names the label {label!r}, which no alert has; the labels are {known}"


def _warnings(section: config.Alerts) -> Iterator[str]:
    reached = set(_receivers(section.route)) | set(section.watchdog.to)
    for receiver in section.receivers:
        if receiver.name not in reached:
            yield f"nothing reaches the receiver {receiver.name!r}"
    yield from _unreachable(section.route, "alerts.route")


def _receivers(route: config.Route, above: str | None = None) -> Iterator[str]:
    receiver = route.receiver or above
    # A node above children still takes what none of them does, unless a child takes everything.
    if receiver is not None and not any(not child.matchers for child in route.routes):
        yield receiver
    for child in _open(route.routes):
        yield from _receivers(child, receiver)


def _open(routes: tuple[config.Route, ...]) -> Iterator[config.Route]:
    """Yield the routes that an alert can reach: up to the first that takes everything."""
    for route in routes:
        yield route
        if not route.matchers and not route.goes_on:
            return


def _unreachable(route: config.Route, where: str) -> Iterator[str]:
    reached = len(list(_open(route.routes)))
    for number, child in enumerate(route.routes):
        if number >= reached:
            yield f"nothing reaches `{where}.routes.{number}`: an earlier route matches everything"
        yield from _unreachable(child, f"{where}.routes.{number}")


def _route(section: config.Route, above: Route, path: str) -> Route:
    """Return the node with what it inherits. Its path is made of matchers: it outlives a reordering."""
    node = Route(
        path=path,
        receiver=section.receiver or above.receiver,
        matchers=_matchers(section.matchers),
        group_by=above.group_by if section.group_by is None else section.group_by,
        group_wait=_duration(section.group_wait, above.group_wait),
        group_interval=_duration(section.group_interval, above.group_interval),
        repeat_interval=_duration(section.repeat_interval, above.repeat_interval),
        goes_on=section.goes_on,
        mute_time_intervals=section.mute_time_intervals,
        active_time_intervals=section.active_time_intervals,
    )
    children = []
    seen: dict[str, int] = {}
    for child in section.routes:
        own = "{" + ",".join(sorted(map(str, _matchers(child.matchers)))) + "}"
        seen[own] = seen.get(own, 0) + 1
        number = f"#{seen[own]}" if seen[own] > 1 else ""
        children.append(_route(child, node, f"{path}/{own}{number}"))
    return replace(node, routes=tuple(children))


def _matchers(texts: tuple[str, ...]) -> tuple[Matcher, ...]:
    return tuple(matcher for text in texts for matcher in parse(text))


def _duration(own: Duration | None, above: int) -> int:
    return above if own is None else own.ms


def _inhibit(rule: config.InhibitRule) -> InhibitRule:
    return InhibitRule(_matchers(rule.source_matchers), _matchers(rule.target_matchers), rule.equal)
