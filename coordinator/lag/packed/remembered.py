"""What a restart must not forget of the logs: where they ended, and whose records were gone already.

The ledger has it with each batch, as text that is made once a sample. In a new process it stands for the
sample before the first one: an end that was further then is that of a log that was cut, and a first offset
beyond a position that still had its records then has passed it since.
"""

from __future__ import annotations

import zlib
from base64 import b85decode, b85encode
from typing import TYPE_CHECKING, NamedTuple

import msgspec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rebalance_monitor.coordinator.lag.consumed import Consumed
    from rebalance_monitor.coordinator.lag.ends import EndsSample
    from rebalance_monitor.coordinator.lag.packed.recent_ends import TopicEnds

MOST = 20_000
"""Partitions whose ends are remembered; of more none is."""

MOST_GONE = 20_000
"""Positions whose records were gone; where there are more, nothing is known of any position."""

SETTLED_MS = 600_000
"""All groups have published their positions, and all topics were asked for, so long after a start."""

QUICK = 1

Place = tuple[str, int]
"""Topic and partition."""


class Log(NamedTuple):
    """A topic: its id, when (ms) the brokers were asked last, and the end of each partition then."""

    topic_id: str
    at: int
    ends: list[int]


class _Written(msgspec.Struct, array_like=True):
    """`kept_at`: when (ms) first offsets were asked for last. `gone`: as of then, group -> its places."""

    logs: dict[str, Log] = {}
    kept_at: int = -1
    gone: dict[str, list[Place]] = {}


class Remembered:
    """Of the process before this one, until its topics and groups are there; and of this one for the next.

    `text`: what an earlier process left. ValueError where that cannot be read.
    """

    def __init__(self, text: str = "") -> None:
        self._text, self._is_new = text, False
        try:
            packed = zlib.decompress(b85decode(text)) if text else b""
            written = msgspec.msgpack.decode(packed, type=_Written) if packed else _Written()
        except (zlib.error, msgspec.DecodeError) as error:
            raise ValueError(str(error)) from None
        self._before = written
        self._topics = frozenset(written.logs)
        self._known: Mapping[str, TopicEnds] = {}
        self._ids: Mapping[str, str] = {}
        self._now = _Written(kept_at=written.kept_at, gone=written.gone)
        self.began = -1
        """When (ms) the brokers were asked for the first sample of this process."""

    def log(self, topic: str) -> Log | None:
        """Return what an earlier process knew of a topic; once."""
        return self._before.logs.pop(topic, None)

    def recall(self, group: str, consumed: Consumed) -> None:
        """Let a group that publishes its positions for the first time know whose records were still there."""
        if not self._topics:
            return
        gone = {*self._before.gone.get(group, ())}
        times = consumed.places.values()[1::2]
        consumed.kept[:] = bytes(
            at <= self._before.kept_at and place[0] in self._topics and place not in gone
            for place, at in zip(consumed.places.layout, times, strict=True)
        )

    def take(
        self,
        sample: EndsSample,
        known: Mapping[str, TopicEnds],
        ids: Mapping[str, str],
        groups: Mapping[str, Consumed],
    ) -> None:
        """Remember a sample, once its groups were judged.

        `known`, `ids`: the ends and ids of its topics, which may go on.
        """
        if sample.asked_at >= self.began + SETTLED_MS:
            self._before, self._topics = _Written(), frozenset()
        if sample.earliest:
            self._now.gone = _gone(groups, known, sample.asked_at)
            many = sum(map(len, self._now.gone.values())) > MOST_GONE
            self._now.kept_at = -1 if many else sample.asked_at
        self._known, self._ids, self._is_new = known, ids, True

    def text(self) -> str:
        """Return what the ledger shall have, "" where that is nothing."""
        if self._is_new:
            self._text, self._is_new = self._packed(), False
        return self._text

    def _packed(self) -> str:
        known, ids = self._known, self._ids
        logs = {topic: Log(ids[topic], ends.at[-1], ends.newest()) for topic, ends in known.items()}
        self._now.logs = self._before.logs | logs
        if sum(len(log.ends) for log in self._now.logs.values()) > MOST:
            return ""
        return b85encode(zlib.compress(msgspec.msgpack.encode(self._now), QUICK)).decode()


def _gone(
    groups: Mapping[str, Consumed], known: Mapping[str, TopicEnds], asked_at: int
) -> dict[str, list[Place]]:
    """Return the positions of before `asked_at` (ms) whose records were gone by then, of known topics."""
    found: dict[str, list[Place]] = {}
    for group, consumed in groups.items():
        if 0 not in consumed.kept:
            continue
        times = consumed.places.values()[1::2]
        places = [
            place
            for place, kept, at in zip(consumed.places.layout, consumed.kept, times, strict=True)
            if not kept and at <= asked_at and place[0] in known
        ]
        if places:
            found[group] = places
    return found
