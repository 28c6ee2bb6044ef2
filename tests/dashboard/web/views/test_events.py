"""Findings that say the same thing are one event, in whatever order and batches they came."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.finding import CauseEntry, Coordinator
from rebalance_monitor.coordinator.findings.kinds import Kind, Scope, Severity
from rebalance_monitor.coordinator.settings import DetectionSettings
from rebalance_monitor.dashboard.view.snapshot import Snapshot
from rebalance_monitor.dashboard.web.views.events import event_row, events_of
from rebalance_monitor.engine.replay.feeding import Feed
from tests.dashboard.web import known

if TYPE_CHECKING:
    from rebalance_monitor.coordinator.findings.finding import Finding
    from rebalance_monitor.dashboard.web.views.events import Event

SCENARIOS = ("python-3.9.1", "moved-4.1.1")
DEPARTURES = {Kind.SESSION_TIMEOUT, Kind.POLL_INTERVAL_EXCEEDED}
NAMES = known.CAPTURE.parents[1]


@cache
def captured(scenario: str) -> tuple[Finding, ...]:
    """Return the findings of a real capture, oldest first."""
    snapshot = Snapshot("lab")
    Feed(snapshot).run(NAMES / scenario / "capture", DetectionSettings())
    told = [one for view in snapshot.known.groups.values() for one in view.recent]
    return tuple(sorted([*told, *snapshot.known.others], key=lambda one: (one.at, one.id)))


def of_each(events: list[Event]) -> dict[str, Event]:
    return {finding.id: event for event in events for finding in event.findings}


def timeout(group: str, generation: int, at: int, rebalance: str, member: str) -> Finding:
    return known.rebalance(
        group,
        generation,
        at,
        id=f"t-{group}-{generation}-{member}",
        kind=Kind.SESSION_TIMEOUT,
        severity=Severity.WARNING,
        causes=(CauseEntry(Cause.SESSION_TIMEOUT, 0.9, "silent", member, member, "/10.0.0.1"),),
        details={"rebalance": rebalance},
    )


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_every_finding_of_a_capture_is_in_one_event_newest_first(scenario: str) -> None:
    events = events_of(captured(scenario))
    held = [finding.id for event in events for finding in event.findings]
    assert sorted(held) == sorted(finding.id for finding in captured(scenario))
    assert [event.at for event in events] == sorted((event.at for event in events), reverse=True)
    assert len(events) < len(held) * 0.6


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_departure_and_its_rebalance_are_one_event_that_names_the_member(scenario: str) -> None:
    told = {finding.id: finding for finding in captured(scenario)}
    events = of_each(events_of(told.values()))
    departures = [
        one for one in told.values() if one.kind in DEPARTURES and one.details.get("rebalance") in told
    ]
    assert departures
    for one in departures:
        event = events[one.id]
        assert event is events[str(one.details["rebalance"])]
        assert event.head.kind in DEPARTURES
        assert one.causes[0].client_id in event_row(event)["clients"] or event.parts


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_an_incident_is_one_event_from_its_opening_to_its_end(scenario: str) -> None:
    told = captured(scenario)
    events = of_each(events_of(told))
    resolved = [one for one in told if one.phase == "resolved" and one.incident in events]
    assert resolved
    for one in resolved:
        assert events[one.id] is events[str(one.incident)]
        assert events[one.id].since <= one.at


def test_coordinators_that_move_together_are_one_event_with_their_number() -> None:
    events = events_of(captured("moved-4.1.1"))
    (moved,) = (event_row(one) for one in events if one.head.kind is Kind.COORDINATOR_MOVED)
    found = [one for one in captured("moved-4.1.1") if one.kind == moved["kind"]]
    assert moved["count"] == sum(int(one.details.get("moved", 1)) for one in found) > 1
    # Four groups lost the same member's client to the same restart.
    (lost,) = (event_row(one) for one in events if one.head.kind is Kind.SESSION_TIMEOUT)
    assert lost["count"] == lost["groups_total"] == len(lost["groups"]) > 1
    assert lost["group"] is None


@settings(max_examples=60, deadline=None)
@given(data=st.data(), scenario=st.sampled_from(SCENARIOS))
def test_the_order_in_which_findings_came_does_not_matter(data: st.DataObject, scenario: str) -> None:
    told = captured(scenario)
    places = st.lists(st.integers(0, len(told) - 1), unique=True, max_size=len(told))
    mixed = [told[place] for place in data.draw(places)]
    in_order = sorted(mixed, key=lambda one: one.at)
    assert [event_row(one) for one in events_of(mixed)] == [event_row(one) for one in events_of(in_order)]


def test_alike_events_of_many_groups_are_one_only_where_they_come_at_once() -> None:
    together = [known.rebalance(f"g{number}", 2, known.T0 + 300 * number) for number in range(6)]
    (burst,) = events_of(together)
    row = event_row(burst)
    assert (row["count"], row["groups_total"], row["group"], row["generation"]) == (6, 6, None, None)
    assert row["since"] == together[0].at
    assert row["at"] == together[-1].at
    apart = [replace(one, at=known.T0 + 60_000 * number) for number, one in enumerate(together)]
    assert len(events_of(apart)) == 6
    assert len(events_of(together[:4])) == 4
    same = [known.rebalance("g", number, known.T0 + 300 * number) for number in range(6)]
    assert len(events_of(same)) == 6


def test_a_burst_that_is_not_all_known_says_so() -> None:
    (burst,) = events_of(known.rebalance(f"g{number}", 2, known.T0 + 300 * number) for number in range(6))
    assert not event_row(burst)["is_cut"]
    assert not event_row(burst, known.T0 - 60_000)["is_cut"]
    assert event_row(burst, known.T0)["is_cut"]
    (one,) = events_of([known.rebalance("g", 2, known.T0)])
    assert not event_row(one, known.T0)["is_cut"]


def test_what_follows_a_move_of_coordinators_is_gathered_for_longer() -> None:
    def moved(shard: int) -> Finding:
        return replace(
            known.rebalance("", 0, known.T0 + shard),
            id=f"moved-{shard}",
            kind=Kind.COORDINATOR_MOVED,
            scope=Scope.SHARD,
            group=None,
            generation=None,
            shard=shard,
            coordinator=Coordinator(2, 7),
            causes=(),
            details={"previous_broker": 1},
        )

    rejoined = [known.rebalance(f"g{number}", 2, known.T0 + 9_000 * (number + 1)) for number in range(4)]
    groups, moves = events_of([*map(moved, range(50)), *rejoined])
    assert (event_row(moves)["count"], event_row(moves)["broker"]) == (50, 2)
    assert event_row(groups)["count"] == 4
    assert len(events_of(rejoined)) == 4


def test_members_that_time_out_in_one_rebalance_are_one_event_that_names_them_all() -> None:
    rebalance = known.rebalance("orders", 4, known.T0)
    lost = [timeout("orders", 4, known.T0, rebalance.id, member) for member in ("a", "b", "c")]
    (event,) = events_of([*lost, rebalance])
    row = event_row(event)
    assert (row["kind"], row["severity"], row["with_kinds"]) == ("session_timeout", "warning", ["rebalance"])
    assert sorted(row["clients"]) == ["a", "b", "c"]
    assert row["generation"] == 4


def test_an_event_is_as_loud_as_it_ever_was_and_says_how_it_stands() -> None:
    opened = known.storm("orders", known.T0)
    over = replace(known.storm("orders", known.T0 + 90_000, "resolved", opened.id), severity=Severity.INFO)
    (event,) = events_of([opened, replace(over, opened_at=known.T0)])
    row = event_row(event)
    assert (row["severity"], row["phase"], row["at"] - row["since"]) == ("critical", "resolved", 90_000)


def test_a_finding_about_many_groups_holds_what_it_stands_for() -> None:
    rebalances = [known.rebalance(name, 4, known.T0) for name in ("orders", "payments")]
    lost = [timeout(one.group or "", 4, known.T0, one.id, f"{one.group}-a") for one in rebalances]
    many = replace(lost[0], id="many", group=None, groups=("orders", "payments"), groups_total=9, details={})
    later = timeout("orders", 9, known.T0 + 600_000, "", "orders-a")
    last, event = events_of([*lost, *rebalances, replace(many, phase="opened", incident="many"), later])
    assert last.findings == (later,)
    assert len(event.findings) == 5
    assert (event_row(event)["groups_total"], event_row(event)["incident"]) == (9, "many")
