"""Judging the lag of one partition without thresholds on it, as Burrow does: by what moved in a window.

The window is ten of the partition's own commit intervals, at least a minute. An interval is how long records
waited until the next commit: a client that commits what is new only commits nothing while nothing comes. A
longer interval is believed at once, a shorter one by and by: commits come close together where members join
one after the other. Within the window

- *stalled*: commits go on, the partition's own or its owner's others, and its offset stands still while
  records wait and grow more;
- *stopped*: the same, and its owner commits nothing at all;
- *behind*: its offset moves, and its lag has not once gone down for the long window.

Only lag that has grown since the last commit counts. A group that commits behind a transaction's marker keeps
a lag of one for ever, and an idle topic any lag. A group that rebalances is not judged: its windows begin
anew when it is over.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

COMMITS = 10
"""A window is so many commit intervals."""

SMOOTHING = 4
PUBLISHED_MS = 10_000
"""Two positions of a partition that a group publishes are within this time, however often it commits."""

MARKER = 1
"""A transaction's marker takes an offset that no consumer reads, and may follow the last record's commit."""


class Verdict(StrEnum):
    """What a window says of a partition."""

    FINE = "fine"
    STALLED = "stalled"
    STOPPED = "stopped"
    BEHIND = "behind"


class Track(msgspec.Struct, gc=False):
    """What is remembered of a partition of a group between samples. Times in ms, -1 where there was none.

    `offset`, `committed`: its position, and when that was committed. `moved`: when the offset last moved.
    `base`: its lag just after that. `grown`: since when more waits. `cadence`: its usual time between
    commits. `rising`: since when its lag has not gone down, from `low`; `risen`: when it last went up;
    `lag`: the last one. `packed/columns.py` has the rules.
    """

    offset: int = -1
    committed: int = -1
    moved: int = -1
    base: int = -1
    grown: int = -1
    cadence: int = -1
    rising: int = -1
    low: int = -1
    lag: int = -1
    risen: int = -1


class Owner(msgspec.Struct, frozen=True, gc=False):
    """The member that reads a partition, as its commits show it.

    `committed`: when it last committed anything (ms), `cadence` its usual time between commits (ms); -1 where
    that is not known.
    """

    committed: int = -1
    cadence: int = -1


def window(track: Track, owner: Owner, least_ms: int, published_ms: int = PUBLISHED_MS) -> int:
    """Return the partition's own window, ms; -1 where no commit interval is known to make one of.

    `published_ms`: its positions come at least so often.
    """
    # What is published every few seconds shows no shorter interval; the member's own is that of each commit.
    is_coarse = owner.cadence >= 0 and track.cadence <= published_ms
    cadence = owner.cadence if is_coarse else max(track.cadence, owner.cadence)
    return -1 if cadence < 0 else max(least_ms, COMMITS * cadence)


def judge(
    track: Track, at: int, owner: Owner, least_ms: int, behind_ms: int, published_ms: int = PUBLISHED_MS
) -> Verdict:
    """Judge a partition at `at` (ms); the times in ms are as of `window`."""
    wide = window(track, owner, least_ms, published_ms)
    if wide < 0:
        return Verdict.FINE
    if track.grown >= 0 and at - track.grown >= wide:
        goes_on = max(owner.committed, track.committed) > track.grown
        return Verdict.STALLED if goes_on else Verdict.STOPPED
    return Verdict.BEHIND if _rises(track, at, wide, max(wide, behind_ms)) else Verdict.FINE


def _rises(track: Track, at: int, wide: int, long_ms: int) -> bool:
    """Whether its lag rose over the whole long window, and does so still, while its offset moves."""
    has_risen = track.rising >= 0 and at - track.rising >= long_ms and track.lag > track.low + MARKER
    return has_risen and track.risen >= at - wide and track.moved >= at - wide
