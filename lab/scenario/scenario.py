"""Scenario files: which member does what, when, and which findings that must lead to.

A file says `about`, `topics` (name: partitions), `members`, `settings` (worker flags), `steps` and `expect`.
A step is `{at: SECONDS, VERB: WHO, …}`; the verbs stand in `lab/scenario/faults.py`. Times are written for a
session timeout of 6 s and a poll interval of 8 s and scaled together with them by a seed; where a scenario
asks for `timings` the seed draws these (lab/workers/timings.py). Unknown keys are refused.
"""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import yaml

from rebalance_monitor.lab.cluster.properties import HEARTBEAT_848, SESSION_848, SESSION_TIMEOUT_848_MS
from rebalance_monitor.lab.scenario.faults import VERBS
from rebalance_monitor.lab.scenario.model import (
    BASE_POLL_MS,
    BASE_SESSION_MS,
    Expectation,
    Scenario,
    ScenarioError,
    Step,
)
from rebalance_monitor.lab.scenario.traffic import TICK_S
from rebalance_monitor.lab.workers.families import FAMILIES
from rebalance_monitor.lab.workers.timings import Timing, drawn

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

FOLDER = Path(__file__).parents[1] / "scenarios"
# A smaller group is small for a reason.
GROWS_FROM = 3
# How much shorter or longer a seed makes the time between two steps of a run with production timings.
GAPS = (0.9, 1.1)
KEYS = frozenset(
    {
        "about",
        "topics",
        "members",
        "static",
        "settings",
        "steps",
        "end",
        "expect",
        "families",
        "silent",
        "delay",
        "broker",
        "proxied",
        "beside",
        "traffic",
        "timings",
        "cluster",
        "hosts",
    }
)


def load(name: str) -> Scenario:
    """Read the scenario `name` of this package, or a file. Raises ScenarioError."""
    path = Path(name) if name.endswith((".yaml", ".yml")) else FOLDER / f"{name}.yaml"
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ScenarioError(f"There is no scenario {name}; there are: {', '.join(names())}.") from error
    return parse(path.stem, yaml.safe_load(text))


