"""What one alert costs does not grow with the others that are open, nor a thread with those that are over."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rebalance_monitor.alerts.dispatch.threads import ROOM
from rebalance_monitor.alerts.engine.decision import Reason
from rebalance_monitor.alerts.engine.engine import Engine, Rules, State
from rebalance_monitor.alerts.engine.mute import Hush
from rebalance_monitor.alerts.incidents import incidents
from rebalance_monitor.alerts.incidents.alert import NEVER, Alerts
from rebalance_monitor.alerts.incidents.incidents import Policy
from rebalance_monitor.alerts.routing.matchers import Matcher, parse
from rebalance_monitor.alerts.routing.routes import InhibitRule, Route
from rebalance_monitor.coordinator.findings.kinds import Kind, Severity
from tests.alerts.support.findings import AT, finding
from tests.alerts.support.play import BASE, MINUTE, Play, storm

if TYPE_CHECKING:
    import pytest

POLICY = Policy(minimum_severity=Severity.INFO)


def _walk(_self: object) -> Any:  # noqa: ANN401 - never returns
    raise AssertionError("walked over everything")


class Unwalked(dict[Any, Any]):
    """A dict in which things are looked up only."""

    __iter__ = keys = values = items = _walk


class UnwalkedAlerts(Alerts):
    """Alerts of which some are looked up only."""

    __iter__ = keys = values = items = _walk


def of(group: str, kind: Kind, **changes: Any) -> Any:  # noqa: ANN401 - any field of a finding
    return finding(kind, group=group, incident=f"{kind}-{group}", detected_at=AT, **changes)


def opened(*findings: Any) -> UnwalkedAlerts:  # noqa: ANN401 - findings
    alerts = [incidents.apply(None, one, POLICY) for one in findings]
    return UnwalkedAlerts(filter(None, alerts))


def test_the_end_of_a_group_is_found_without_evaluating_the_others() -> None:
    kinds = (Kind.STORM, Kind.GROUP_EMPTY, Kind.MEMBER_SILENT)
    known = opened(*(of(group, kind) for group in ("orders", "", "group", "other") for kind in kinds))
    for group in ("orders", ""):
        removed = finding(Kind.GROUP_REMOVED, group=group, at=AT + 1, detected_at=AT + 1)
        ended = [one for one in incidents.taken(known, removed, POLICY) if one.finding.kind in kinds]
        assert {(one.finding.group, one.finding.kind) for one in ended} == {(group, kind) for kind in kinds}
        assert {one.ends_at for one in ended} == {AT + 1}
    over = of("orders", Kind.STORM, at=AT + 2)
    ended = incidents.taken(known, replace(over, phase="resolved"), POLICY)
    assert [(one.finding.kind, one.ends_at) for one in ended] == [(Kind.STORM, AT)]
    assert all(dict.get(known, one.fingerprint).ends_at == NEVER for one in ended)


def test_a_change_of_labels_is_taken_without_evaluating_the_other_groups() -> None:
    state = State()
    route = Route("0", "sre", group_by=("group", "cause"), group_wait=0, group_interval=MINUTE)
    engine = Engine(Rules(route), state)
    first = incidents.apply(None, of("orders", Kind.STORM), POLICY)
    assert first is not None
    (before,) = engine.take(first, AT)
    state.groups = Unwalked(state.groups)
    (after,) = engine.take(replace(first, labels={**first.labels, "cause": "member_left"}), AT + 1)
    assert before != after
    assert state.groups[before].former == state.groups[after].alerts == {first.fingerprint}
    # So it is after a restart, too.
    (last,) = Engine(
        Rules(route), State(**{**_fields(state), "groups": dict(dict.items(state.groups))})
    ).take(first, AT + 2)
    assert last == before
    assert state.groups[after].former == {first.fingerprint}


def _fields(state: State) -> dict[str, Any]:
    return {name: getattr(state, name) for name in ("alerts", "log", "pending")}


def test_what_inhibition_costs_an_alert_does_not_grow_with_the_alerts_that_may_inhibit_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rule = InhibitRule(parse('kind="storm"'), parse('kind="member_silent"'), ("cluster",))
    storms = opened(*(of(f"g-{number}", Kind.STORM) for number in range(500)))
    hush = Hush((rule,), list(dict.values(storms)), lambda _labels, _now: False, AT)
    asked: list[Matcher] = []
    matches = Matcher.matches
    monkeypatch.setattr(Matcher, "matches", lambda one, labels: asked.append(one) or matches(one, labels))
    assert not any(hush.mutes(one) for one in list(dict.values(storms))[:2])
    (silent,) = dict.values(opened(of("g-1", Kind.MEMBER_SILENT, severity=Severity.WARNING)))
    assert hush.mutes(silent)
    assert len(asked) <= 4


def test_open_threads_are_not_searched_for_a_receiver_without_repeats() -> None:
    hook = {"name": "hook", "webhook": {"url": "http://127.0.0.1:1"}}
    play = Play({"receivers": [hook], "route": {"receiver": "hook", "group_wait": "0s"}})
    play.happens(storm())
    assert [reason for *_, reason in play.run(MINUTE)] == [Reason.FIRST]
    play.memory.threads = Unwalked(play.memory.threads)
    assert play.dispatch.ready(play.now) == []


def test_a_thread_that_stays_open_for_months_keeps_the_names_of_what_is_open() -> None:
    play = Play({**BASE, "route": {"receiver": "sre", "group_by": ["cluster"], "group_wait": "0s"}})
    play.happens(storm(group="stays"))
    play.run(MINUTE)
    for number in range(2 * ROOM + 100):
        play.happens(storm(group=f"g-{number}"))
        play.happens(storm("resolved", group=f"g-{number}", resolution="quiet"))
        if number % 100 == 0:
            play.run(6 * MINUTE, MINUTE)
    (thread,) = play.memory.threads.values()
    assert thread.sequence > 1
    assert len(thread.groups) <= ROOM
    assert "stays" in thread.groups
    before = thread.tally.rebalances
    play.happens(finding(Kind.REBALANCE, group="stays"))
    assert thread.tally.rebalances == before + 1
