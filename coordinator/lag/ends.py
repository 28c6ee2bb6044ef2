"""One sample of the ends of topics: what the brokers answered to ListOffsets at one time.

Pure data: the ends thread (`cluster/ends/`) makes it, the lag's arithmetic reads it. What a broker did not
answer is UNKNOWN, never 0: a lag of `0 - committed` or `end - 0` would be made up. A topic that does not
exist is named in `gone`; one that may not be described, or whose leader did not answer, in `partial`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import msgspec

UNKNOWN, LARGEST = -1, 2**63 - 1
"""In place of an offset that no broker answered, and the largest that there is."""

A_SECOND = 50
"""Groups whose committed offsets are asked for at most in a second."""

AGAIN_MS = 30_000
"""A group that commits by transactions is asked for again after so long."""

LATELY_MS = 7 * 86_400_000
"""A topic is asked for while a group has committed to it in this time."""


@dataclass(frozen=True, slots=True)
class EndsSample:
    """The brokers' answers; all of them were given between `asked_at` and `at` (ms since epoch).

    `latest`: topic -> high watermark of each partition, in the order of their numbers. `earliest`: the same
    for the first offset that is still there, empty in a sample that did not ask. `ids`: topic -> topic id, ""
    where the broker answers none. `gone`: topics that do not exist. `partial`: why answers are missing, one
    sentence, "" where none is. `is_away`: no broker answered at all. `took_cpu_ms`: CPU time of the client.
    `stable`: topic -> last stable offset of each partition, only of topics in which an open transaction holds
    one below the high watermark. `fetched`: group -> topic -> partition -> committed offset, of the groups
    that were asked for (OffsetFetch) at `fetched_at` (ms); `refused`: group -> why there is no answer.
    """

    asked_at: int
    at: int
    latest: dict[str, tuple[int, ...]] = field(default_factory=dict)
    earliest: dict[str, tuple[int, ...]] = field(default_factory=dict)
    ids: dict[str, str] = field(default_factory=dict)
    gone: frozenset[str] = frozenset()
    partial: str = ""
    is_away: bool = False
    took_cpu_ms: float = 0.0
    stable: dict[str, tuple[int, ...]] = field(default_factory=dict)
    fetched: dict[str, dict[str, dict[int, int]]] = field(default_factory=dict)
    fetched_at: int = -1
    refused: dict[str, str] = field(default_factory=dict)

    def end(self, topic: str, partition: int) -> int:
        """Return the high watermark of a partition, UNKNOWN where no broker answered it."""
        return _at(self.latest.get(topic, ()), partition)

    def begin(self, topic: str, partition: int) -> int:
        """Return the first offset of a partition, UNKNOWN where no broker answered it."""
        return _at(self.earliest.get(topic, ()), partition)

    def last_stable(self, topic: str, partition: int) -> int:
        """Return where an open transaction holds up readers of committed records, UNKNOWN where none does."""
        found = _at(self.stable.get(topic, ()), partition)
        return found if found < self.end(topic, partition) else UNKNOWN


def to_json(sample: EndsSample) -> str:
    """Return the sample as one line of JSON."""
    return msgspec.json.encode(sample).decode()


def from_json(text: str) -> EndsSample:
    """Read `to_json`'s line. Raises ValueError."""
    try:
        sample = msgspec.json.decode(text, type=EndsSample)
    except msgspec.DecodeError as error:
        raise ValueError(str(error)) from None
    # A capture of an earlier version has librdkafka's -1001 where a leader did not answer.
    return replace(
        sample,
        latest=_known(sample.latest),
        earliest=_known(sample.earliest),
        stable=_known(sample.stable),
    )


def _known(offsets: dict[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
    if beyond := next((one for found in offsets.values() for one in found if one > LARGEST), None):
        raise ValueError(f"{beyond} is no offset")
    return {topic: tuple(max(UNKNOWN, one) for one in found) for topic, found in offsets.items()}


def _at(offsets: tuple[int, ...], partition: int) -> int:
    return offsets[partition] if 0 <= partition < len(offsets) else UNKNOWN
