"""Configurations of alerts and the timelines that run through them, by hand and by chance."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

LENGTH_S = 46
TIMING = {"group_wait": "2300ms", "group_interval": "4050ms", "repeat_interval": "10s"}
ALWAYS = {"name": "always", "time_intervals": [{"years": ["2000:2999"]}]}
NEVER_HOLDS = {"name": "never", "time_intervals": [{"years": ["2001"]}]}
RECEIVERS = ("root", "team", "page", "quiet", "dull")
SEVERITIES = ("info", "warning", "critical")
NAMES = ("storm", "session_timeout", "rebalance")


@dataclass(frozen=True, slots=True)
class Event:
    """At `at` (s) an alert fires, or is over. `age` (s): how long ago it says that it began."""

    at: int
    labels: tuple[tuple[str, str], ...]
    fires: bool = True
    age: int = 0


@dataclass(frozen=True, slots=True)
class Case:
    """One configuration with all the timelines that run through it."""

    config: dict[str, Any]
    events: tuple[Event, ...]


def labels(
    cluster: str, name: str, group: str = "orders", severity: str = "warning"
) -> tuple[tuple[str, str], ...]:
    found = {"cluster": cluster, "alertname": name, "group": group, "severity": severity}
    if group.startswith("pay"):
        found["team"] = "payments"
    return tuple(sorted(found.items()))


def configuration(route: dict[str, Any], rules: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "receivers": [{"name": name} for name in RECEIVERS],
        "route": {"receiver": "root", "group_by": ["cluster", "group"], **TIMING, **route},
        "inhibit_rules": rules,
        "time_intervals": [ALWAYS, NEVER_HOLDS],
    }


STORM_SWALLOWS = {
    "source_matchers": ['alertname="storm"'],
    "target_matchers": ['alertname=~"session_timeout|rebalance"'],
    "equal": ["cluster", "group"],
}
BY_HAND = configuration(
    {
        "routes": [
            {
                "matchers": ['severity="critical"'],
                "receiver": "page",
                "continue": True,
                "group_interval": "6050ms",
            },
            {
                "matchers": ['team="payments"'],
                "receiver": "team",
                "routes": [
                    {"matchers": ['severity="info"'], "receiver": "dull", "mute_time_intervals": ["always"]},
                    {"matchers": ['alertname!~"storm|rebalance"'], "receiver": "quiet", "group_by": ["..."]},
                ],
            },
            {
                "matchers": ['severity="info"'],
                "receiver": "quiet",
                "active_time_intervals": ["never", "always"],
            },
        ]
    },
    [STORM_SWALLOWS],
)


def by_hand() -> tuple[Event, ...]:
    """Return what must not go wrong, one cluster each."""
    fire, over = Event, lambda at, name: Event(at, name, fires=False)
    storm, lost = "storm", "session_timeout"
    once = labels("once", storm)
    again = labels("again", storm)
    late = labels("late", storm)
    first, second = labels("joins", storm), labels("joins", lost)
    source, target = labels("swallow", storm), labels("swallow", lost)
    ended = labels("ended", lost)
    flap = labels("flap", lost)
    brief = labels("brief", lost)
    page = labels("page", storm, severity="critical")
    team = labels("team", storm, group="pay-1", severity="critical")
    apart = labels("apart", lost, group="pay-2")
    muted = labels("muted", storm, group="pay-3", severity="info")
    dull = labels("dull", storm, severity="info")
    return (
        fire(1, once), over(12, once),
        fire(1, again), over(9, again), fire(34, again),
        fire(2, late, age=60), over(20, late),
        fire(1, first), fire(5, second), over(13, first), over(21, second),
        fire(1, target), fire(4, source), over(16, source), over(30, target),
        fire(1, ended), fire(3, labels("ended", storm)), over(8, ended), over(20, labels("ended", storm)),
        *(event for at in range(1, 24, 4) for event in (fire(at, flap), over(at + 2, flap))),
        fire(1, brief), over(2, brief),
        fire(1, page), over(17, page),
        fire(1, team), over(26, team),
        fire(1, apart), over(9, apart), fire(11, apart),
        fire(1, muted), over(9, muted),
        fire(1, dull), over(9, dull),
    )  # fmt: skip


def by_chance(seed: int) -> Case:
    """Return a random tree, random rules and a dozen random timelines."""
    draw = random.Random(seed)  # noqa: S311 - not a secret
    rules = [_random_rule(draw) for _ in range(draw.randint(0, 2))]
    route = {"routes": [_random_route(draw, 1) for _ in range(draw.randint(1, 3))]}
    events = [event for number in range(12) for event in _random_timeline(draw, f"c{number}")]
    return Case(configuration(route, rules), tuple(events))


def _random_matcher(draw: random.Random) -> str:
    return draw.choice(
        [
            f'severity{draw.choice(["=", "!="])}"{draw.choice(SEVERITIES)}"',
            f'alertname=~"{"|".join(draw.sample(NAMES, 2))}"',
            f'alertname!~"{draw.choice(NAMES)}.*"',
            'team="payments"',
            'team!="payments"',
            'group=~"pay-.*"',
        ]
    )


def _random_route(draw: random.Random, depth: int) -> dict[str, Any]:
    route: dict[str, Any] = {
        "matchers": sorted({_random_matcher(draw) for _ in range(draw.randint(1, 2))}),
        "receiver": draw.choice(RECEIVERS),
        "continue": draw.random() < 0.4,
    }
    if draw.random() < 0.4:
        route["group_by"] = draw.choice([["cluster"], ["cluster", "alertname"], ["..."], ["cluster", "team"]])
    if draw.random() < 0.3:
        route["group_interval"] = "6050ms"
    if draw.random() < 0.15:
        route[draw.choice(["mute_time_intervals", "active_time_intervals"])] = [
            draw.choice(["always", "never"])
        ]
    if depth < 3 and draw.random() < 0.5:
        route["routes"] = [_random_route(draw, depth + 1) for _ in range(draw.randint(1, 2))]
    return route


def _random_rule(draw: random.Random) -> dict[str, Any]:
    return {
        "source_matchers": [_random_matcher(draw)],
        "target_matchers": [_random_matcher(draw)],
        "equal": draw.choice([["cluster"], ["cluster", "group"], ["cluster", "alertname"]]),
    }


def _random_timeline(draw: random.Random, cluster: str) -> list[Event]:
    events = []
    for _ in range(draw.randint(1, 5)):
        group = draw.choice(["orders", "pay-1"])
        name = labels(cluster, draw.choice(NAMES), group, draw.choice(SEVERITIES))
        if any(event.labels == name for event in events):
            continue
        at = draw.randint(1, 20)
        while at < LENGTH_S - 2:
            events.append(Event(at, name, age=draw.choice([0, 0, 0, 60])))
            at += draw.randint(1, 20)
            if at < LENGTH_S - 2 and draw.random() < 0.8:
                events.append(Event(at, name, fires=False))
            at += draw.randint(1, 15)
    return events
