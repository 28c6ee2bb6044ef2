"""Evidence of one rebalance: all that the model may know, as one value that can be sent and completed.

Durations are ms *before the end of the join phase* (`currentStateTimestamp` of the record that the departed
members are missing from), so they grow into the past; -1 where something never happened or is not known.
The operator makes the value once per record; the driver adds the bounds that probe samples saw. The layout
is that of the fields, in order: a new field comes last and has a default, anything else is another `VERSION`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Sequence

VERSION = 2
NEWCOMER_MS = 300_000
"""A member that has joined no generation yet is removed after so long (`newMemberJoinTimeoutMs`)."""

MOST_SURVIVORS = 8
"""So many survivors speak for all: more say the same."""

_SHORT_MS, _AGAIN_MS, _TIMERS = 500, 100, 3

NOT_BACK, SAME_PLACE, ELSEWHERE = 0, 1, 2
"""`Departed.returned`: whether, and where, a newcomer has taken a departed member's place."""

NO_WORK, MAYBE_WORK, HAD_WORK = 0, 1, 2
"""`Departed.work`: whether there was anything for a departed member to commit while it was silent."""


class Trace(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The commits of one member.

    `last`: its last commit in the generation. `gaps`: times between its last commits, oldest first. `idle`:
    it was seen to commit offsets that had not moved, so it always has something to commit. `commits`: how
    many it made, in this generation and before. `orders`: of a departed member, all times between its commits
    by order of length: of each order their sum, then how many.
    """

    last: int = -1
    gaps: tuple[int, ...] = ()
    idle: bool = False
    commits: int = 0
    orders: tuple[int, ...] = ()


class Departed(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One member that the record does not have any more.

    `rebalance`: its rebalance timeout, 0 where its protocol has none, as that of share groups. `since`: when
    it was given its assignment, or a coordinator was loaded after that: its session runs from there at least.
    `poll_interval`: its max.poll.interval, 0 where no record holds it and none is configured.
    `returned`: a newcomer has the client id and host that only this member had, or its client id on another
    host. `went_on`: siblings on the same topics committed after it had fallen silent. `unmoved`: its last
    commits moved nothing for longer than before, while those of siblings moved (2), or siblings say nothing
    (1). `rearms`: an accepted commit re-arms its session. `removed`: bounds of its removal that probe samples
    saw. `heard`: its newest heartbeat that a record shows (KIP-848: an acknowledged epoch). `named`: what its
    library alone sets tells its family. `work`: whether it had anything to commit: nothing without
    partitions, something where the ends of its partitions were beyond what it had committed. `deaf`: for how
    long it has not acknowledged an epoch that others have (KIP-848), which a live member does with its next
    heartbeat. `young`: it has never committed and joined for this generation, so that `since` is its age.
    `worked`: its last commit, where that was in a generation before. `places`: some of its partitions (topic,
    number), with the offsets that it committed last. `lull`: for how long after its last sign of work it
    could commit nothing: no record waited, or no coordinator was there. `loaded`: when samples saw its
    coordinator loaded, which re-arms its session; `unanswered`: only that no broker answered speaks for that,
    as it does for brokers under strain and for the monitor's own network. `woke`: when they saw its
    coordinator's broker go on that had not responded for most of a session, which ends every session at once
    that had run out meanwhile.
    `succeeded`: a newcomer is another thread of its instance of Kafka Streams, so its process lives.
    `failed`: when samples saw a generation begin or fail that no record has: its session began anew then.
    `undue`: samples show that no join phase had come to its deadline as it was removed. `lived_on`: it had
    work, committed nothing for far longer than a session, was there still, and did not only await a join
    phase: it sent heartbeats, so its application no longer polled. `usual_lull`: how long its lulls were
    before, which its commit intervals contain. `outlived`: for how long it had fallen silent before its
    generation while others went on; it rejoined all the same, so it lived, and its application may have
    stalled. `assumed`: nobody said what its session timeout is. `before`: for how long it
    was a member before its generation. `followed`: a newcomer of the generation before, which left partitions
    to nobody, has the client id and host that only this member had.
    """

    session: int
    rebalance: int
    since: int
    trace: Trace
    family: str
    static: bool = False
    poll_interval: int = 0
    returned: int = NOT_BACK
    went_on: bool = False
    unmoved: int = 0
    rearms: bool = True
    removed: tuple[int, int] = (-1, -1)
    heard: int = -1
    named: bool = False
    work: int = MAYBE_WORK
    deaf: int = -1
    young: bool = False
    worked: int = -1
    places: tuple[tuple[str, int, int], ...] = ()
    lull: int = 0
    loaded: int = -1
    woke: int = -1
    succeeded: bool = False
    unanswered: bool = False
    failed: int = -1
    undue: bool = False
    lived_on: bool = False
    usual_lull: int = 0
    outlived: int = 0
    assumed: bool = False
    before: int = 0
    followed: bool = False

    @property
    def last_active(self) -> int:
        """Its last sign of work: its last commit, or its assignment."""
        return self.trace.last if self.trace.last >= 0 else self.since

    @property
    def alive(self) -> int:
        """Its last sign of life: from then on its session runs, unless its coordinator is loaded."""
        return self.last_active if self.heard < 0 else min(self.heard, self.last_active)

    @property
    def anew(self) -> int:
        """When its session began anew after its last sign of life, by no doing of its own; -1 for never."""
        return min([at for at in (self.loaded, self.failed) if 0 <= at < self.alive], default=-1)

    @property
    def usual(self) -> int:
        """Its usual commit interval (ms), -1 where it has none."""
        gaps = self.trace.gaps
        return sorted(gaps)[len(gaps) // 2] if gaps else -1


class Evidence(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One rebalance of a group.

    `since`: the record before. `aborted`: generations in between that no record has. `survivors`: traces of
    members that stayed, at most `MOST_SURVIVORS`, of `kept`. `deadline`: the longest rebalance timeout.
    `session`: the longest session timeout. `cooperative`: members commit on while they wait for others.
    `phase`: bounds of the length of the join phase. `beats` and `ways`: what earlier rebalances of the group
    taught. `version`: of this layout. `withheld`: the record before left partitions of a cooperative group to
    nobody, so its members rejoin at once. `apart`: how long before the end each member of an epoch-based
    group was removed by itself; its durations count from then. -1: the pattern of its removal tells why.
    `awaits`: static members stayed, which a join deadline keeps though they have not rejoined.
    """

    since: int
    aborted: int
    departed: tuple[Departed, ...]
    survivors: tuple[Trace, ...]
    kept: int
    joined: int
    deadline: int
    session: int
    cooperative: bool = False
    phase: tuple[int, int] = (-1, -1)
    beats: tuple[float, ...] = ()
    ways: tuple[float, ...] = ()
    version: int = VERSION
    withheld: bool = False
    apart: tuple[int, ...] = ()
    awaits: bool = False

    @property
    def is_emptied(self) -> bool:
        """Whether no member is left."""
        return not (self.kept or self.joined)

    @property
    def is_alone(self) -> bool:
        """Whether no other member can have begun the phase or delayed its end: the closed form is exact then.

        Epoch-based groups wait for no one before they remove a member.
        """
        if self.apart:
            return True
        if len(self.departed) != 1:
            return False
        if 0 <= self.phase[1] <= _SHORT_MS:
            return True
        # A phase that samples saw go on was begun by a newcomer, which is gone as well.
        return self.is_emptied and not self.aborted and self.phase[0] <= _SHORT_MS

    @property
    def failures(self) -> tuple[tuple[int, int], ...] | None:
        """When a generation that no record has may have begun: a removal may have ended its phase.

        Bounds of each (ms), () where nothing says when. None where no record lacks a generation, or where
        samples show the phase and nothing that ended it before.
        """
        if not self.aborted:
            return None
        found = tuple(one.removed for one in self.departed if one.removed[0] > one.session // 2)
        unseen = self.phase[1] < 0 or any(one.failed >= 0 for one in self.departed)
        return found or (() if unseen else None)

    @property
    def is_obvious(self) -> bool:
        """Whether one member closed, before any of its timers can have ended, in a phase of no length.

        A group whose heartbeat interval is known learns nothing from that.
        """
        if len(self.departed) != 1 or self.aborted or self.cooperative or not self.beats:
            return False
        (one,) = self.departed
        soon = one.trace.last >= 0 and _TIMERS * one.last_active < min(
            one.session, one.poll_interval or one.rebalance
        )
        recent = any(0 <= trace.last < self.deadline // _TIMERS for trace in self.survivors)
        return soon and recent and not (one.unmoved or one.static) and self.phase[1] < 0

    @property
    def may_lack_newcomer(self) -> bool:
        """Whether a newcomer may have begun the phase, and was removed just before its deadline ended it.

        It joins again: before a later deadline, so that a record shows it.
        """
        return not self.joined and not self.aborted and 0 <= self.deadline - NEWCOMER_MS < _AGAIN_MS

    @property
    def may_lack_work(self) -> bool:
        """Whether topics may have left all without work: nobody stays to show that they did not."""
        unknown = [one.work == MAYBE_WORK and not one.trace.idle for one in self.departed]
        return self.is_emptied and sum(unknown) > 1

    @property
    def least_phase(self) -> int:
        """The least length of the join phase (ms): an eager idle committer stops as it rejoins."""
        if self.cooperative or not self.survivors:
            return 0
        waits = [
            max(trace.last - max(trace.gaps), 0) for trace in self.survivors if trace.idle and trace.gaps
        ]
        return max(waits, default=0)


def together(each: Sequence[Evidence], ages: Sequence[int]) -> Evidence:
    """Return the evidence of members that departed by themselves, each so long (ms) before the end."""
    return Evidence(
        since=max(one.since for one in each),
        aborted=0,
        departed=tuple(member for one in each for member in one.departed),
        survivors=(),
        kept=each[-1].kept,
        joined=0,
        deadline=max(one.deadline for one in each),
        session=max(one.session for one in each),
        phase=each[0].phase,
        apart=tuple(age if one.apart[0] >= 0 else -1 for one, age in zip(each, ages, strict=True)),
    )


encode = msgspec.json.Encoder().encode
"""JSON of an evidence, arrays without names."""

decode = msgspec.json.Decoder(Evidence).decode
"""Read what `encode` wrote. Raises msgspec.ValidationError for another layout."""
