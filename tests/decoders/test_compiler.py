"""A compiled reader reads what its fields' own readers read one after the other."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from rebalance_monitor.decoders import Decoded, compiler, decode_record
from rebalance_monitor.decoders.errors import REASONS, DecodeError
from rebalance_monitor.decoders.records.classic import OffsetCommitValue
from rebalance_monitor.decoders.records.common import RetiredValue
from rebalance_monitor.decoders.registry import RECORD_TYPES, RecordType
from rebalance_monitor.decoders.schema import fields_of

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
    assert "v0, v1, n, = u1(buf, at)" in text
    assert text.count("(buf, at)") == 2


def test_every_reason_has_a_name_of_its_own() -> None:
    assert len({error.reason for error in REASONS}) == len(REASONS)
