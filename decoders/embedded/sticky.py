"""User data of the sticky assignors: what a member says it had, and in which generation.

`sticky` (KIP-54): topics with partitions, then since 2.3 the generation (absent: -1). `cooperative-sticky`
(KIP-429): the generation alone; what it owned is in the subscription itself. No version stands in either.
"""

from dataclasses import dataclass

from rebalance_monitor.decoders.embedded.lenient import read_fields
from rebalance_monitor.decoders.errors import DecodeError
from rebalance_monitor.decoders.layouts.schema import array, wire
from rebalance_monitor.decoders.record import Failure


@dataclass(frozen=True, slots=True)
class _Topic:
    topic: str = wire("string")
    partitions: tuple[int, ...] = array("int32")


@dataclass(frozen=True, slots=True)
class _Sticky:
    previous_assignment: tuple[_Topic, ...] = array(_Topic)
    generation: int = wire("int32", default=-1)


@dataclass(frozen=True, slots=True)
class _Cooperative:
    generation: int = wire("int32", default=-1)


@dataclass(frozen=True, slots=True)
class StickyUserData:
    """What a member says it had, as (topic, partitions), and its generation (-1: not said)."""

    previous_assignment: tuple[tuple[str, tuple[int, ...]], ...]
    generation: int
    notes: tuple[str, ...] = ()


def decode_sticky(data: bytes) -> StickyUserData | Failure:
    """Read the user data of the `sticky` assignor; never raises.

    >>> decode_sticky(bytes.fromhex("00000001 0001 74 00000001 00000003 00000009"))
    StickyUserData(previous_assignment=(('t', (3,)),), generation=9, notes=())
    """
    try:
        found, end, notes = read_fields(_Sticky, data, 1, 0)
    except DecodeError as error:
        return Failure(error.reason, "value", error.at, error.field)
    had = tuple((t.topic, t.partitions) for t in found.previous_assignment)
    return StickyUserData(had, found.generation, _notes(notes, data, end))


def decode_cooperative_sticky(data: bytes) -> StickyUserData | Failure:
    """Read the user data of the `cooperative-sticky` assignor; never raises.

    >>> decode_cooperative_sticky(bytes.fromhex("00000009")).generation
    9
    """
    try:
        found, end, notes = read_fields(_Cooperative, data, 0, 0)
    except DecodeError as error:
        return Failure(error.reason, "value", error.at, error.field)
    return StickyUserData((), found.generation, _notes(notes, data, end))


def _notes(notes: list[str], data: bytes, end: int) -> tuple[str, ...]:
    return (*notes, f"{len(data) - end} trailing bytes") if end < len(data) else tuple(notes)
