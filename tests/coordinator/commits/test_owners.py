"""Owners that follow a group's records name the members that owners made anew would name."""

from __future__ import annotations

from struct import pack

from hypothesis import given, settings
from hypothesis import strategies as st

from rebalance_monitor.coordinator.commits.owners import Owners
from rebalance_monitor.coordinator.state.group_state import GroupState, Member
from rebalance_monitor.coordinator.state.roster import roster_of
from rebalance_monitor.decoders import rows

MEMBERS, WIDTH = 4, 96
PARTITIONS = b"".join(rows.partition_entry(None if n else b"orders", n) for n in range(WIDTH))

changes = st.lists(
    st.tuples(st.integers(0, MEMBERS), st.integers(0, WIDTH), st.integers(1, WIDTH), st.booleans()),
    max_size=12,
)


def named(owned: Owners) -> dict[int, tuple[str, int]]:
    """Partition -> the id of its owner, and the index of its offset there."""
    form, shares = owned.plan(PARTITIONS)
    assert form.unpack(pack(f">{WIDTH}q", *range(WIDTH))) == tuple(range(WIDTH))
    found = {}
    for place, run, own, _, each in shares:
        member = owned.members[place]
        offsets = range(len(member.offsets))
        pairs = each or zip(range(WIDTH)[run], offsets[own], strict=True)
        found |= {partition: (member.member_id, index) for partition, index in pairs}
    return found


def assign(state: GroupState, name: str, partitions: range) -> None:
    members = roster_of(state)
    member = members.find(name)
    if member is None:
        member = Member(name, None, name, "/h", False, 10_000, 60_000, "java", 0, "x", 0)  # noqa: FBT003
        members.put(member)
    member.assigned, member.offsets = [[0, *partitions]], [-1] * len(partitions)
    members.renew(member)


def made_anew(state: GroupState) -> Owners:
    plain = GroupState(group_type="consumer", topics=state.topics, members=list(state.members))
    return Owners(plain)


def a_group() -> GroupState:
    state = GroupState(group_type="consumer", topics=["orders"])
    for n in range(MEMBERS):
        assign(state, str(n), range(n * WIDTH // MEMBERS, (n + 1) * WIDTH // MEMBERS))
    return state


@settings(max_examples=100, deadline=None)
@given(changes)
def test_owners_that_follow_are_those_made_anew(steps: list[tuple[int, int, int, bool]]) -> None:
    state = a_group()
    owned = Owners(state)
    for who, first, width, leaves in steps:
        if leaves:
            roster_of(state).take_out(str(who))
        else:
            assign(state, str(who), range(first, min(first + width, WIDTH)))
        owned = owned if owned.catch_up(state) else Owners(state)
        assert named(owned) == named(made_anew(state))


def test_a_partition_that_changes_hands_is_followed() -> None:
    state = a_group()
    owned = Owners(state)
    assign(state, "0", range(23))
    assign(state, "1", range(23, 48))
    roster_of(state).take_out("2")
    assert owned.catch_up(state)
    assert named(owned) == named(made_anew(state))
    assert named(owned)[23] == ("1", 0)
