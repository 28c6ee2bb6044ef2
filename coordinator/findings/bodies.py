"""Outputs of a coordinator other than findings as JSON in one line, and the inverse."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from collections.abc import Mapping

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(dict[str, Any]).decode


def body_of(data: Mapping[str, Any]) -> str:
    """Return `data` as JSON in one line. TypeError for what JSON cannot hold."""
    try:
        return _encode(data).decode()
    except UnicodeEncodeError:
        # Half a surrogate pair, which no decoded record holds but text given by others may.
        return json.dumps(data, ensure_ascii=False, separators=(",", ":"))


def data_of(body: str) -> dict[str, Any]:
    """Inverse of `body_of`, with lists for tuples and text for other keys. ValueError for what is no JSON."""
    try:
        return _decode(body)
    except ValueError:
        # Half a surrogate pair, or a number beyond 64 bits.
        found: dict[str, Any] = json.loads(body)
        return found
