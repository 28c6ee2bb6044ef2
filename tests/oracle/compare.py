"""Our reading of a record against Kafka's: equal field for field and in order, or a difference with a name.

A difference is either bytes that no Kafka writes, refused by us and taken by Kafka's lenient readers, or a
record of an older Kafka that its newest release no longer reads. Anything else is unexplained and fails.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from rebalance_monitor.decoders.json_form import record_json

EQUAL, UNEXPLAINED = "equal", "unexplained"


@dataclass(frozen=True, slots=True)
class Difference:
    """A named difference: what makes it, what each side does, and why ours stays as it is."""

    name: str
    kafka: str
    ours: str
    why: str


DIFFERENCES = {
    "bad_text": Difference(
        "a string that is not UTF-8",
        "puts U+FFFD in its place",
        "failure `bad_text`",
        "two different group ids could become one",
    ),
    "bad_varint": Difference(
        "a varint beyond 31 bits in five bytes",
        "drops the bits that do not fit",
        "failure `bad_varint`",
        "no writer makes one; a silently wrong length is a guess",
    ),
    "bad_tags": Difference(
        "tags not ascending, repeated, or of another size than their field",
        "takes the last one, ignores the size",
        "failure `bad_tags`",
        "the protocol (KIP-482) forbids them; the bytes behind would be misread",
    ),
    "bad_marker": Difference(
        "a null marker that is neither null nor present",
        "takes any value of 0 and more as present",
        "failure `bad_marker`",
        "no writer makes one",
    ),
    "negative_length": Difference(
        "a length below -1 where null is allowed",
        "takes any negative length as null",
        "failure `bad_length`",
        "no writer makes one; -1 is the only null",
    ),
    "legacy": Difference(
        "a value of v1 to v4 under a key of type 0",
        "since 4.1 only v0 belongs to type 0; up to 4.0 it reads them all",
        "read as under type 1",
        "it was legal for ten years, and nothing else can be meant",
    ),
    "retired": Difference(
        "types 9, 18 and 24",
        "unknown record type",
        "read as a known, retired type; the value stays bytes",
        "they lie in topics that a 4.0 or a development build wrote, and are no cause for alarm",
    ),
}
RETIRED_TYPES = (9, 18, 24)
LEGACY = 0


def verdict(key: bytes | None, value: bytes | None, kafka: dict[str, Any]) -> str:
    """Give EQUAL, the key of a named difference, or UNEXPLAINED."""
    ours = record_json(0, 0, 0, key, value)
    error = ours["error"]
    if "refused" in kafka:
        return EQUAL if error is not None else _allowed_although_refused(ours)
    if isinstance(error, dict):
        return _refused_although_read(error, (key if error["part"] == "key" else value) or b"")
    return EQUAL if _same(ours, kafka) else UNEXPLAINED


def _same(ours: dict[str, object], kafka: dict[str, Any]) -> bool:
    # As text: the order of the fields is part of the promise.
    return all(json.dumps(ours[part]) == json.dumps(kafka[part]) for part in ("key", "value"))


def _refused_although_read(error: dict[str, Any], data: bytes) -> str:
    at, reason = error["at"], str(error["reason"])
    if reason == "bad_length" and data[at : at + 1] > b"\x7f":
        return "negative_length"
    if reason == "truncated" and error["field"].endswith("tags"):
        # A tag's size runs past the end: Kafka ignores the size of a tag that it knows.
        return "bad_tags"
    return reason if reason in DIFFERENCES else UNEXPLAINED


def _allowed_although_refused(ours: dict[str, Any]) -> str:
    if ours["key"]["type"] in RETIRED_TYPES:
        return "retired"
    legacy = ours["key"]["type"] == LEGACY and ours["value"] and ours["value"]["version"] > 0
    return "legacy" if legacy else UNEXPLAINED
