"""Groups of very many members: what a generation costs grows with their number alone."""

from __future__ import annotations

import sys
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rebalance_monitor.coordinator.departure.observe import Siblings, siblings_committed
from rebalance_monitor.coordinator.state.group_state import Member
from tests.coordinator.support.timeline import Client, Topic, outputs

if TYPE_CHECKING:
    from types import FrameType

small = st.integers(0, 3)


@st.composite
def members(draw: st.DrawFn) -> Member:
    name = str(draw(small))
    one = Member(name, None, name, "/h", False, 10_000, 60_000, "java", 3, str(draw(small)), 0)  # noqa: FBT003
    one.assigned = [[topic, 0] for topic in draw(st.sets(small, max_size=3))]
    one.gaps = draw(st.lists(st.integers(1, 5_000), max_size=5))
    one.last_commit = draw(st.integers(0, 20_000))
    return one


@settings(max_examples=200, deadline=None)
@given(members(), st.lists(members(), max_size=6), st.integers(0, 20_000))
def test_siblings_that_went_on_are_those_of_the_rule(member: Member, kept: list[Member], life: int) -> None:
    assert Siblings(kept).committed(member, life) == siblings_committed(member, kept, life)


def calls_of(number: int, *, assigned: bool, commits: bool) -> Counter[str]:
    """Function -> its calls in a group whose half goes, then the other half."""
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
    topic.generation(90_000, 3, [])
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


@pytest.mark.parametrize(("assigned", "commits"), [(True, False), (False, False), (True, True)])
def test_no_function_is_called_more_often_for_each_member_of_a_larger_group(
    *, assigned: bool, commits: bool
) -> None:
    few, many, most = (calls_of(number, assigned=assigned, commits=commits) for number in (100, 200, 400))
    ours = [name for name in most if "/coordinator/" in name]
    grown = {name: (many[name] - few[name], most[name] - many[name]) for name in ours}
    assert {name: steps for name, steps in grown.items() if steps[1] > 2.5 * steps[0] + 400} == {}
