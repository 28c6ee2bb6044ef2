"""JSON files with a checksum: a file that was cut, emptied or changed is recognised, never half believed.

The checksum is the CRC-32 of the body's own encoding, and the last key of the file. Files of formats from
before checksums have none; the reader names these formats.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from zlib import crc32

if TYPE_CHECKING:
    from collections.abc import Mapping

CHECKSUM = "checksum"


class DamagedError(ValueError):
    """The text is not what was written; says in a clause what is wrong with it."""


def seal(body: Mapping[str, Any], indent: int | None = None) -> bytes:
    """Return `body` as JSON with its checksum as the last key."""
    encoded = _encoded(body)
    found = checksum(encoded)
    if indent is not None:
        return json.dumps({**body, CHECKSUM: found}, indent=indent).encode()
    # A ledger of many groups is megabytes: it is encoded once.
    return encoded[:-1] + f'{"," if body else ""}"{CHECKSUM}":"{found}"}}'.encode()


def unseal(
    text: str | bytes, *, formats: frozenset[int], unsealed: frozenset[int] = frozenset()
) -> dict[str, Any]:
    """Return the body with its `format`, one of `formats`; those of `unsealed` have no checksum.

    Raises DamagedError.
    """
    body = parsed(text)
    if not isinstance(body, dict):
        raise DamagedError("it is no JSON object")
    found = body.get("format")
    if not isinstance(found, int) or found not in formats:
        raise DamagedError(f"it has the unknown format {found}")
    if found in unsealed:
        return body
    written = body.pop(CHECKSUM, None)
    if written != checksum(_encoded(body)):
        raise DamagedError("its checksum does not match its content")
    return body


def parsed(text: str | bytes) -> Any:  # noqa: ANN401 - whatever JSON it is
    """Return what JSON `text` holds. Raises DamagedError, for bytes nested too deep as well."""
    if not text:
        raise DamagedError("it is empty")
    try:
        return json.loads(text)
    except RecursionError as error:
        raise DamagedError("its JSON is nested too deep") from error
    except ValueError as error:
        raise DamagedError(f"it is no JSON: {error}") from error


def checksum(content: bytes) -> str:
    """Return the CRC-32 of `content` as eight hexadecimal digits."""
    return f"{crc32(content):08x}"


def _encoded(body: Mapping[str, Any]) -> bytes:
    return json.dumps(body, separators=(",", ":")).encode()
