"""Which members of a generation have not rejoined the join phase after it: a posterior, by their commits.

Neither records nor the admin API say who has rejoined: DescribeGroups describes members without their
metadata until the group is Stable. What is known is that somebody has not, or the phase would be over, and
that it is a member of the generation before: whoever came since has joined by coming. An eager client commits
as it rejoins and then no more until the phase ends. So a member that committed within the phase and then
stopped has probably rejoined, one that commits on has not, and one that had stopped before the phase began,
though it had something to commit, has probably not. The commits of each member fall into one of the classes
of `Sign`. A class has weight: how much more often members that have not rejoined fall into it than members
that have. `make fit` fits the weights to join phases whose truth is known.

Several members may be missing. Each is, independently of the others, as likely as its weight says, under the
condition that at least one is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from math import expm1, log1p
from typing import TYPE_CHECKING

from rebalance_monitor.coordinator.departure.fitted import REJOINING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rebalance_monitor.coordinator.departure.fitted import Rejoining

MARGIN_MS = 2_000
"""Commits this much (or twice the member's usual interval) apart from others' count as apart."""

_SAMPLE_MS = 1_500
"""The phase began so much before the first sample that shows it, at most."""

_BEATS, _LONGEST_BEAT_MS = 3, 20_000

UNKNOWN, NOTHING = -2, -1


class Sign(StrEnum):
    """What a member's commits say."""

    COMMITS_ON = "commits_on"
    """Long after the phase began: it has not heard of it, or is amid a batch."""
    STOPPED_WITH_WORK = "stopped_with_work"
    """Before the phase began, while records waited for it."""
    STOPPED = "stopped"
    """Before the phase began, though it commits when idle, or steadily."""
    MAYBE_STOPPED = "maybe_stopped"
    """Before the phase began; it may have had nothing to commit."""
    NOTHING_TO_SAY = "nothing_to_say"
    """It has never committed, or commits whether it has rejoined or not."""
    AS_USUAL = "as_usual"
    """About as long before the phase began as it usually waits between two commits."""
    REJOINED = "rejoined"
    """Within the phase, and then no more."""


@dataclass(frozen=True, slots=True)
class Seen:
    """One member of the last generation: when it last committed (ms, -1 never), and how often (ms).

    idle: whether it commits when there is nothing new, so that its silence means something. silent: it was
    found to be, as `member_silent` is: by its traffic too. session: its session timeout, ms. steady: it has
    steady traffic on several partitions. usual: the longest of its last intervals between commits, ms.
    waited: since when (ms) a record has waited for it, `NOTHING` where none does, `UNKNOWN` where the ends of
    its topics are not known. commits_on: its client may commit while it waits in a join phase. succeeded: a
    member of its client and host has joined since, and so many members of the generation have these; 0 for
    none. confidence: how likely it has not rejoined.
    """

    member_id: str
    client_id: str
    host: str
    instance_id: str | None
    last_commit: int
    cadence: int
    idle: bool
    silent: bool = False
    session: int = -1
    steady: bool = False
    usual: int = -1
    waited: int = UNKNOWN
    commits_on: bool = False
    succeeded: int = 0
    confidence: float = 0.0

    @property
    def margin(self) -> int:
        """Its commits must be this far (ms) from those of other members to be evidence."""
        return max(MARGIN_MS, 2 * max(self.cadence, self.usual))

    @property
    def reach(self) -> int:
        """How long (ms) after a join phase began it hears of it, at most: with its next heartbeat."""
        return min(max(self.session, 0) // _BEATS, _LONGEST_BEAT_MS)


def sign(member: Seen, since: int, began: int, now: int) -> Sign:
    """Return what the commits of a member say of a join phase seen since `since` (ms).

    `began`: when it began at the earliest (ms); `now`: until when commits are known.
    """
    last = member.last_commit
    if last < 0:
        return Sign.NOTHING_TO_SAY
    if _commits_on(member, since, now):
        return Sign.REJOINED if member.commits_on else Sign.COMMITS_ON
    if last >= since - _SAMPLE_MS:
        return Sign.NOTHING_TO_SAY if member.commits_on else Sign.REJOINED
    before = began - member.margin
    return Sign.AS_USUAL if last >= before else _stopped(member, before)


def _stopped(member: Seen, before: int) -> Sign:
    """Return what it says that a member last committed `before` this time (ms)."""
    if member.waited == NOTHING:
        return Sign.NOTHING_TO_SAY
    if member.waited >= 0:
        return Sign.STOPPED_WITH_WORK if member.waited < before else Sign.AS_USUAL
    return Sign.STOPPED if member.idle or member.silent or member.steady else Sign.MAYBE_STOPPED


def signs(members: Sequence[Seen], since: int, now: int, *, exact: bool = False) -> list[Sign]:
    """Return what the commits of each member say, `since` and `now` as of `sign`.

    `exact`: a sample just before `since` did not show the phase. Else it may have begun when the last member
    stopped. Where several members commit on, their client does so while it waits.
    """
    late = [one for one in members if _commits_on(one, since, now)]
    if len(late) > 1:
        members = [replace(one, commits_on=True) for one in members]
    stopped = [one.last_commit for one in members if one.last_commit >= 0 and not goes_on(one, now)]
    began = since if exact else min(since, max(stopped, default=since))
    return [sign(one, since, began, now) for one in members]


def _commits_on(member: Seen, since: int, now: int) -> bool:
    """Whether a member commits though it should have rejoined by then."""
    return goes_on(member, now) and member.last_commit > since + member.reach + member.margin


def shares(
    members: Sequence[Seen], since: int, now: int, others: int = 0, *, exact: bool = False
) -> list[float]:
    """Return how likely each member has not rejoined a join phase; `since`, `now`, `exact` as of `signs`.

    `others`: members of which nothing is known. The phase waits, too, for a client that asked for its member
    id and has not joined with it (KIP-394), until its session would have ended. It is not listed, and it was
    about to join: it is missing as seldom as a member that shows that it has rejoined.
    """
    said = signs(members, since, now, exact=exact)
    odds = odds_of(said, [one.succeeded for one in members])
    unknown = [REJOINING.odds] * others + [REJOINING.odds * REJOINING.rejoined]
    somebody = somebody_of([*odds, *unknown])
    return [one / (1 + one) / somebody for one in odds]


def odds_of(said: Sequence[Sign], succeeded: Sequence[int], by: Rejoining = REJOINING) -> list[float]:
    """Return the odds of each member, by itself, that it has not rejoined; `succeeded` as of `Seen`."""
    weights: dict[Sign, float] = {sign: getattr(by, sign, 1.0) for sign in Sign}
    return [
        by.odds * weights[sign] * (by.succeeded / places if places else 1.0)
        for sign, places in zip(said, succeeded, strict=True)
    ]


def somebody_of(odds: Sequence[float]) -> float:
    """Return how likely anybody is missing, of members with these odds."""
    return -expm1(-sum(map(log1p, odds)))


def goes_on(member: Seen, now: int) -> bool:
    """Whether it has committed as usual until `now` (ms)."""
    return 0 <= now - max(member.cadence, 0) - MARGIN_MS <= member.last_commit
