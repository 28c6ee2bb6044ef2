import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from rebalance_monitor.checkpoints.state.codec import (
    StateCorruptError,
    StateVersionError,
    decode_group,
    decode_state,
    encode_group,
    encode_state,
)
from rebalance_monitor.checkpoints.state.versions import CODEC_VERSION
from rebalance_monitor.coordinator.shard import new_shard_state
from rebalance_monitor.coordinator.state.group_state import GroupState, Learned, Member, StormState, Stuck
from rebalance_monitor.coordinator.state.shard_state import PendingRemoval, ShardState

ids = st.text(max_size=40)
times = st.integers(-1, 2**62)
members = st.builds(
    Member,
    *(ids, st.none() | ids, ids, ids, st.booleans(), times, times, ids, st.integers(-1, 9), ids, times),
    assigned=st.lists(st.lists(st.integers(0, 2**31 - 1), min_size=1), max_size=3),
    offsets=st.lists(times, max_size=5),
    last_commit=times,
    commits=st.integers(0, 2**40),
    silent_id=ids,
)
storms = st.builds(StormState, events=st.lists(st.tuples(times, ids, times, ids).map(list)), incident=ids)
groups = st.builds(
    GroupState,
    *(ids, ids, ids, ids, st.integers(-1, 2**31 - 1), ids, times, times, times, st.booleans()),
    members=st.lists(members, max_size=4),
    topics=st.lists(ids, max_size=3),
    storm=storms,
    wake=times,
)


@settings(max_examples=40, deadline=None)
@given(groups)
def test_a_group_comes_back_as_it_was(group: GroupState) -> None:
    assert decode_group(encode_group(group)) == group


@given(st.integers(1, len(GroupState.__struct_fields__)))
def test_fields_that_came_after_a_group_was_written_take_their_defaults(later: int) -> None:
    whole = GroupState("classic", leader="m", stuck=Stuck(incident="x"), wake=7)
    older = msgspec.msgpack.encode(msgspec.to_builtins(whole, builtin_types=(bytes,))[:-later])
    kept = {name: getattr(whole, name) for name in GroupState.__struct_fields__[:-later]}
    assert decode_group(older) == GroupState(**kept)


def test_fields_that_came_to_a_part_after_a_group_was_written_take_their_defaults() -> None:
    fields = msgspec.to_builtins(GroupState(learned=Learned(["java"], [0.5])), builtin_types=(bytes,))
    fields[GroupState.__struct_fields__.index("learned")] = [["java"]]
    assert decode_group(msgspec.msgpack.encode(fields)) == GroupState(learned=Learned(["java"]))


@settings(max_examples=40, deadline=None)
@given(
    groups,
    st.characters(categories=["Cs"]),
    st.integers(2**64) | st.integers(max_value=-(2**63) - 1),
)
def test_a_group_comes_back_with_what_no_text_and_no_machine_word_holds(
    group: GroupState, text: str, number: int
) -> None:
    for odd in (replace(group, leader=text), replace(group, ts=number)):
        assert decode_group(encode_group(odd)) == odd


@settings(max_examples=40, deadline=None)
@given(st.dictionaries(st.text(max_size=20), groups, max_size=4), groups | st.none(), times)
def test_a_state_comes_back_as_it_was(
    content: dict[str, GroupState], held: GroupState | None, now: int
) -> None:
    state = new_shard_state(3, 0, 17)
    state.now = now
    state.groups.update(content)
    if held is not None:
        state.pending = PendingRemoval("gone", 5, now, True, held)  # noqa: FBT003 -- field order of the record
    again = decode_state(encode_state(state))
    assert dict(again.groups) == content
    assert (again.shard, again.now, again.pending) == (3, now, state.pending)


@settings(max_examples=40, deadline=None)
@given(st.dictionaries(st.text(max_size=20), groups, max_size=4))
def test_what_was_not_touched_is_written_back_byte_for_byte(content: dict[str, GroupState]) -> None:
    state = new_shard_state(3, 0, None)
    state.groups.update(content)
    blob = encode_state(state)
    assert encode_state(decode_state(blob)) == blob


def test_an_unknown_version_says_what_to_do() -> None:
    blob = bytes([CODEC_VERSION + 1]) + encode_state(new_shard_state(0, 0, None))[1:]
    with pytest.raises(StateVersionError, match="--rebuild-state"):
        decode_state(blob)


@settings(max_examples=40, deadline=None)
@given(st.binary(max_size=200))
def test_bytes_that_are_no_state_are_refused_by_name(raw: bytes) -> None:
    with pytest.raises((StateVersionError, StateCorruptError)):
        decode_state(raw)


def test_a_state_of_which_a_byte_was_changed_is_read_or_refused_by_name() -> None:
    state = new_shard_state(3, 0, 17)
    state.groups.update({f"group-{number}": GroupState(topics=["orders"]) for number in range(5)})
    state.pending = PendingRemoval("gone", 5, 1, True, GroupState())  # noqa: FBT003 -- field order of the record
    blob, refused = encode_state(state), 0
    for at in range(len(blob)):
        for bits in (1, 8, 128, 255):
            try:
                decode_state(blob[:at] + bytes([blob[at] ^ bits]) + blob[at + 1 :])
            except (StateVersionError, StateCorruptError):
                refused += 1
    assert refused > 2 * len(blob)


def test_a_group_of_many_members_stays_small() -> None:
    """At most 1 KB, 200 B a member and 24 B an assigned partition, before compression."""
    count, each = 50, 20
    group = GroupState(topics=["orders"])
    for number in range(count):
        member = Member(
            f"consumer-orders-{number}-0f8fad5b-d9cb-469f-a165-70867728950e",
            None,
            f"consumer-orders-{number}",
            "/10.120.130.140",
            False,  # noqa: FBT003 -- field order of the record
            45_000,
            300_000,
            "java",
            3,
            "0123456789ab",
            1_795_000_000_000,
        )
        member.assigned = [[0, *range(number * each, number * each + each)]]
        member.offsets = [123_456_789_012] * each
        member.last_commit = 1_795_000_000_000
        group.members.append(member)
    assert len(encode_group(group)) <= 1_000 + count * 200 + count * each * 24


def test_a_new_key_is_live_unless_the_end_of_history_is_given() -> None:
    assert isinstance(new_shard_state(1, 2, None), ShardState)
    assert new_shard_state(1, 2, 0).catching_up_until is None
    assert new_shard_state(1, 2, 9).catching_up_until == 9
