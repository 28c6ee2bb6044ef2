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

from rebalance_monitor.decoders import Decoded, decode_record
from rebalance_monitor.decoders.errors import REASONS, DecodeError
from rebalance_monitor.decoders.layouts import compiler
from rebalance_monitor.decoders.layouts.schema import fields_of
from rebalance_monitor.decoders.layouts.wire import ENDED, Reader, sequence
from rebalance_monitor.decoders.records.classic import GroupMember, OffsetCommitKey, OffsetCommitValue
from rebalance_monitor.decoders.records.common import RetiredValue
from rebalance_monitor.decoders.registry import RECORD_TYPES, RecordType
from tests.decoders.encode import TOPIC_ID_TAG, commit_key, commit_value

CORPUS = Path(__file__).parents[2] / "fixtures" / "corpus" / "records.parquet"


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
    assert "v0, v1, n, = u1(buf, at)" in text
    assert text.count("(buf, at)") == 2


# Few different lengths, so that shapes repeat and change; a 0xff is no UTF-8.
strings = st.sampled_from([b"a", b"b", b"", b"aa", "\u00fc".encode(), b"\xff"])
members = st.tuples(strings, st.none() | strings, strings, strings, strings, strings)
arrays = st.lists(st.tuples(members, st.integers(1, 6)), max_size=5)


def packed_member(parts: tuple[bytes | None, ...]) -> bytes:
    texts = [struct.pack(">h", -1 if text is None else len(text)) + (text or b"") for text in parts[:4]]
    blobs = [struct.pack(">i", len(blob or b"")) + (blob or b"") for blob in parts[4:]]
    return b"".join((*texts, struct.pack(">ii", 300_000, 10_000), *blobs))


def outcome(read: Reader, value: bytes) -> object:
    try:
        return read(value, 0, [])
    except DecodeError as error:
        return error.reason, error.at, error.field
    except ENDED:
        return "ended"


@settings(deadline=None, max_examples=300)
@given(arrays, st.integers(0, 2_000))
def test_elements_that_are_alike_are_read_as_one_by_one(
    drawn: list[tuple[tuple[bytes | None, ...], int]], cut: int
) -> None:
    packed = [packed_member(parts) for parts, times in drawn for _ in range(times)]
    value = struct.pack(">i", len(packed)) + b"".join(packed)
    element = compiler.reader(GroupMember, 3, flexible=False)
    alike = compiler.alike_reader(GroupMember, 3, flexible=False)
    plain, quick = (sequence(element, 22, how, compact=False, nullable=False) for how in (None, alike))
    assert outcome(quick, value) == outcome(plain, value)
    assert outcome(quick, value[:cut]) == outcome(plain, value[:cut])


def test_elements_behind_some_of_their_size_are_read_at_once() -> None:
    value = b"".join(map(packed_member, [(b"m", None, b"c", b"/h", b"s", b"a")] * 9 + [(b"mm",) * 6]))
    width, alike, found = 30, compiler.alike_reader(GroupMember, 3, flexible=False), []
    assert alike is not None
    assert alike(value, width, 0, 100, found) == 9 * width
    assert [member.client_host for member in found] == ["/h"] * 8


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
