"""How likely each member has not rejoined a join phase, by its commits, positions, ends and newcomers."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalance_monitor.coordinator.commits import positions
from rebalance_monitor.coordinator.deadlines.not_rejoined import Awaited, awaited, by_summary
from rebalance_monitor.coordinator.deadlines.rejoining import NOTHING, UNKNOWN, Seen, shares
from rebalance_monitor.coordinator.findings.kinds import Kind, Severity
from rebalance_monitor.coordinator.lag.board import Board
from rebalance_monitor.coordinator.lag.ends import EndsSample
from rebalance_monitor.coordinator.live import Live
from rebalance_monitor.coordinator.probe.last_commits import last_commits
from rebalance_monitor.coordinator.state.positions import Positions
from tests.coordinator.refine.test_suppressed import rebalance
from tests.coordinator.support.looks import SETTINGS, look
from tests.coordinator.support.timeline import T0

if TYPE_CHECKING:
    from rebalance_monitor.coordinator.findings.finding import Finding

SINCE = 100_000


def member(
    name: str, last: int = -1, *, steady: bool = False, waited: int = UNKNOWN, usual: int = -1
) -> Seen:
    """A member that last committed so many ms after the phase was first seen, -1 never."""
    at = SINCE + last if last != -1 else -1
    names = name, name, f"/{name}", None
    return Seen(*names, at, -1, idle=False, session=45_000, steady=steady, waited=waited, usual=usual)


def drawn(number: int, last: int, cadence: int, waited: int, *, idle: bool, steady: bool) -> Seen:
    base = member(f"m{number}", steady=steady, waited=waited, usual=cadence)
    return replace(base, last_commit=last, cadence=cadence, idle=idle)


MEMBERS = st.lists(
    st.builds(
        drawn,
        st.integers(0, 10**6),
        st.one_of(st.just(-1), st.integers(0, SINCE + 40_000)),
        st.integers(-1, 30_000),
        st.sampled_from([UNKNOWN, NOTHING, 0, SINCE]),
        idle=st.booleans(),
        steady=st.booleans(),
    ),
    min_size=1,
    max_size=8,
    unique_by=lambda one: one.member_id,
)


@given(MEMBERS, st.integers(0, 500))
def test_somebody_is_missing_and_who_is_likely_does_not_depend_on_the_order(
    members: list[Seen], others: int
) -> None:
    found = shares(members, SINCE, SINCE + 60_000)
    assert all(0 < share <= 1 for share in found)
    assert shares(members[::-1], SINCE, SINCE + 60_000)[::-1] == pytest.approx(found)
    hidden = shares(members, SINCE, SINCE + 60_000, others)
    assert all(one <= two + 1e-9 for one, two in zip(hidden, found, strict=True))


def test_the_only_member_of_the_generation_before_is_the_one() -> None:
    assert awaited([member("old")], SINCE, SINCE + 30_000).ids == {"old"}


def test_of_two_members_the_one_that_did_not_commit_as_the_phase_began_is_the_one() -> None:
    found = awaited([member("deaf", -1_900), member("back", 900)], SINCE, SINCE + 30_000)
    assert found == Awaited(found.members[:1])
    assert found.ids == {"deaf"}


def test_of_members_of_which_nothing_is_known_a_few_are_named_together_and_many_are_not() -> None:
    few = awaited([member(f"m{number}") for number in range(3)], SINCE, SINCE + 30_000)
    assert (few.ids, few.any_of) == ({"m0", "m1", "m2"}, True)
    assert awaited([member(f"m{number}") for number in range(4)], SINCE, SINCE + 30_000) == Awaited()


def test_where_several_commit_on_their_client_does_so_while_it_waits() -> None:
    on = [member(f"m{number}", 29_000, steady=True) for number in range(5)]
    stopped = member("stopped", -60_000, steady=True)
    assert awaited([*on, stopped], SINCE, SINCE + 30_000, exact=True).ids == {"stopped"}
    assert awaited([on[0], member("a", 500), member("b", 700)], SINCE, SINCE + 30_000).ids == {"m0"}


def test_records_that_waited_for_a_member_make_its_silence_evidence_and_their_absence_does_not() -> None:
    others = [member("a", -1_900), member("b", -1_800)]
    waiting = member("c", -60_000, waited=SINCE - 30_000)
    assert awaited([*others, waiting], SINCE, SINCE + 30_000, exact=True).ids == {"c"}
    assert awaited([*others, replace(waiting, waited=NOTHING)], SINCE, SINCE + 30_000, exact=True).any_of


@pytest.mark.parametrize(
    ("client", "host", "is_told"), [("app-1", "/h1", True), ("app-1", "/h9", True), ("other", "/h1", False)]
)
def test_whose_place_a_newcomer_has_taken_has_not_rejoined(client: str, host: str, *, is_told: bool) -> None:
    """On its host, or on another one where the client id is its own."""
    known = [
        {
            "member_id": f"old-{number}",
            "client_id": f"app-{number}",
            "host": f"/h{number}",
            "instance_id": None,
            "last_commit": -1,
            "cadence_ms": -1,
            "family": "java",
            "commits_idle": False,
        }
        for number in range(4)
    ]
    listed = [(one["member_id"], "", one["client_id"], one["host"]) for one in known]
    summary = {"member_list": known, "members": 4, "protocol": "range"}
    found = by_summary(summary, SINCE, SINCE + 30_000, [*listed, ("new", "", client, host)], {})
    assert found.ids == ({"old-1"} if is_told else set())


def test_positions_and_ends_say_when_members_committed_and_what_waits_for_them() -> None:
    board = Board()
    held = Positions()
    for partition, at, offset in ((0, 9_000, 50), (1, 8_000, 60), (2, 5_000, 70)):
        positions.keep(held, at, positions.partition_entry(b"orders", partition), offset.to_bytes(8, "big"))
    board.publish("g", held, 10_000)
    for at, end in ((4_000, 71), (6_000, 71), (8_000, 91)):
        board.take(EndsSample(at, at, {"orders": (50, 60, end)}), ())
    members = [
        {"member_id": "a", "partitions": 2, "assigned": {"orders": "0-1"}},
        {"member_id": "b", "partitions": 1, "assigned": {"orders": "2"}},
        {"member_id": "c", "partitions": 1, "assigned": {"orders": "3"}},
    ]
    found = last_commits(board, "g", {"member_list": members})
    assert found["a"] == (9_000, NOTHING)
    assert found["b"].last == 5_000
    assert 6_000 <= found["b"].waited <= 8_000
    assert found["c"] == (-1, UNKNOWN)


def ended(lasts: int) -> list[Finding]:
    """The findings of a phase of so many ms that a generation without the member b ends.

    Sessions are 45 s and rebalance timeouts 60 s. All samples of the phase list b.
    """
    timeouts = {"session_timeout_ms": 45_000, "rebalance_timeout_ms": 60_000, "last_commit": -1}
    names = {"host": "/h", "instance_id": None, "cadence_ms": -1, "family": "sarama", "commits_idle": False}
    members = [{"member_id": name, "client_id": name, **names, **timeouts} for name in "abcd"]
    listed = {"g": tuple((name, "", name, "/h") for name in "abcd")}
    summary = {"generation": 7, "state": "Stable", "at": T0, "group_type": "classic", "member_list": members}
    end = 9_500 + lasts
    looks = [
        replace(look(at, seen=10_000 <= at < end), members=listed if at < end else {})
        for at in range(8_000, end + 2_000, 1_000)
    ]
    base = rebalance(end)
    gone = (replace(base.members[0], member_id="b", client_id="b", role="left"),)
    told = Live(SETTINGS, "c1").on_samples(looks, {"g": summary}, [replace(base, members=gone, causes=())])
    return [one for one in told if one.kind is Kind.REBALANCE_STUCK]


def test_a_member_that_is_listed_to_the_deadline_lived_and_the_closing_finding_is_the_alert() -> None:
    """A session of 45 s and a heartbeat take as long: before the end it may have been dead."""
    opened, resolved = ended(60_000)
    assert (opened.severity, "waits_for" in opened.details) == (Severity.WARNING, False)
    assert (resolved.severity, resolved.details["waits_for"], resolved.details["removed"]) == (
        Severity.CRITICAL,
        "b",
        1,
    )


@pytest.mark.parametrize("lasts", [31_000, 45_000, 55_000])
def test_a_pod_that_is_replaced_is_named_at_the_end_and_pages_nobody(lasts: int) -> None:
    """Its old session ends a session timeout after a heartbeat that may have come as the phase began."""
    opened, resolved = ended(lasts)
    assert (opened.severity, resolved.severity) == (Severity.WARNING, Severity.WARNING)
    assert resolved.details["waits_for"] == "b"
    assert "removed" not in resolved.details
