"""Leader epochs: whether what was read is still in the topic, though the topic ends beyond it.

A leader that was elected without the newest records (uncleanly, or after its disk was lost) writes others in
their place. Once it has written as many, end offsets no longer show it. So each check of the topic marks how
far had been read, and the epoch of the leader then. Another leader is asked where that epoch ended in its log
(OffsetsForLeaderEpoch). Not noticed: the loss of records that were read between the last check and the
election only, if as many were written within a trigger. The marks survive a restart in a file of the storage
folder.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import structlog

from rebalance_monitor.checkpoints.storage.files import replace_file
from rebalance_monitor.checkpoints.storage.sealed import seal, unseal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rebalance_monitor.checkpoints.storage.places import Place

log = structlog.get_logger()
# A leader's epoch that the brokers do not report.
UNKNOWN = -1
FORMAT = 1


@dataclass(frozen=True, slots=True)
class Mark:
    """All below `position` was read while leaders of epochs up to `epoch` led."""

    epoch: int
    position: int


@dataclass(frozen=True, slots=True)
class Marks:
    """The marks by partition of the topic with this id."""

    topic_id: str = ""
    places: Mapping[int, Mark] = field(default_factory=dict)

    def of(self, topic_id: str) -> Mapping[int, Mark]:
        """Return the marks by partition; none of another topic."""
        return self.places if topic_id == self.topic_id else {}


@dataclass(frozen=True, slots=True)
class Kept:
    """What a new leader has of what was `read` up to: all before `end` (next offsets)."""

    read: int
    end: int

    @property
    def is_cut(self) -> bool:
        """Whether records that were read are lost."""
        return self.end < self.read


def believed(answer: tuple[int, int], mark: Mark | None) -> tuple[int, int]:
    """Return (end, epoch) as a leader reports it.

    One of an older epoch than was seen before leads no more, and does not know: its end says nothing.
    """
    end, epoch = answer
    if mark is None or epoch == UNKNOWN or epoch >= mark.epoch:
        return answer
    return max(end, mark.position), UNKNOWN


def to_ask(places: Mapping[int, Mark], epochs: Mapping[int, int]) -> dict[int, int]:
    """Return partition -> marked epoch, where another leads by now (`epochs`: partition -> leader epoch)."""
    return {
        p: mark.epoch for p, mark in places.items() if epochs.get(p, UNKNOWN) not in {UNKNOWN, mark.epoch}
    }


def compared(places: Mapping[int, Mark], ends: Mapping[int, int]) -> dict[int, Kept]:
    """Return what the new leaders have; `ends`: where the marked epochs end in their logs, if known."""
    return {p: Kept(places[p].position, end) for p, end in ends.items() if p in places}


def marked(
    places: Mapping[int, Mark],
    read: Mapping[int, int],
    epochs: Mapping[int, int],
    kept: Mapping[int, Kept],
    ends: Mapping[int, int],
) -> dict[int, Mark]:
    """Return the marks after a check.

    read: next offsets to read, from before the leaders were asked for their `epochs` and `ends`. The mark of
    a partition that was cut, or whose new leader has not answered, stays as it is.
    """
    stay = {p for p in to_ask(places, epochs) if p not in kept or kept[p].is_cut}
    # What its leader does not have was read while others led.
    stay |= {p for p, position in read.items() if ends.get(p, position) < position}
    known = {
        p: position for p, position in read.items() if epochs.get(p, UNKNOWN) != UNKNOWN and p not in stay
    }
    return {**places, **{p: Mark(epochs[p], position) for p, position in known.items()}}


def mark_cuts(
    places: Mapping[int, Mark], cut: Mapping[int, int], epochs: Mapping[int, int]
) -> dict[int, Mark]:
    """Return the marks where partitions were found `cut` (partition -> next offset read) by their ends.

    End offsets no longer show it once the topic has grown: with these marks its leaders do. `epochs`: of
    leaders that had what was read, as far as known, for partitions without a mark.
    """
    known = {p: places[p].epoch if p in places else epochs.get(p, 0) for p in cut}
    return {**places, **{p: Mark(max(epoch, 0), cut[p]) for p, epoch in known.items()}}


def read_marks(path: Place) -> Marks:
    """Return the marks in a file; none where there is none, or it cannot be read (which is logged)."""
    try:
        return stored_marks(path)
    except OSError as error:
        log.warning("the leader epochs of the last run cannot be read", path=str(path), why=str(error))
        return Marks()


def stored_marks(path: Place) -> Marks:
    """Return the marks in a file; none where there is none. Raises OSError, also for a damaged file."""
    try:
        body = unseal(path.read_bytes(), formats=frozenset({FORMAT}))
        places = {int(p): Mark(int(epoch), int(position)) for p, (epoch, position) in body["places"].items()}
        return Marks(str(body["topic_id"]), places)
    except FileNotFoundError:
        return Marks()
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise OSError(f"{path} cannot be read ({error}): it is damaged.") from error


def write_marks(path: Place, marks: Marks) -> None:
    """Replace the file, durably. Raises OSError."""
    places = {p: [mark.epoch, mark.position] for p, mark in sorted(marks.places.items())}
    replace_file(path, seal({"format": FORMAT, "topic_id": marks.topic_id, "places": places}))
