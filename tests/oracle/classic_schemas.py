"""The layouts of record types 0 to 2 as message schemas, stated apart from the decoder's own."""

from __future__ import annotations

from typing import Any

from tests.oracle.schemas import Schema


def _field(name: str, kind: str, versions: str = "0+", **more: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    return {"name": name, "type": kind, "versions": versions, **more}


def _message(number: int, part: str, versions: str, flexible: str, *fields: dict[str, Any]) -> Schema:
    return Schema(
        {
            "apiKey": number,
            "type": f"coordinator-{part}",
            "name": f"Type{number}{part.title()}",
            "validVersions": versions,
            "flexibleVersions": flexible,
            "fields": list(fields),
        }
    )


_MEMBER = [
    _field("memberId", "string"),
    _field("groupInstanceId", "string", "3+", nullableVersions="3+"),
    _field("clientId", "string"),
    _field("clientHost", "string"),
    _field("rebalanceTimeout", "int32", "1+"),
    _field("sessionTimeout", "int32"),
    _field("subscription", "bytes"),
    _field("assignment", "bytes"),
]
_OFFSET_KEY = (_field("group", "string"), _field("topic", "string"), _field("partition", "int32"))
_OFFSET_VALUE = (
    _field("offset", "int64"),
    _field("leaderEpoch", "int32", "3+"),
    _field("metadata", "string"),
    _field("commitTimestamp", "int64"),
    _field("expireTimestamp", "int64", "1"),
    _field("topicId", "uuid", "4+", taggedVersions="4+", tag=0),
)
_GROUP_VALUE = (
    _field("protocolType", "string"),
    _field("generation", "int32"),
    _field("protocol", "string", nullableVersions="0+"),
    _field("leader", "string", nullableVersions="0+"),
    _field("currentStateTimestamp", "int64", "2+"),
    _field("members", "[]Member", fields=_MEMBER),
)
# Type 0 is written by brokers that knew no version above 0.
CLASSIC = [
    _message(0, "key", "0", "none", *_OFFSET_KEY),
    _message(0, "value", "0", "none", *_OFFSET_VALUE),
    _message(1, "key", "0", "none", *_OFFSET_KEY),
    _message(1, "value", "0-4", "4+", *_OFFSET_VALUE),
    _message(2, "key", "0", "none", _field("group", "string")),
    _message(2, "value", "0-4", "4+", *_GROUP_VALUE),
]
