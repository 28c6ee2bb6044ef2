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

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

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

LONGEST_MS = 86_400_000
"""After so long a cut is not judged any more: its groups have not come back after a restart."""

MOST_BEYOND = 10_000
"""Groups that are known to have stayed beyond a cut at most; the oldest is dropped."""

MOST_REMEMBERED = 1_000
"""So many partitions of theirs are remembered over a restart: the ledger has them with each batch."""

Place = tuple[str, int]
"""Topic and partition."""


class Shortened(NamedTuple):
    """An end that went back: the partition, its end before and now, and of when (ms) the end before is."""

    topic: str
    partition: int
    before: int
    end: int
    seen_at: int


class _Cut(msgspec.Struct, array_like=True):
    """A partition whose end went back from `before` to `end` at a sample of `at` (ms).

    `topic_id`: of its topic. `standing`: only groups that have committed nothing since then (ms) count, -1
    for all. `is_sure`: the next sample had a new end, too; the later of both counts.
    `furthest`: group -> its furthest position. `back`: group -> where its position went back to.
    """

    at: int
    before: int
    end: int
    topic_id: str
    standing: int = -1
    is_sure: bool = False
    furthest: dict[str, int] = {}
    back: dict[str, int] = {}


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


class _Memory(msgspec.Struct, array_like=True):
    cuts: list[tuple[Place, _Cut]] = []
    beyond: dict[str, list[tuple[Place, Beyond]]] = {}


class Cuts:
    """Follows the cuts that are not judged yet, and the groups that stayed beyond those that are.

    `state` is what `snapshot` returned, None for a new start.
    """

    def __init__(self, state: Any = None) -> None:  # noqa: ANN401 - JSON
        memory = msgspec.convert(state, _Memory) if state else _Memory()
        self._cuts = dict(memory.cuts)
        self._beyond = {group: dict(places) for group, places in memory.beyond.items()}

    def snapshot(self) -> Any:  # noqa: ANN401 - JSON
        """JSON-able memory for the ledger; of groups that stay beyond a cut the newest."""
        beyond: dict[str, list[tuple[Place, Beyond]]] = {}
        left = MOST_REMEMBERED
        for group, places in reversed(self._beyond.items()):
            left -= len(places)
            if left < 0:
                break
            beyond[group] = [*places.items()]
        return msgspec.to_builtins(_Memory([*self._cuts.items()], beyond)) if self._cuts or beyond else None

    def concerned(self) -> AbstractSet[str]:
        """Return the groups that had a position in a partition which was cut."""
        return {group for cut in self._cuts.values() for group in cut.furthest}

    def on_sample(
        self,
        sample: EndsSample,
        shortened: Iterable[Shortened],
        groups: Mapping[str, Consumed],
        began: int = -1,
    ) -> None:
        """Take the ends that went back at a sample, before its groups are judged.

        `began`: when (ms) this process began to sample. What a group had read before, and since an end that
        an earlier process saw, is known only of one that has committed nothing since.
        """
        for place, cut in list(self._cuts.items()):
            end = sample.end(*place)
            if end >= cut.before and not cut.is_sure:
                del self._cuts[place]
            if end != UNKNOWN and not cut.is_sure:
                # A leader that has just started knows of less than it has, until its high watermark is there.
                cut.is_sure, cut.end = True, max(cut.end, end)
            if cut.standing >= 0 and sample.at < cut.at + PUBLISHED_MS:
                _join(cut, place, groups)
            if sample.at > cut.at + (LONGEST_MS if cut.furthest else PUBLISHED_MS):
                self._cuts.pop(place, None)
        for one in shortened:
            place = one.topic, one.partition
            standing = one.seen_at if one.seen_at < began else -1
            cut = _Cut(sample.at, one.before, one.end, sample.ids.get(one.topic, ""), standing)
            _join(cut, place, groups)
            if cut.topic_id and (cut.furthest or standing >= 0):
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
            known, to = cut.furthest.pop(group), cut.back.get(group, UNKNOWN)
            if to == UNKNOWN and held.offset < known and not consumed.may_be_pending:
                # It went back while no process watched.
                to = held.offset
            furthest = max(known, held.offset)
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


def _join(cut: _Cut, place: Place, groups: Mapping[str, Consumed]) -> None:
    """Note the positions of groups in a partition that was cut."""
    for group, consumed in groups.items():
        held = consumed.places.get(*place) if place[0] in consumed.places.topics else None
        if held is not None and (cut.standing < 0 or held.at <= cut.standing):
            cut.furthest.setdefault(group, held.offset)
