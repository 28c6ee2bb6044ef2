"""Groups of very many members: what a generation, or a removal, costs grows with their number alone."""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rebalance_monitor.coordinator.commits.siblings import OFTEN, Siblings, siblings_of
from rebalance_monitor.coordinator.commits.trace import is_steady
from rebalance_monitor.coordinator.state.group_state import Member
from rebalance_monitor.coordinator.state.roster import Roster
from tests.coordinator.support.epochs import Epochs
from tests.coordinator.support.timeline import Client, Topic, outputs

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

small = st.integers(0, 3)


@st.composite
def members(draw: st.DrawFn) -> Member:
    name = str(draw(small))
    one = Member(name, None, name, "/h", False, 10_000, 60_000, "java", 3, str(draw(small)), 0)  # noqa: FBT003
    one.assigned = [[topic, 0] for topic in draw(st.sets(small, max_size=3))]
    one.gaps = draw(st.lists(st.integers(1, 5_000), max_size=5))
    one.last_commit, one.cadence = draw(st.integers(0, 20_000)), draw(st.integers(-1, 6_000))
    one.commits, one.offsets = draw(st.integers(0, 6)), draw(st.lists(small, max_size=2))
    return one


def went_on(member: Member, kept: list[Member], life: int) -> bool:
    """The rule of `Siblings.committed`, by looking at each of them."""
    topics = {topic for topic, *_ in member.assigned}
    return any(
        one.gaps
        and one.subscribed == member.subscribed
        and one.last_commit - 1.5 * sorted(one.gaps)[len(one.gaps) // 2] > life
        and (not topics or topics & {topic for topic, *_ in one.assigned})
        for one in kept
    )


def steady_went_on(kept: list[Member], life: int, cadence: int) -> bool:
    """The rule of `Siblings.went_on`, by looking at each of them."""
    active = [one for one in kept if one.offsets and is_steady(one, OFTEN)]
    return any(one.last_commit > life + max(cadence, one.cadence) for one in active)


def require_alike(found: Siblings, member: Member, kept: list[Member], life: int) -> None:
    assert found.committed(member, life) == went_on(member, kept, life)
    assert found.are_steady == any(one.offsets and is_steady(one, OFTEN) for one in kept)
    for cadence in (-1, 500, 3_000):
        assert found.went_on(life, cadence) == steady_went_on(kept, life, cadence)


@settings(max_examples=200, deadline=None)
@given(members(), st.lists(members(), max_size=6), st.integers(0, 20_000))
def test_siblings_that_went_on_are_those_of_the_rule(member: Member, kept: list[Member], life: int) -> None:
    named = list({one.member_id: one for one in kept}.values())
    require_alike(Siblings(named), member, named, life)


@settings(max_examples=100, deadline=None)
@given(members(), st.lists(st.tuples(members(), st.booleans(), st.integers(0, 20_000)), max_size=12))
def test_siblings_of_a_group_that_changes_are_those_of_the_rule(
    member: Member, steps: list[tuple[Member, bool, int]]
) -> None:
    roster = Roster()
    for one, is_gone, life in steps:
        known = roster.find(one.member_id)
        if is_gone:
            roster.take_out(one.member_id)
        elif known is None:
            roster.put(one)
        else:
            known.last_commit, known.gaps = one.last_commit, one.gaps
            roster.commit([known])
        require_alike(siblings_of(roster), member, list(roster), life)


def calls_of(number: int, *, assigned: bool, commits: bool, again: bool) -> Counter[str]:
    """Function -> its calls in a group whose half goes, then the other half. `again`: all join again."""
    clients = [
        Client(f"m-{n}", (n,) if assigned else (), f"c-{n}", f"/10.0.{n // 256}.{n % 256}")
        for n in range(number)
    ]
    topic = Topic()
    topic.generation(0, 1, clients)
    for turn in range(3 * commits):
        for n in range(number):
            topic.commit(1_000 + 5_000 * turn + n, {n: turn})
    topic.generation(30_000, 2, clients[: number // 2])
    topic.generation(90_000, 3, [replace(one, member_id=f"again-{one.member_id}") for one in clients * again])
    return counted(topic)


def counted(topic: Topic) -> Counter[str]:
    """Function -> its calls, for all that is said about `topic`."""
    calls, before = Counter[str](), sys.getprofile()

    def count(frame: FrameType, event: str, _argument: object) -> None:
        # An element that a generator gives is a call as well.
        calls[f"{frame.f_code.co_filename}:{frame.f_code.co_firstlineno}"] += event == "call"

    sys.setprofile(count)
    try:
        assert len(outputs(topic, clock=60_000)) >= 2
    finally:
        sys.setprofile(before)
    return calls


@pytest.mark.parametrize(
    ("assigned", "commits", "again"),
    [(True, False, False), (False, False, False), (True, True, False), (True, False, True)],
)
def test_no_function_is_called_more_often_for_each_member_of_a_larger_group(
    *, assigned: bool, commits: bool, again: bool
) -> None:
    require_linear(lambda number: calls_of(number, assigned=assigned, commits=commits, again=again))


def require_linear(calls: Callable[[int], Counter[str]]) -> None:
    few, many, most = (calls(number) for number in (100, 200, 400))
    ours = [name for name in most if "/coordinator/" in name]
    grown = {name: (many[name] - few[name], most[name] - many[name]) for name in ours}
    assert {name: steps for name, steps in grown.items() if steps[1] > 2.5 * steps[0] + 400} == {}


def removals_of(number: int, *, commits: bool, acknowledged: bool) -> Counter[str]:
    """Function -> its calls in a KIP-848 group that loses one member after the other, until it is empty.

    `commits`: of a member that stays, after each removal. `acknowledged`: by it, so that it has each epoch.
    """
    topic, ids = Epochs(), [f"{n:022}" for n in range(number)]
    for n, name in enumerate(ids):
        topic.metadata(n, name)
    topic.bump(number, 1)
    topic.target(number, 1)
    for n, name in enumerate(ids):
        topic.ack(number + n, name, 1, (n,))
    for turn in range(3 * commits):
        for n in range(number):
            topic.commit(1_000 + 1_000 * turn + n, {n: turn})
    for n, name in enumerate(ids):
        at = 20_000 + 10 * n
        topic.leave(at, name, n + 2)
        topic.target(at, n + 2)
        if acknowledged and n < number - 1:
            topic.ack(at, ids[-1], n + 2, (number - 1,))
        if commits and n < number - 1:
            topic.commit(at + 1, {number - 1: 100 + n})
    return counted(topic)


@pytest.mark.parametrize(("commits", "acknowledged"), [(False, False), (True, False), (True, True)])
def test_no_function_is_called_more_often_for_each_removal_from_a_larger_group(
    *, commits: bool, acknowledged: bool
) -> None:
    require_linear(lambda number: removals_of(number, commits=commits, acknowledged=acknowledged))
