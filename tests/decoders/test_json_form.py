"""The object of a record says what could be read, and beside it what could not."""

from __future__ import annotations

import json
import struct

from rebalance_monitor.decoders.json_form import record_json, to_line
from tests.decoders.encode import blob, commit_key, commit_value, group_key, group_value, member, string


def test_a_tombstone_has_a_null_value() -> None:
    found = record_json(3, 12, 99, group_key("g1"), None)
    assert to_line(found) == (
        '{"partition":3,"offset":12,"timestamp":99,"key":{"type":2,"data":{"group":"g1"}},"value":null,"error":null}'
    )


def test_an_unreadable_value_stands_beside_the_key_with_its_raw_bytes() -> None:
    found = record_json(0, 1, 2, group_key("g1"), b"\0\3\0")
    assert list(found) == ["partition", "offset", "timestamp", "key", "value", "error", "raw"]
    assert found["key"] == {"type": 2, "data": {"group": "g1"}}
    assert found["value"] == {"version": 3, "data": None}
    assert found["error"] == {"reason": "truncated", "part": "value", "at": 2, "field": "protocolType"}
    assert found["raw"] == {"key": "AAIAAmcx", "value": "AAMA"}


def test_a_record_without_a_key_is_an_error_and_no_more() -> None:
    found = record_json(0, 1, 2, None, None)
    assert (found["key"], found["value"], found["raw"]) == (None, None, {"key": None, "value": None})


def test_a_type_from_the_future_has_no_data() -> None:
    found = record_json(0, 1, 2, struct.pack(">h", 99) + string("g"), b"\0\0")
    assert found["key"] == {"type": 99, "data": None}


def test_notes_stand_only_where_there_are_some() -> None:
    key = commit_key("g", "t", 1)
    assert "notes" not in record_json(0, 1, 2, key, commit_value(5, 9))
    assert record_json(0, 1, 2, key, commit_value(5, 9) + b"x")["notes"] == [
        "1 trailing bytes in the value at byte 24"
    ]


def test_expanding_opens_what_members_embed_also_where_one_is_broken() -> None:
    topics = struct.pack(">i", 1) + string("orders")
    good = b"\0\1" + topics + blob(None) + struct.pack(">i", 0)
    given = b"\0\1" + struct.pack(">i", 1) + string("orders") + struct.pack(">ii", 1, 7) + blob(None)
    value = group_value(4, [member(0, good, given), member(1, b"\0", b"")])
    found = json.loads(to_line(record_json(0, 1, 2, group_key("g"), value, expanded=True)))
    first, second = found["expanded"]["members"]
    assert first["subscription"]["topics"] == ["orders"]
    assert first["assignment"]["partitions"] == [{"topic": "orders", "partitions": [7]}]
    assert second["subscription"] == {"error": {"reason": "truncated", "at": 0, "field": "version"}}
    assert second["assignment"]["version"] == -1
