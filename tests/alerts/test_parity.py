"""The same configuration and timeline of alerts, through the engine and through a real Alertmanager.

Both must tell the same receivers the same at the same times, within one evaluation step. Alertmanager runs
in real time, the engine on a simulated clock; events stand on whole seconds and the intervals are such that
no look falls within 0.3 s of one, so that neither has to be lucky. Many timelines run side by side: each has
a cluster of its own, and every group of alerts is by cluster.
"""

from __future__ import annotations

import random
import time
from collections import defaultdict
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from rebalance_monitor.alerts.alert import NEVER, Alert
from rebalance_monitor.alerts.engine import COLLECT_MS, Engine, State
from rebalance_monitor.alerts.setup import rules_of
from rebalance_monitor.config.alerts import Alerts
from tests.alerts.alertmanager import Alertmanager, Told, running
from tests.alerts.findings import finding

if TYPE_CHECKING:
    from pathlib import Path

    from rebalance_monitor.alerts.engine import Due

pytestmark = pytest.mark.slow

LENGTH_S = 46
STEP_S = 1.0
"""One evaluation step of the job (`trigger_seconds`); a busy machine needs most of it."""
TICK_MS = 50
OFFSET_MS = 1_795_218_556_000
STARTED_WITHIN_S = (-0.2, -0.1, 0.0, 0.1, 0.2)
"""How well it is known when an Alertmanager began: every 30 s of its life it forgets empty groups."""
TIMING = {"group_wait": "2300ms", "group_interval": "4050ms", "repeat_interval": "10s"}
ALWAYS = {"name": "always", "time_intervals": [{"years": ["2000:2999"]}]}
NEVER_HOLDS = {"name": "never", "time_intervals": [{"years": ["2001"]}]}
RECEIVERS = ("root", "team", "page", "quiet", "dull")
QUIET = frozenset({"quiet"})
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


def ours(case: Case, offset_ms: int, head_start_s: float) -> list[Told]:
    """Return what the engine tells on a simulated clock that begins at `offset_ms`.

    `head_start_s` is how much older the Alertmanager is than the timeline.
    """
    section = Alerts(
        **{
            **case.config,
            "receivers": [
                {"name": name, "console": {"send_resolved": name not in QUIET}} for name in RECEIVERS
            ],
        }
    )
    state = State(collected_at=offset_ms - round(head_start_s * 1000))
    engine = Engine(rules_of(section), state)
    events = sorted(case.events, key=lambda event: event.at)
    told = []
    for now in range(offset_ms, offset_ms + LENGTH_S * 1000, TICK_MS):
        while events and events[0].at * 1000 + offset_ms <= now:
            _happen(engine, state, events.pop(0), now)
        for due in engine.due(now):
            engine.sent(due, now)
            told.append(_noted(due, (now - offset_ms) / 1000, section))
    return told


def _happen(engine: Engine, state: State, event: Event, now: int) -> None:
    name = repr(event.labels)
    before = state.alerts.get(name)
    firing = before is not None and not before.resolved(now)
    starts = before.starts_at if before is not None and firing else now - event.age * 1000
    ends = NEVER if event.fires else now
    if event.fires or firing:
        engine.take(Alert(name, dict(event.labels), starts, ends, finding()), now)


def _noted(due: Due, at: float, section: Alerts) -> Told:
    receiver = due.way.removesuffix("/console")
    quiet = receiver in QUIET
    assert section.is_on
    return Told(
        at,
        receiver,
        due.key[1],
        frozenset(tuple(sorted(alert.labels.items())) for alert in due.firing),
        frozenset(tuple(sorted(alert.labels.items())) for alert in due.resolved)
        if not quiet
        else frozenset(),
    )


def play(managers: list[tuple[Alertmanager, Case]], start: float) -> None:
    """Post every event at its time, to all of them."""
    plan = [(event, manager) for manager, case in managers for event in case.events]
    began: dict[tuple[int, Any], float] = {}
    for event, manager in sorted(plan, key=lambda entry: entry[0].at):
        time.sleep(max(0.0, start + event.at - time.time()))
        now = time.time()
        key = (id(manager), event.labels)
        if event.fires:
            began.setdefault(key, now - event.age)
            manager.post(dict(event.labels), began[key], None)
        elif key in began:
            manager.post(dict(event.labels), began.pop(key), now)
    time.sleep(max(0.0, start + LENGTH_S - time.time()))


def threads(told: list[Told]) -> dict[Any, list[Told]]:
    """Sort notifications by receiver and group, in order of time."""
    found: dict[Any, list[Told]] = defaultdict(list)
    for one in sorted(told, key=lambda one: one.at):
        # What comes as the curtain falls may be on either side of it.
        if one.at < LENGTH_S - 1:
            found[one.receiver, one.group].append(one)
    return found


def differences(expected: list[Told], candidates: list[list[Told]]) -> dict[Any, str]:
    """Return the threads in which no candidate agrees with Alertmanager, each with what both told."""
    theirs, mine = threads(expected), [threads(told) for told in candidates]
    keys = set(theirs).union(*mine)
    found = {}
    for key in sorted(keys, key=repr):
        left, rights = theirs.get(key, []), [told.get(key, []) for told in mine]
        if not any(_same(left, right) for right in rights):
            found[key] = f"{key}\n  Alertmanager: {_brief(left)}\n  ours:         {_brief(rights[2])}"
    return found


def _same(left: list[Told], right: list[Told]) -> bool:
    return len(left) == len(right) and all(
        (a.firing, a.resolved) == (b.firing, b.resolved) and abs(a.at - b.at) <= STEP_S
        for a, b in zip(left, right, strict=True)
    )


def _brief(told: list[Told]) -> str:
    said = [f"{one.at:.2f} s +{len(one.firing)} -{len(one.resolved)}" for one in told]
    return ", ".join(said) or "nothing"


def compared(cases: list[Case], folder: Path) -> tuple[dict[Any, str], list[int]]:
    """Play all cases in one stretch of real time; what differs, and how much each Alertmanager told."""
    with ExitStack() as stack:
        managers = []
        for number, case in enumerate(cases):
            (folder / str(number)).mkdir(parents=True)
            managers.append((stack.enter_context(running(case.config, QUIET, folder / str(number))), case))
        start = time.time() + 1
        play(managers, start)
        results = [
            (
                manager.receiver.told(start),
                [ours(case, OFFSET_MS, start - manager.started + off) for off in STARTED_WITHIN_S],
            )
            for manager, case in managers
        ]
    wrong = {
        (number, key): f"case {number}: {text}"
        for number, pair in enumerate(results)
        for key, text in differences(*pair).items()
    }
    return wrong, [len(theirs) for theirs, _ in results]


def test_the_engine_tells_what_a_real_alertmanager_tells(tmp_path: Path) -> None:
    """Configurations by hand and by chance, some fifty timelines, in one stretch of real time."""
    cases = [Case(BY_HAND, by_hand()), *(by_chance(seed) for seed in (11, 12, 13, 14))]
    wrong, told = compared(cases, tmp_path / "1")
    if wrong:
        # An Alertmanager that a busy machine woke late is late in another thread the next time.
        again, _ = compared(cases, tmp_path / "2")
        wrong = {key: text for key, text in wrong.items() if key in again}
    assert not wrong, "\n".join(wrong.values())
    assert min(told) > 10, told
    assert COLLECT_MS == 30_000
