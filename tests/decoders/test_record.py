"""Whatever is wrong with a record is a failure that says why, where and in which field; nothing raises."""

from __future__ import annotations

import struct
import tracemalloc
from functools import partial
from time import process_time
from timeit import repeat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalance_monitor.decoders import Decoded, Failure, decode_record
from rebalance_monitor.decoders.registry import RECORD_TYPES
from tests.decoders.encode import (
    TOPIC_ID_TAG,
    blob,
    commit_key,
    commit_value,
    compact,
    group_key,
    group_value,
    member,
    string,
    uvarint,
)

KEY = commit_key("g", "t", 1)
V4 = commit_value(5, 9, 4, "m", TOPIC_ID_TAG)
# Up to and including the commit timestamp of a v4 commit: tags follow.
V4_HEAD = commit_value(5, 9, 4, "m", b"")


def failure(key: bytes | None, value: bytes | None) -> tuple[str, str, int, str]:
    found = decode_record(key, value)
    assert isinstance(found, Failure), found
    return found.reason, found.part, found.at, found.field


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        (None, V4, ("null_key", "key", 0, "")),
        (b"", V4, ("truncated", "key", 0, "type")),
        (b"\0", V4, ("truncated", "key", 0, "type")),
        (b"\0\x63", V4, ("unknown_type", "key", 0, "type")),
        (b"\xff\xff", None, ("unknown_type", "key", 0, "type")),
        (KEY[:-1], V4, ("truncated", "key", 8, "partition")),
        (b"\0\1" + b"\xff\xfe" + bytes(9), V4, ("bad_length", "key", 2, "group")),
        (b"\0\1" + b"\x7f\xff" + bytes(9), V4, ("truncated", "key", 2, "group")),
        (commit_key(b"a\xff", "t", 1), V4, ("bad_text", "key", 5, "group")),
        (KEY, b"", ("truncated", "value", 0, "version")),
        (KEY, b"\0\5" + V4[2:], ("unknown_version", "value", 0, "version")),
        (KEY, b"\xff\xff" + V4[2:], ("unknown_version", "value", 0, "version")),
        (KEY, V4_HEAD, ("truncated", "value", 24, "tags")),
        (KEY, commit_value(5, 9, 4, b"\xc3"), ("bad_text", "value", 15, "metadata")),
        (KEY, V4[:14] + b"\0" + V4[16:], ("bad_length", "value", 14, "metadata")),
        (KEY, V4[:14] + b"\xff" * 5 + b"\1", ("bad_varint", "value", 14, "metadata")),
        (KEY, V4[:14] + b"\x80" * 5 + b"\1", ("bad_varint", "value", 14, "metadata")),
        (KEY, V4[:14] + b"\xff\xff\xff\xff\x07", ("bad_length", "value", 14, "metadata")),
    ],
)
def test_each_defect_names_reason_part_position_and_field(
    key: bytes | None, value: bytes | None, expected: tuple[str, str, int, str]
) -> None:
    assert failure(key, value) == expected


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        (b"\2\0\x10" + bytes(16) + b"\0\x10" + bytes(16), ("bad_tags", 43)),
        (b"\2\5\0\1\0", ("bad_tags", 27)),
        (b"\1\0\x0f" + bytes(16), ("bad_tags", 27)),
        (b"\1\0\x11" + bytes(17), ("bad_tags", 27)),
        (b"\1\7\x7f", ("truncated", 25)),
        (b"\x7f", ("truncated", 25)),
        (b"\xff\xff\xff\xff\x07", ("truncated", 29)),
    ],
    ids=["twice", "descending", "too short", "too long", "overlong", "count", "huge count"],
)
def test_tags_that_break_the_protocol_are_failures(tags: bytes, expected: tuple[str, int]) -> None:
    reason, part, at, _ = failure(KEY, V4_HEAD + tags)
    assert (reason, part, at) == (expected[0], "value", expected[1])