def names() -> list[str]:
    """Give the names of the scenarios that come with the lab."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


def parse(name: str, raw: Mapping[str, object]) -> Scenario:
    """Make a scenario of a YAML document. Raises ScenarioError naming what it does not know."""
    if unknown := set(raw) - KEYS:
        raise ScenarioError(f"{name}: unknown keys {sorted(unknown)}.")
    members = _names(raw.get("members", ""))
    steps = [one for item in _list(raw, "steps") for one in _steps(name, item, members)]
    settings = cast("Mapping[str, object]", raw.get("settings") or {})
    return Scenario(
        name=name,
        about=str(raw.get("about", "")).strip(),
        topics=cast("Mapping[str, int]", raw.get("topics") or {"orders": 6}),
        members=members,
        static=bool(raw.get("static")),
        settings={key: str(value) for key, value in settings.items()},
        steps=tuple(sorted(steps, key=lambda step: step.at)),
        end=float(str(raw["end"])),
        expect=tuple(_expectation(item) for item in _list(raw, "expect")),
        families=_names(raw.get("families", "")),
        silent=bool(raw.get("silent")),
        proxied=bool(raw.get("proxied")),
        beside=bool(raw.get("beside")),
        traffic=float(cast("float", raw.get("traffic", TICK_S))),
        timings=int(str(raw.get("timings", 0))),
        cluster=str(raw.get("cluster", "")),
        hosts=bool(raw.get("hosts")),
        **_cluster(raw),
    )


def _cluster(raw: Mapping[str, object]) -> dict[str, Any]:
    wanted = cast("Mapping[str, object]", raw.get("broker") or {})
    properties = {key: str(value) for key, value in wanted.items() if key != "nodes"}
    return {"nodes": int(str(wanted.get("nodes", 0))), "broker": properties}


def _list(raw: Mapping[str, object], key: str) -> Sequence[Mapping[str, object]]:
    return cast("Sequence[Mapping[str, object]]", raw.get(key) or ())


def _names(text: object) -> tuple[str, ...]:
    return tuple(map(str, text)) if isinstance(text, list) else tuple(str(text).split())


def _expectation(item: Mapping[str, object]) -> Expectation:
    texts = {key: str(item.get(key, "")) for key in ("member", "phase", "cause")}
    return Expectation(kind=str(item["kind"]), after=float(str(item["after"])), **texts)


def _steps(name: str, item: Mapping[str, object], members: tuple[str, ...]) -> list[Step]:
    found = [key for key in item if key in VERBS or key == "crash_loop"]
    if len(found) != 1 or "at" not in item:
        raise ScenarioError(f"{name}: a step needs `at` and exactly one verb: {dict(item)}.")
    verb, at = found[0], float(str(item["at"]))
    who = members if item[verb] == "all" else _names(item[verb])
    options = {key: value for key, value in item.items() if key not in {"at", verb}}
    return _crash_loop(at, who, options) if verb == "crash_loop" else [Step(at, verb, who, options)]


def _crash_loop(at: float, who: tuple[str, ...], options: Mapping[str, object]) -> list[Step]:
    times, every, life = (float(str(options[key])) for key in ("times", "every", "life"))
    rounds = [at + every * index for index in range(int(times))]
    return [step for begin in rounds for step in (Step(begin, "start", who), Step(begin + life, "kill", who))]


def varied(
    scenario: Scenario, seed: int, slower: float = 1.0, *, grow: bool = False, family: str = ""
) -> Scenario:
    """Give the scenario with times and time-outs varied by `seed` and stretched by `slower`.

    With `grow` up to two members more stand by, where nothing is done to all members at once. The poll
    interval is never nearer to the session timeout than their defaults are here, 8 s to 6 s, unless the
    scenario sets them. Seed 0 varies nothing. Where there are `timings`, they are the family's own.
    """
    if scenario.timings:
        return _timed(scenario, seed, family)
    if seed == 0:
        return scenario
    if grow:
        scenario = _grown(scenario, random.Random(f"{scenario.name}/{seed}/size"))  # noqa: S311 - variation
    chance = random.Random(f"{scenario.name}/{seed}")  # noqa: S311 - variation, not secrecy
    pace = chance.uniform(0.9, 1.35) * slower
    session = BASE_SESSION_MS * pace * chance.uniform(0.93, 1.07)
    nearest = session * BASE_POLL_MS / BASE_SESSION_MS
    return replace(
        scenario,
        settings={
            key: str(round(int(value) * slower)) if key in {"session_ms", "poll_ms"} else value
            for key, value in scenario.settings.items()
        },
        session_ms=round(session),
        poll_ms=round(max(BASE_POLL_MS * pace * chance.uniform(0.97, 1.1), nearest)),
        end=scenario.end * pace + 2,
        steps=tuple(
            replace(
                step,
                at=step.at * pace + (chance.uniform(0, 1.0) if step.at else 0.0),
                options=_scaled(step, pace),
            )
            for step in scenario.steps
        ),
        expect=tuple(replace(one, after=one.after * pace) for one in scenario.expect),
    )


def _timed(scenario: Scenario, seed: int, family: str) -> Scenario:
    """Draw the timings; vary what passes between two steps, but not beyond what either is written for."""
    salt = f"{scenario.name}/{seed}/{family}"
    chance = random.Random(salt)  # noqa: S311 - variation, not secrecy
    timings = ",".join(str(_allowed(one, scenario, family)) for one in drawn(scenario.timings, salt))
    steps: list[Step] = []
    before = at = 0.0
    for step in scenario.steps:
        at += (step.at - before) * chance.uniform(*GAPS)
        before = step.at
        steps.append(replace(step, at=round(at, 2)))
    return replace(
        scenario,
        settings={**scenario.settings, "groups": str(scenario.timings), "timings": timings},
        steps=tuple(steps),
        end=round(at + scenario.end - before, 2),
    )


def _allowed(timing: Timing, scenario: Scenario, family: str) -> Timing:
    """Give the timing with what the broker sets for members of the consumer protocol."""
    if family not in FAMILIES or FAMILIES[family].group_type != "consumer":
        return timing
    session = int(scenario.broker.get(SESSION_848, SESSION_TIMEOUT_848_MS))
    heartbeat = int(scenario.broker.get(HEARTBEAT_848, timing.heartbeat_ms))
    poll = max(timing.poll_ms, session)
    return replace(timing, session_ms=session, heartbeat_ms=heartbeat, poll_ms=poll)


def _grown(scenario: Scenario, chance: random.Random) -> Scenario:
    first, *others = scenario.steps
    everyone = set(scenario.members)
    # Brokers with settings of their own may be set for just these members; a herd is large enough.
    fixed = scenario.broker or "groups" in scenario.settings or len(everyone) < GROWS_FROM
    if fixed or first.verb != "start" or any(set(one.who) >= everyone for one in others):
        return scenario
    more = tuple(f"more-{number}" for number in range(chance.randint(0, 2)))
    steps = (replace(first, who=(*first.who, *more)), *others)
    return replace(scenario, members=(*scenario.members, *more), steps=steps)


def _scaled(step: Step, pace: float) -> dict[str, object]:
    # A stall must stay as many poll intervals long as its author meant.
    return {
        key: float(str(value)) * pace * 1.07 if key == "seconds" else value
        for key, value in step.options.items()
    }
