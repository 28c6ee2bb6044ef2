"""A member in the place of an expired one: restarted where it came before the end, else perhaps blocked."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalance_monitor.coordinator.commits.client_families import process_of
from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.kinds import Kind
from rebalance_monitor.coordinator.rebalance.successors import _Predecessors
from rebalance_monitor.coordinator.state.group_state import Member
from tests.coordinator.support.timeline import Client, S, Topic, findings, of

RESTARTED, BLOCKED = Cause.MEMBER_RESTARTED, Cause.MEMBER_BLOCKED
GONE = Client("gone", (0,), "consumer-app-1", "/10.0.0.1")
KEPT = Client("kept", (1,), "consumer-app-1", "/10.0.0.2")
BACK = replace(GONE, member_id="back")
DIED = 60_000


def said(successor: Client, *, after: int, rest: list[Client] | None = None) -> list[Cause]:
    """What is said of a member that joins so many ms after another has expired, or in the same rebalance."""
    rest = [KEPT] if rest is None else rest
    topic = Topic()
    topic.generation(0, 1, [GONE, *rest])
    topic.commits(1_000, DIED, GONE)
    ended = DIED + S + 100
    for client in rest:
        topic.commits(1_500, ended + after, client)
    if after:
        topic.generation(ended, 2, [replace(client, partitions=(0, 1)) for client in rest])
    topic.generation(ended + after, 3 if after else 2, [successor, *rest])
    (*_, told) = of(findings(topic.sorted()), Kind.REBALANCE)
    return [one.cause for one in told.causes if one.cause in {RESTARTED, BLOCKED}]


@pytest.mark.parametrize("after", [5_000, 600_000])
@pytest.mark.parametrize("rest", [[KEPT], []])
def test_both_causes_stand_where_it_joins_after_the_old_session_has_ended(
    after: int, rest: list[Client]
) -> None:
    assert said(BACK, after=after, rest=rest) == [RESTARTED, BLOCKED]


def test_it_was_restarted_where_it_joins_before_the_old_session_has_ended() -> None:
    assert said(BACK, after=0) == [RESTARTED]


NAMES = ("consumer-g-1", "consumer-g-2", "c", "d")
OLD = st.tuples(st.sampled_from(NAMES), st.sampled_from(("/1", "/2")), st.integers(0, 3))


@given(st.lists(OLD, max_size=8), st.lists(OLD, max_size=8))
def test_the_newest_of_the_place_is_taken_first_of_its_own_client_id(
    expired: list[tuple[str, str, int]], joined: list[tuple[str, str, int]]
) -> None:
    left: list[list[str | int | float]] = [
        [f"m{n}", client, host, at, 1.0] for n, (client, host, at) in enumerate(expired)
    ]
    pool = _Predecessors(list(left))
    for client, host, _ in joined:
        member = Member("new", None, client, host, False, 1, 1, "java", 3, "", 0)  # noqa: FBT003
        near = [one for one in left if (process_of(str(one[1])), one[2]) == (process_of(client), host)]
        newest = max(near, key=lambda one: (one[1] == member.client_id, one[3]), default=None)
        assert pool.take(member) == newest
        left = [one for one in left if one is not newest]
    assert pool.left() == left


def test_its_process_lives_where_the_number_in_its_client_id_went_up() -> None:
    assert said(replace(BACK, client_id="consumer-app-2"), after=5_000) == [BLOCKED]


@pytest.mark.parametrize("other", [{"host": "/10.0.0.9"}, {"client_id": "other"}, {"instance_id": "i"}])
def test_nothing_is_said_of_a_member_of_another_host_or_client_or_of_a_static_one(
    other: dict[str, str],
) -> None:
    assert said(replace(BACK, **other), after=5_000) == []  # type: ignore[arg-type]
