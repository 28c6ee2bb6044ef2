"""Logs that lost their end: a leader without the newest records took over (unclean leader election).

The end of such a partition goes back although its topic is the same one. What stood between the new end
and the old one is gone: a group that had not read it has lost it. A group that had read it, and begins anew
before the new end, reads again what is left. A commit may come late, and a topic that was made anew looks the
same until the brokers have described it. So a cut is judged at the next sample with first offsets, by the
furthest position since: what is reported is the least that it can have been. An end that is back at the next
sample was an old leader's answer. A group that stays beyond the new end may go back at any time later. Other
records have taken these offsets by then, and it does not read them again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from rebalance_monitor.coordinator.lag.ends import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from collections.abc import Set as AbstractSet

    from rebalance_monitor.coordinator.lag.consumed import Consumed
    from rebalance_monitor.coordinator.lag.ends import EndsSample

PUBLISHED_MS = 10_000
"""Commits from before the cut have been published so long after it."""

MOST = 1_000
"""Cuts that wait to be judged at most; the oldest is dropped."""

MOST_BEYOND = 10_000
"""Groups that are known to have stayed beyond a cut at most; the oldest is dropped."""

Place = tuple[str, int]
"""Topic and partition."""


class Shortened(NamedTuple):
    """An end that went back: the partition, and its end before and now."""

    topic: str
    partition: int
    before: int
    end: int


@dataclass(slots=True)
class _Cut:
    """A partition whose end went back from `before` to `end` at a sample of `at` (ms).

    `topic_id`: of its topic. `is_sure`: the next sample had a new end, too; the later of both counts.
    `furthest`: group -> its furthest position. `back`: group -> where its position went back to.
    """

    at: int
    before: int
    end: int
    topic_id: str
    is_sure: bool = False
    furthest: dict[str, int] = field(default_factory=dict)
    back: dict[str, int] = field(default_factory=dict)


class Judged(NamedTuple):
    """What a cut did to a group: its furthest position, records lost unread, records it reads again.

    `to`: where its position went back to, UNKNOWN if it did not. `end`: that of the log just after.
    """

    place: Place
    furthest: int
    lost: int
    again: int
    to: int
    end: int


class Beyond(NamedTuple):
    """A position beyond the end of a log that was cut: that end, and the furthest position.

    From one to the other the group has read records that are gone; others take their offsets.
    """

    topic_id: str
    end: int
    furthest: int

    def again(self, before: int, now: int) -> int:
        """Return how many records the group reads again that goes back from `before` to `now`."""
        others = min(before, self.furthest) - max(now, self.end)
        return before - now - max(0, others)


class Cuts:
    """Follows the cuts that are not judged yet, and the groups that stayed beyond those that are."""

    def __init__(self) -> None:
        self._cuts: dict[Place, _Cut] = {}
        self._beyond: dict[str, dict[Place, Beyond]] = {}

    def concerned(self) -> AbstractSet[str]:
        """Return the groups that had a position in a partition which was cut."""
        return {group for cut in self._cuts.values() for group in cut.furthest}

    def on_sample(
        self, sample: EndsSample, shortened: Iterable[Shortened], groups: Mapping[str, Consumed]
    ) -> None:
        """Take the ends that went back at a sample, before its groups are judged."""
        for place, cut in list(self._cuts.items()):
            end = sample.end(*place)
            if end >= cut.before and not cut.is_sure:
                del self._cuts[place]
            if end != UNKNOWN and not cut.is_sure:
                # A leader that has just started knows of less than it has, until its high watermark is there.
                cut.is_sure, cut.end = True, max(cut.end, end)
        for one in shortened:
            place = one.topic, one.partition
            cut = _Cut(sample.at, one.before, one.end, sample.ids.get(one.topic, ""))
            for group, consumed in groups.items():
                held = consumed.places.get(*place) if one.topic in consumed.places.topics else None
                if held is not None:
                    cut.furthest[group] = held.offset
            if cut.topic_id and cut.furthest:
                self._cuts[place] = cut
        while len(self._cuts) > MOST:
            del self._cuts[next(iter(self._cuts))]

    def deferred(self, group: str, place: Place, before: int, now: int) -> bool:
        """Whether a position that went back from `before` to `now` is judged with a cut of its partition."""
        cut = self._cuts.get(place)
        if cut is None or group not in cut.furthest:
            return False
        cut.furthest[group], cut.back[group] = max(cut.furthest[group], before), now
        return True

    def again(self, group: str, place: Place, before: int, now: int, topic_id: str) -> int | None:
        """Return how many records a group reads again that stayed beyond a cut and goes back; None if not."""
        known = self._taken(group, place)
        return known.again(before, now) if known is not None and known.topic_id == topic_id else None

    def judged(self, group: str, consumed: Consumed, sample: EndsSample) -> list[Judged]:
        """Return what cuts did to a group, once, at a sample with first offsets."""
        found = []
        for place, cut in list(self._cuts.items()):
            held = consumed.places.get(*place)
            if group not in cut.furthest or held is None or sample.at < cut.at + PUBLISHED_MS:
                continue
            furthest, to = max(cut.furthest.pop(group), held.offset), cut.back.get(group, UNKNOWN)
            if cut.topic_id == sample.ids.get(place[0], ""):
                beyond = self._beyond_of(group, place, cut, furthest)
                if to == UNKNOWN and furthest > beyond.end:
                    self._stays(group, place, beyond)
                again = beyond.again(furthest, to) if to != UNKNOWN else 0
                lost = cut.before - max(furthest, cut.end)
                found.append(Judged(place, furthest, max(0, lost), again, to, cut.end))
            if not cut.furthest:
                del self._cuts[place]
        return found

    def _beyond_of(self, group: str, place: Place, cut: _Cut, furthest: int) -> Beyond:
        """Return where a group is that a cut concerns; an earlier one may have cut more off."""
        known = self._taken(group, place)
        if known is None or known.topic_id != cut.topic_id:
            return Beyond(cut.topic_id, cut.end, furthest)
        return Beyond(cut.topic_id, min(known.end, cut.end), max(known.furthest, furthest))

    def _stays(self, group: str, place: Place, beyond: Beyond) -> None:
        self._beyond.setdefault(group, {})[place] = beyond
        while len(self._beyond) > MOST_BEYOND:
            del self._beyond[next(iter(self._beyond))]

    def _taken(self, group: str, place: Place) -> Beyond | None:
        """Forget that a group stays beyond a cut; return what was known."""
        places = self._beyond.get(group, {})
        known = places.pop(place, None)
        if known is not None and not places:
            del self._beyond[group]
        return known

    def forget(self, group: str) -> None:
        """Forget a group that is gone."""
        self._beyond.pop(group, None)
        for place, cut in list(self._cuts.items()):
            if cut.furthest.pop(group, None) is not None and not cut.furthest:
                del self._cuts[place]
