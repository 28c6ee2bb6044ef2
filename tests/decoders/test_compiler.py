"""A compiled reader reads what its fields' own readers read one after the other."""

from __future__ import annotations

import dataclasses
import pickle
import struct
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rebalance_monitor.decoders import Decoded, compiler, decode_record
from rebalance_monitor.decoders.errors import REASONS, DecodeError
from rebalance_monitor.decoders.records.classic import GroupMember, OffsetCommitKey, OffsetCommitValue
from rebalance_monitor.decoders.records.common import RetiredValue
from rebalance_monitor.decoders.registry import RECORD_TYPES, RecordType
from rebalance_monitor.decoders.schema import fields_of
from rebalance_monitor.decoders.wire import ENDED
from tests.decoders.encode import TOPIC_ID_TAG, commit_key, commit_value

CORPUS = Path(__file__).parents[1] / "fixtures" / "corpus" / "records.parquet"


def test_compiled_readers_agree_with_the_readers_of_single_fields() -> None:
    table = pq.read_table(CORPUS, columns=["key", "value"])
    compared = 0
    for key, value in zip(table["key"].to_pylist(), table["value"].to_pylist(), strict=True):
        found = decode_record(key, value)
        if (
            isinstance(found, Decoded)
            and found.value is not None
            and not isinstance(found.value, RetiredValue)
        ):
            compare(found, value)
            compared += 1
    assert compared > 1000


def compare(found: Decoded, value: bytes) -> None:
    version, record = found.value_version or 0, RECORD_TYPES[found.type]
    flexible, at = version >= record.flexible, 2
    for field in fields_of(type(found.value)):
        if field.in_version(version) and field.wire.tag is None:
            one, at = compiler.field_reader(field, version, flexible=flexible)(value, at, [])
            assert one == getattr(found.value, field.attribute)


@pytest.mark.parametrize("record", [r for r in RECORD_TYPES.values() if r.value], ids=lambda r: r.name)
def test_fewer_bytes_than_the_least_size_are_never_a_value(record: RecordType) -> None:
    for version in range(record.newest + 1):
        flexible = version >= record.flexible
        least = compiler.least_size(record.value, version, flexible=flexible)
        with pytest.raises(DecodeError):
            compiler.reader(record.value, version, flexible=flexible)(bytes(least - 1), 0, [])


def test_adjacent_fields_of_fixed_width_are_read_by_one_call() -> None:
    text = compiler.source(OffsetCommitValue, 3, flexible=False)
    assert "v0, v1, nv2, = u1(buf, at)" in text
    assert text.count("(buf, at)") == 2


# Few different lengths, so that shapes repeat and change; a 0xff is no UTF-8.
strings = st.sampled_from([b"", b"a", b"b", b"aa", "\u00fc".encode(), b"\xff", b"b\xff"])
members = st.tuples(strings, st.none() | strings, strings, strings, strings, strings)


def packed_member(parts: tuple[bytes | None, ...]) -> bytes:
    name, instance, client, host, subscription, assignment = parts
    texts = [
        struct.pack(">h", -1 if t is None else len(t)) + (t or b"") for t in (name, instance, client, host)
    ]
    blobs = [struct.pack(">i", len(b or b"")) + (b or b"") for b in (subscription, assignment)]
    return b"".join((*texts, struct.pack(">ii", 300_000, 10_000), *blobs))


def read_apart(value: bytes) -> tuple[list[object], int] | tuple[str, int, str]:
    """Every field by a reader of its own, which remembers nothing."""
    found, at = [], 0
    for field in fields_of(GroupMember):
        try:
            one, at = compiler.field_reader(field, 3, flexible=False)(value, at, [])
        except DecodeError as error:
            return error.reason, error.at, field.name
        except ENDED:
            return "truncated", at, field.name
        found.append(one)
    return found, at


@settings(deadline=None, max_examples=300)
@given(st.lists(st.tuples(members, st.integers(0, 60)), min_size=3, max_size=12))
def test_whatever_was_read_before_a_structure_is_read_as_by_itself(
    drawn: list[tuple[tuple[bytes | None, ...], int]],
) -> None:
    read = compiler.reader.__wrapped__(GroupMember, 3, flexible=False)
    for parts, cut in drawn:
        value = packed_member(parts)
        for given_bytes in (value, value, value[:cut]):
            try:
                made, at = read(given_bytes, 0, [])
                got = [getattr(made, field.attribute) for field in fields_of(GroupMember)], at
            except DecodeError as error:
                got = error.reason, error.at, error.field
            assert got == read_apart(given_bytes)


def test_members_of_one_shape_are_read_at_once() -> None:
    read = compiler.reader.__wrapped__(GroupMember, 3, flexible=False)
    memory = read.__globals__["S"]
    alike, other = (packed_member((name, None, b"c", b"/h", b"s", b"a")) for name in (b"m", b"mm"))
    used = []
    for value in (alike, alike, alike, other, other, alike):
        used.append(memory.shape[0] == len(value))
        read(value, 0, [])
    assert used == [False, False, True, False, False, False]


def test_what_is_read_is_what_the_public_constructors_make() -> None:
    value = commit_value(5, 9, 4, "m", TOPIC_ID_TAG)
    found = decode_record(commit_key("g", "t", 1), value)
    key = OffsetCommitKey("g", "t", 1)
    made = Decoded(1, key, OffsetCommitValue(5, 5, "m", 9, topic_id=bytes(range(16))), 4)
    assert isinstance(found, Decoded)
    for one, other in ((found, made), (found.key, made.key), (found.value, made.value)):
        assert type(one) is type(other)
        assert (one, hash(one), repr(one)) == (other, hash(other), repr(other))
        assert pickle.loads(pickle.dumps(one)) == other  # noqa: S301 - our own bytes
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.type = 2  # type: ignore[misc] # that it cannot be set is the point


def test_a_known_tag_alone_is_read_as_it_is_in_company() -> None:
    key = commit_key("g", "t", 1)
    alone = decode_record(key, commit_value(5, 9, 4, "m", TOPIC_ID_TAG))
    company = decode_record(key, commit_value(5, 9, 4, "m", b"\2" + TOPIC_ID_TAG[1:] + b"\x09\0"))
    assert isinstance(alone, Decoded)
    assert isinstance(company, Decoded)
    assert (alone.value, alone.notes, len(company.notes)) == (company.value, (), 1)


def test_every_reason_has_a_name_of_its_own() -> None:
    assert len({error.reason for error in REASONS}) == len(REASONS)
