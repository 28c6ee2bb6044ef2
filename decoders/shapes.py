"""What a stretch of fields looked like last time: how long each of its strings was.

Records of one topic, and members of one group, tend to have strings of the same lengths: ids end in a UUID,
one application has one client id and one size of assignment. A stretch whose lengths came twice in a row is
next tried with one `struct` call for all of it; the lengths that this call reads are compared with those it
was made for, so a wrong guess is seen. Nothing but speed depends on what is remembered.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import takewhile
from struct import Struct

from rebalance_monitor.decoders.schema import FIXED, Field

Lengths = tuple[int, ...]
# Size, reader of all fields at once, and the lengths it holds for.
Shape = tuple[int, Callable[[bytes, int], tuple[object, ...]], Lengths]
# Nothing is as wide as no field at all, so this is never tried.
NEVER: Shape = (0, Struct("").unpack_from, ())
# A string: its length, then its bytes. Anything else is a code of `struct`.
TEXTS = {"text": "h", "blob": "i"}


# To remember two calls of `struct` spares less than it costs.
_WORTH = 3


class Shapes:
    """The memory of one stretch; `shape` is replaced as a whole, so threads may share it."""

    __slots__ = ("_codes", "_last", "shape")

    def __init__(self, codes: tuple[str, ...]) -> None:
        self._codes = codes
        self._last: Lengths = ()
        self.shape = NEVER

    def saw(self, lengths: Lengths) -> None:
        """Remember the lengths of a stretch that was read field by field; -1 stands for null."""
        self.shape = _shape(self._codes, lengths) if lengths == self._last else NEVER
        self._last = lengths


@lru_cache(maxsize=1024)
def _shape(codes: tuple[str, ...], lengths: Lengths) -> Shape:
    rest = iter(lengths)
    parts = [f"{TEXTS[code]}{max(next(rest), 0)}s" if code in TEXTS else code for code in codes]
    packed = Struct(">" + "".join(parts))
    return packed.size, packed.unpack_from, lengths


def first_stretch(fields: Sequence[Field], version: int) -> list[Field]:
    """Return the fields that can be read at once, strings too; none where that is not worth it."""
    there = [field.in_version(version) and field.wire.tag is None for field in fields]
    first = [
        field
        for field, _ in takewhile(lambda pair: pair[1] and is_plain(pair[0]), zip(fields, there, strict=True))
    ]
    later = any(
        is_plain(field)
        for field, is_there in zip(fields, there, strict=True)
        if is_there and field not in first
    )
    texts = sum(map(is_text, first))
    calls = texts + (not is_text(first[-1]) if first else 0)
    return first if texts and calls >= _WORTH and not later else []


def is_plain(field: Field) -> bool:
    """Whether it is one number or one string."""
    return not field.wire.array and not isinstance(field.wire.kind, type)


def is_text(field: Field) -> bool:
    """Whether it has a length: a string, or bytes."""
    return is_plain(field) and field.wire.kind not in FIXED


def shape_code(field: Field) -> str:
    """Return what `Shapes` calls the kind of a field."""
    kind = field.wire.kind
    return FIXED[str(kind)] if kind in FIXED else "blob" if kind == "bytes" else "text"
