"""Oracle (c): random values, written by kafka-python's codec, are read back by our decoder."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rebalance_monitor.decoders.json_form import record_json
from tests.oracle import kafka_java, schemas
from tests.oracle.classic_schemas import CLASSIC
from tests.oracle.needs import needs

if TYPE_CHECKING:
    from tests.oracle.schemas import Schema

# Building values of nested schemas is slow to begin with; the sizes are bounded.
UNHURRIED = settings(deadline=None, suppress_health_check=list(HealthCheck))


@pytest.mark.parametrize("record_type", [0, 1, 2])
@UNHURRIED
@given(data=st.data())
def test_classic_records_written_by_another_codec_are_read_back(
    record_type: int, data: st.DataObject
) -> None:
    check(CLASSIC, record_type, data)


@pytest.mark.slow
@settings(UNHURRIED, max_examples=500)
@given(data=st.data())
def test_all_record_types_written_from_kafkas_own_schemas_are_read_back(data: st.DataObject) -> None:
    with needs():
        known = from_kafkas_jar()
    record_type = data.draw(st.sampled_from(sorted({schema.record_type for schema in known})))
    check(known, record_type, data)


_jar: list[Schema] = []


def from_kafkas_jar() -> list[Schema]:
    if not _jar:
        _jar.extend(schemas.in_jar(kafka_java.RECORDS.jar("kafka-group-coordinator")))
    return _jar


def check(known: list[Schema], record_type: int, data: st.DataObject) -> None:
    key, value = (
        next(s for s in known if s.record_type == record_type and s.is_key is part) for part in (True, False)
    )
    version = data.draw(st.sampled_from(value.versions))
    of_key: dict[str, Any] = data.draw(key.values(0))
    of_value: dict[str, Any] = data.draw(value.values(version))
    ours = record_json(0, 0, 0, key.encode(of_key, 0), value.encode(of_value, version))
    assert ours["error"] is None
    expected = {
        "key": {"type": record_type, "data": key.kafka_json(of_key, 0)},
        "value": {"version": version, "data": value.kafka_json(of_value, version)},
    }
    # As text: the order of the fields is part of the promise.
    assert json.dumps({part: ours[part] for part in expected}) == json.dumps(expected)