def test_unknown_tags_and_trailing_bytes_are_noted() -> None:
    found = decode_record(KEY + b"x", V4_HEAD + b"\2" + TOPIC_ID_TAG[1:] + b"\x09\2ab" + b"tail")
    assert isinstance(found, Decoded)
    assert found.notes == (
        "1 trailing bytes in the key at byte 12",
        "unknown tag 9 of OffsetCommitValue at byte 43, 2 bytes",
        "4 trailing bytes in the value at byte 47",
    )


def test_notes_stay_few_however_many_tags_there_are() -> None:
    tags = uvarint(5000) + b"".join(uvarint(tag) + b"\0" for tag in range(1, 5001))
    found = decode_record(KEY, V4_HEAD + tags)
    assert isinstance(found, Decoded)
    assert len(found.notes) == 16


def test_a_failure_in_the_value_still_gives_the_key() -> None:
    found = decode_record(group_key("g"), group_value(1, [member(0), member(1)])[:-3])
    assert isinstance(found, Failure)
    assert (found.field, found.key and found.key.group) == ("members[1].assignment", "g")


@pytest.mark.parametrize("kind", [9, 18, 24])
def test_a_retired_type_is_read_by_its_key_and_noted(kind: int) -> None:
    found = decode_record(struct.pack(">h", kind) + string("g"), b"\0\0whatever")
    assert isinstance(found, Decoded)
    assert (found.key.group, "retired" in found.notes[0]) == ("g", True)


@pytest.mark.parametrize("count", [-2, -1, 1, 2**31 - 1])
def test_a_forged_member_count_is_refused_before_anything_is_allocated(count: int) -> None:
    value = group_value(1, [])[:-4] + struct.pack(">i", count)
    tracemalloc.start()
    reason, _, _, name = failure(group_key("g"), value)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (reason, name) == ("bad_length" if count < 0 else "truncated", "members")
    assert peak < 100_000


def test_every_truncation_of_a_group_is_a_failure_inside_the_bytes_that_are_left() -> None:
    value = group_value(1, [member(0, b"sub", b"assign"), member(1)])
    for size in range(len(value)):
        found = decode_record(group_key("g"), value[:size])
        assert isinstance(found, Failure)
        assert found.at <= size


@given(kind=st.sampled_from(sorted(RECORD_TYPES)), version=st.integers(-1, 6), body=st.binary(max_size=200))
def test_no_bytes_under_any_key_raise(kind: int, version: int, body: bytes) -> None:
    key = struct.pack(">h", kind) + string("g") + string("m") + struct.pack(">i", 1)
    found = decode_record(key, struct.pack(">h", version) + body)
    assert found.type == kind


@given(key=st.none() | st.binary(max_size=40), value=st.none() | st.binary(max_size=40))
def test_no_bytes_at_all_raise(key: bytes | None, value: bytes | None) -> None:
    assert isinstance(decode_record(key, value), (Decoded, Failure))


def test_a_nested_optional_structure_with_a_wrong_marker_is_a_failure() -> None:
    head = b"\0\0" + bytes(2) + compact("client") + compact("/h") + struct.pack(">ii", 1, 2) + compact("p")
    key = b"\0\x13" + string("g") + string("m")
    assert failure(key, head + b"\2") == ("bad_marker", "value", len(head), "userEndpoint")


def test_a_member_count_is_read_in_linear_time() -> None:
    def seconds(count: int) -> float:
        value = group_value(1, [member(n, bytes(100), bytes(100)) for n in range(count)])
        read = partial(decode_record, group_key("g"), value)
        return min(repeat(read, number=1, repeat=5, timer=process_time))

    # Ten times the members; quadratic would be a hundred times the time.
    assert seconds(20_000) < 60 * seconds(2_000)


def test_bytes_fields_may_be_longer_than_strings() -> None:
    found = decode_record(group_key("g"), group_value(1, [member(0, bytes(100_000))]))
    assert isinstance(found, Decoded)
    assert blob(bytes(100_000)) in group_value(1, [member(0, bytes(100_000))])
