"""What of a capture is history: everything before given offsets, or before a moment.

The ends found here are those of records that exist, so a shard is known to have read its history with its
last record, whatever holes compaction and transactions left behind.
"""

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import numpy as np

from rebalance_monitor.cluster.captures.copying import parse_offsets
from rebalance_monitor.config.errors import ConfigError

if TYPE_CHECKING:
    from rebalance_monitor.cluster.captures.capture import Capture, Ints

_OFFSETS = re.compile(r"\s*(\{.*|\d+:\d+(,\d+:\d+)*)\s*", re.DOTALL)


def history_ends(capture: "Capture", text: str) -> dict[int, int]:
    """Return, for each partition that has any, the offset after its last record of history.

    `text`: offsets (`0:12,3:99` or JSON), a time in ISO 8601 (UTC where it says no zone), or ms since epoch.
    Raises ConfigError for anything else, CaptureError for a damaged file.
    """
    if _OFFSETS.fullmatch(text):
        return last_before(capture, parse_offsets(text))
    moment = parse_time(text)
    firsts: dict[int, int] = {}
    for partition, offsets, stamps in _by_partition(capture):
        later = offsets[stamps >= moment]
        if len(later):
            firsts[partition] = min(firsts.get(partition, int(later[0])), int(later.min()))
    return last_before(capture, firsts, others=True)


def last_before(capture: "Capture", limits: Mapping[int, int], *, others: bool = False) -> dict[int, int]:
    """Return the offset after the last record before each limit; the `others` count whole, or not at all."""
    ends: dict[int, int] = {}
    for partition, offsets, _stamps in _by_partition(capture):
        if partition not in limits and not others:
            continue
        before = offsets[offsets < limits.get(partition, np.iinfo(np.int64).max)]
        if len(before):
            ends[partition] = max(ends.get(partition, 0), int(before.max()) + 1)
    return ends


def parse_time(text: str) -> int:
    """Return ms since epoch."""
    try:
        if text.isdigit():
            return int(text)
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ConfigError(
            f"{text!r} is neither offsets like `0:12,3:99` nor a time like `2026-03-01T12:30:00`"
        ) from None
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


def _by_partition(capture: "Capture") -> Iterator[tuple[int, "Ints", "Ints"]]:
    for partitions, offsets, stamps in capture.places():
        for partition in np.unique(partitions):
            mine = partitions == partition
            yield int(partition), offsets[mine], stamps[mine]
