"""The index of a group's members answers as a look at each of them does, whatever came, left or changed."""

from __future__ import annotations

from itertools import count

from hypothesis import given, settings
from hypothesis import strategies as st

from rebalance_monitor.coordinator.state.group_state import GroupState, Member
from rebalance_monitor.coordinator.state.roster import Roster, joined_before, roster_of

IDS, TIMES, EPOCHS, STAGES = "abcdef", range(12), (-2, -1, 3, 4, 5), range(3)

steps = st.lists(
    st.tuples(
        st.sampled_from(["describe", "acknowledge", "leave"]),
        st.sampled_from(IDS),
        st.sampled_from(TIMES),
        st.sampled_from(EPOCHS),
        st.sampled_from(STAGES),
        st.sampled_from(["java", "librdkafka", "unknown"]),
    ),
    max_size=30,
)


def described(name: str, at: int, family: str) -> Member:
    return Member(name, None, name, "/h", False, 10_000, 60_000, family, 0, f"topic {at % 3}", at)  # noqa: FBT003


def require_alike(roster: Roster, plain: list[Member]) -> None:
    """Each question to the index has the answer that the list of members gives."""
    assert list(roster) == plain
    assert all(roster.find(one.member_id) is one for one in plain)
    assert dict(roster.subscribed) == {
        name: sum(one.subscribed == name for one in plain) for name in {one.subscribed for one in plain}
    }
    assert roster.any_given == any(one.offsets for one in plain)
    assert roster.oldest == min((one.joined_at for one in plain), default=None)
    assert [one.member_id for one in roster.of(set(IDS))] == [one.member_id for one in plain]
    families = [one.family for one in plain if one.family != "unknown"]
    assert roster.family == min(families, key=lambda one: (-families.count(one), one), default=None)
    for at in TIMES:
        assert joined_before(GroupState(members=roster), at) == joined_before(GroupState(members=plain), at)
    for epoch in EPOCHS:
        there = [one for one in plain if one.epoch == epoch]
        assert {one.member_id for one in roster.at(epoch)} == {one.member_id for one in there}
        assert roster.count_at(epoch) == len(there)
        assert roster.count_at(epoch, (0, 2)) == sum(one.epoch_state in {0, 2} for one in there)
        for since in TIMES:
            later = [one.acked_at for one in plain if one.epoch >= epoch and one.acked_at > since]
            assert roster.first_ack(epoch, since) == min(later, default=None)
    for epoch in EPOCHS:
        found = roster.first(lambda one, epoch=epoch: one.epoch == epoch)  # type: ignore[misc]
        assert (found is None) == all(one.epoch != epoch for one in plain)
        assert found is None or found.epoch == epoch


@settings(max_examples=100, deadline=None)
@given(steps)
def test_the_index_answers_as_the_list_does(taken: list[tuple[str, str, int, int, int, str]]) -> None:
    roster, plain = roster_of(GroupState()), list[Member]()
    for what, name, at, epoch, stage, family in taken:
        known = next((one for one in plain if one.member_id == name), None)
        if what == "describe":
            roster.put(fresh := described(name, at, family))
            plain = [*(one for one in plain if one is not known), fresh]
        elif what == "leave":
            assert roster.take_out(name) is known
            plain = [one for one in plain if one is not known]
        elif known is not None:
            known.epoch, known.epoch_state, known.acked_at = epoch, stage, at
            known.offsets = [-1] * stage
            roster.renew(known)
        require_alike(roster, plain)
        require_alike(Roster(plain), plain)


def test_ids_that_nobody_reads_do_not_pile_up() -> None:
    roster = Roster()
    roster.lived, roster.moved = {}, {}
    for number in count():
        roster.put(described(str(number), 0, "java"))
        roster.take_out(str(number))
        if roster.lived is None and roster.moved is None:
            break
        assert number < 1_000
