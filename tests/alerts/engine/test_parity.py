"""The same configuration and timeline of alerts, through the engine and through a real Alertmanager.

Both must tell the same receivers the same at the same times, within one evaluation step. Alertmanager runs
in real time, the engine on a simulated clock; events stand on whole seconds and the intervals are such that
no look falls within 0.3 s of one, so that neither has to be lucky. Many timelines run side by side: each has
a cluster of its own, and every group of alerts is by cluster.
"""

from __future__ import annotations

import time
from collections import defaultdict
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

from rebalance_monitor.alerts.engine.engine import COLLECT_MS, Engine, State
from rebalance_monitor.alerts.incidents.alert import NEVER, Alert
from rebalance_monitor.alerts.setup.setup import rules_of
from rebalance_monitor.config.alerts import Alerts
from tests.alerts.support.alertmanager import Alertmanager, Told, running
from tests.alerts.support.findings import finding
from tests.alerts.support.timelines import BY_HAND, LENGTH_S, RECEIVERS, Case, Event, by_chance, by_hand

if TYPE_CHECKING:
    from pathlib import Path

    from rebalance_monitor.alerts.engine.engine import Due

pytestmark = pytest.mark.slow

STEP_S = 1.0
"""One evaluation step of the job (`trigger`); a busy machine needs most of it."""
TICK_MS = 50
OFFSET_MS = 1_795_218_556_000
STARTED_WITHIN_S = (-0.2, -0.1, 0.0, 0.1, 0.2)
"""How well it is known when an Alertmanager began: every 30 s of its life it forgets empty groups."""
QUIET = frozenset({"quiet"})


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
    """Return the threads in which no candidate agrees with Alertmanager, each with what both notified."""
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
    """Play all cases in one stretch of real time; what differs, and how much each Alertmanager notified."""
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


def test_the_engine_shows_what_a_real_alertmanager_sends(tmp_path: Path) -> None:
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
