"""Decode errors: one class for each reason why bytes could not be read.

Readers raise these inside `decoders` only; `decode_record` and `decode_batch` turn them into
`Failure` values, so that nothing a record holds can raise past the package's surface.
"""

from typing import ClassVar

# Fields that are read by one call: name and bytes of each.
Run = tuple[tuple[str, int], ...]

# A field path names at most this many levels; Kafka's schemas nest four deep.
_PATH_LEVELS = 8


class DecodeError(Exception):
    """Bytes that are not the record they claim to be; `at` is a byte offset, `path` the field's way down."""

    reason: ClassVar[str] = "malformed"

    def __init__(self, at: int, field: str = "") -> None:
        super().__init__(self.reason)
        self.at = at
        self.path: list[str] = [field] if field else []

    def under(self, name: str) -> "DecodeError":
        """Return the same error, one level further up: `name` is a field or an index such as `[3]`."""
        if len(self.path) < _PATH_LEVELS:
            self.path.insert(0, name)
        return self

    @property
    def field(self) -> str:
        """The path as people write it: `members[3].subscription`."""
        return ".".join(self.path).replace(".[", "[")


class TruncatedError(DecodeError):
    """The bytes end before the field does."""

    reason = "truncated"


class BadLengthError(DecodeError):
    """A length or count that is negative, or larger than what is left to read."""

    reason = "bad_length"


class BadVarintError(DecodeError):
    """A variable-length integer of more than five bytes, or beyond 32 bits."""

    reason = "bad_varint"


class BadTextError(DecodeError):
    """A string that is not UTF-8; `at` is the first offending byte.

    Kafka's Java readers put U+FFFD in its place; a monitor that did so could merge two groups into one.
    """

    reason = "bad_text"


class BadTagsError(DecodeError):
    """Tagged fields out of order, given twice, or of another size than announced (KIP-482)."""

    reason = "bad_tags"


class BadMarkerError(DecodeError):
    """The byte that says whether an optional structure follows is neither "null" nor "present"."""

    reason = "bad_marker"


class UnknownTypeError(DecodeError):
    """A record type that no release of Kafka up to 4.4 has."""

    reason = "unknown_type"


class UnknownVersionError(DecodeError):
    """A value version newer (or lower) than every known one: Kafka allows no guess about its layout."""

    reason = "unknown_version"


class NullKeyError(DecodeError):
    """A record without a key: nothing says what it is."""

    reason = "null_key"


REASONS: tuple[type[DecodeError], ...] = (
    TruncatedError,
    BadLengthError,
    BadVarintError,
    BadTextError,
    BadTagsError,
    BadMarkerError,
    UnknownTypeError,
    UnknownVersionError,
    NullKeyError,
)


def _first_missing(run: Run, at: int, size: int) -> TruncatedError:
    """Name the first field of a run of (name, bytes) starting at `at` that `size` bytes cannot hold."""
    for name, width in run:
        if at + width > size:
            return TruncatedError(at, name)
        at += width
    return TruncatedError(at, run[-1][0])


def locate(error: Exception, run: Run, size: int, at: int, text_at: int) -> DecodeError:
    """Turn whatever reading the fields of `run` at `at` raised into an error with position and field."""
    name = run[-1][0]
    if isinstance(error, DecodeError):
        # A tagged field names itself.
        return error if error.path and name == "tags" else error.under(name)
    if isinstance(error, UnicodeDecodeError):
        return BadTextError(text_at + error.start, name)
    return _first_missing(run, at, size)
