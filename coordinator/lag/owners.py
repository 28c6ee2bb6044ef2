"""Which member reads which partition: the one that the summary assigns it to, and how that member commits.

A summary is made when the group changes, so what it says of a member's last commit is of then. The positions
of all partitions of a member say when it last committed anything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from rebalance_monitor.coordinator.lag.windows import Owner

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rebalance_monitor.coordinator.lag.packed.places import Packed

CUT = "…"
Place = tuple[str, int]
"""(topic, partition)"""


class Reader(NamedTuple):
    """A member as the summary describes it, and its commits."""

    member: Mapping[str, Any]
    owner: Owner


def readers_of(summary: Mapping[str, Any], placed: Packed) -> dict[Place, Reader]:
    """Return the reader of each partition of the members that the summary lists."""
    found: dict[Place, Reader] = {}
    for member in summary.get("member_list", ()):
        places = [
            (topic, one) for topic, ranges in member.get("assigned", {}).items() for one in partitions(ranges)
        ]
        committed = [one.at for place in places if (one := placed.get(*place)) is not None]
        last = max([int(member.get("last_commit", -1)), *committed])
        reader = Reader(member, Owner(last, int(member.get("cadence_ms", -1))))
        found.update(dict.fromkeys(places, reader))
    return found


def unlisted(summary: Mapping[str, Any], topic: str) -> Reader | None:
    """Return a nameless reader for a partition of `topic` that belongs to a member the summary leaves out.

    None where all members are listed: then no member is assigned it.
    """
    is_cut = int(summary.get("members") or 0) > len(summary.get("member_list", ()))
    return Reader({}, Owner()) if is_cut and topic in summary.get("topics", ()) else None


def partitions(ranges: str) -> Iterator[int]:
    """Yield the partitions of `0-3,7`; what was cut off the text is not known."""
    for piece in ranges.split(",") if ranges else ():
        if piece == CUT:
            return
        first, _, last = piece.partition("-")
        yield from range(int(first), int(last or first) + 1)
