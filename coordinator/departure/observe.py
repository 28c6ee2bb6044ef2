"""The evidence of one rebalance, from the coordinator's state before it and from the record that ended it."""

from __future__ import annotations

from collections import Counter
from functools import cached_property
from itertools import accumulate, islice
from operator import sub
from typing import TYPE_CHECKING

from msgspec.structs import replace

from rebalance_monitor.coordinator.commits import positions
from rebalance_monitor.coordinator.commits.client_families import FAMILIES, instance_of, is_named
from rebalance_monitor.coordinator.commits.siblings import OFTEN, Siblings
from rebalance_monitor.coordinator.commits.topic_names import named
from rebalance_monitor.coordinator.commits.trace import commits_when_idle, is_steady
from rebalance_monitor.coordinator.departure.evidence import (
    ELSEWHERE,
    MAYBE_WORK,
    MOST_SURVIVORS,
    NO_WORK,
    NOT_BACK,
    SAME_PLACE,
    Departed,
    Evidence,
    Trace,
)
from rebalance_monitor.coordinator.state.membership import COOPERATIVE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from rebalance_monitor.coordinator.commits.positions import Places
    from rebalance_monitor.coordinator.state.group_state import GroupState, Member
    from rebalance_monitor.coordinator.state.membership import Change

_TELLING = 3
_MOST_PLACES, _MOST_NAME, _MOST_BYTES = 4, 249, 8_192


def observed(
    state: GroupState, change: Change, cst: int, aborted: int, interval: int | None = None
) -> Evidence:
    """Return what the records say of the members that `change` has lost when the join phase ended at `cst`.

    `state`: the group as its last record and the commits since then left it. `interval`: the configured
    max.poll.interval (ms) of clients that send none.
    """
    kept = [before for before, _ in change.kept]
    back, succeeded = _returned(state, change), _succeeded(change)
    assigned = sum(len(one.offsets) for one in state.members)
    withheld = state.protocol in COOPERATIVE and assigned < sum(state.totals)
    followed = _followed(state, kept) if withheld else frozenset()
    group = _Group(state, kept)
    present = [*state.members, *change.joined]
    return Evidence(
        since=max(0, cst - max(state.ts, state.cst)) if state.ts > 0 else 0,
        aborted=aborted,
        departed=tuple(
            _departed(group, one, cst, back, succeeded, interval, followed=one.member_id in followed)
            for one in change.left
        ),
        survivors=tuple(trace_of(state, one, cst) for one in _best_committers(state, kept)),
        kept=len(kept),
        joined=len(change.joined) + len(change.replaced),
        deadline=max((one.rebalance_timeout for one in present), default=0),
        session=max((one.session_timeout for one in present), default=0),
        cooperative=state.protocol in COOPERATIVE,
        beats=tuple(state.learned.beats),
        ways=tuple(state.learned.ways),
        withheld=withheld,
        awaits=any(one.instance_id is not None for one in kept),
    )


def _best_committers(state: GroupState, kept: list[Member]) -> list[Member]:
    """Survivors whose commits say most: they committed in the generation, most often so far."""
    if len(kept) <= MOST_SURVIVORS:
        return kept
    return sorted(kept, key=lambda one: (one.last_commit <= state.cst, -one.commits))[:MOST_SURVIVORS]


def orders_of(member: Member) -> tuple[int, ...]:
    """Return the orders of which the member has made intervals."""
    return tuple([one for one in member.orders if one])


def trace_of(state: GroupState, member: Member, cst: int, orders: tuple[int, ...] = ()) -> Trace:
    """Return the commits of a member, as ages at `cst` (ms)."""
    return Trace(
        last=max(0, cst - member.last_commit) if member.last_commit > _born(state, member) else -1,
        gaps=tuple(member.gaps),
        idle=bool(member.offsets) and commits_when_idle(state, member),
        commits=member.commits,
        orders=orders,
    )


def _born(state: GroupState, member: Member) -> int:
    """When (ms) the member's life in this generation began.

    A static member that came back in the same generation lives from then on. One whose session outlasts the
    join deadline is kept in the next generation though it is dead: that begins no life of it.
    """
    outlasts = member.instance_id is not None and member.session_timeout > member.rebalance_timeout
    if outlasts and member.joined_at <= member.last_commit < state.cst:
        return member.joined_at
    return max(state.cst, member.joined_at)


def _departed(
    group: _Group,
    member: Member,
    cst: int,
    back: dict[str, int],
    succeeded: set[str],
    interval: int | None,
    *,
    followed: bool,
) -> Departed:
    state = group.state
    family, born = FAMILIES[member.family], _born(state, member)
    trace, worked = trace_of(state, member, cst, orders_of(member)), member.last_commit
    if group.commits_for(member):
        trace, worked = replace(trace, last=-1, commits=member.commits - 1), -1
    return Departed(
        session=member.session_timeout,
        rebalance=member.rebalance_timeout,
        since=max(0, cst - born),
        trace=trace,
        family=member.family,
        static=member.instance_id is not None,
        poll_interval=(interval or 0) if family.commits_stalled else 0,
        returned=SAME_PLACE if member.member_id in succeeded else back.get(member.member_id, NOT_BACK),
        went_on=group.siblings.committed(member, born if trace.last < 0 else worked),
        unmoved=_unmoved(group, member) if family.commits_stalled else 0,
        named=is_named(member.client_id, member.family),
        work=work_of(member, given=group.given),
        young=not trace.commits and member.joined_at >= state.cst,
        worked=cst - worked if trace.last < 0 < worked else -1,
        succeeded=member.member_id in succeeded,
        places=group.committed(member),
        before=max(state.cst - member.joined_at, 0),
        followed=followed,
        outlived=_outlived(state, member) if trace.last < 0 < worked else 0,
    )


def _outlived(state: GroupState, member: Member) -> int:
    """Return for how long (ms) it had been silent, and others had not, as it rejoined for its generation.

    A static member is kept at the join deadline without that.
    """
    return max(state.worked - member.last_commit, 0) if member.instance_id is None else 0


class _Group:
    """What all members of the group did, gathered once: tens of thousands may depart together."""

    def __init__(self, state: GroupState, kept: Sequence[Member]) -> None:
        self.state = state
        self._kept = kept

    @cached_property
    def siblings(self) -> Siblings:
        """The members that stayed."""
        return Siblings(self._kept)

    @cached_property
    def given(self) -> bool:
        """Whether any was given partitions."""
        return any(one.offsets for one in self.state.members)

    @cached_property
    def _places(self) -> Places:
        return places_of(self.state)

    def committed(self, member: Member) -> tuple[tuple[str, int, int], ...]:
        """See `committed`."""
        return committed(self.state, member, lambda: self._places)

    @cached_property
    def commits(self) -> int:
        """How often they committed."""
        return sum(one.commits for one in self.state.members)

    @cached_property
    def idle(self) -> int:
        """How many of these commits made no progress."""
        return sum(map(_idle, self.state.members))

    @cached_property
    def times(self) -> frozenset[int]:
        """When (ms) members committed partitions that they had had before."""
        kept = (one for one in self.state.members if not one.fresh)
        return frozenset(time for one in kept for time in _commit_times(one))

    def commits_for(self, member: Member) -> bool:
        """Whether its first commit of a partition was written with one of a sibling, which had that before.

        A request is of one member. kafka-go commits what it had read of a partition also after it has lost
        it.
        """
        if not member.fresh or member.last_commit <= self.state.cst:
            return False
        return member.last_commit in self.times


def _commit_times(member: Member) -> Iterator[int]:
    """Yield when (ms) it made its last commits of its generation, newest first."""
    yield from accumulate(reversed(member.gaps), sub, initial=member.last_commit)


def committed(
    state: GroupState, member: Member, of_group: Callable[[], Places]
) -> tuple[tuple[str, int, int], ...]:
    """Return its first partitions, with the offsets that were committed last.

    Of one that has committed none of them yet, those that others of the group had committed: `of_group`.
    """
    topics, some = named(state), member.offsets[:_MOST_PLACES]
    if not topics or not some:
        return ()
    owned = ((topics[topic], number) for topic, *numbers in member.assigned for number in numbers)
    known: Iterable[tuple[str, int, int]]
    if max(some) < 0:
        places = of_group()
        known = (
            (name, number, place.offset)
            for name, number in islice(owned, _MOST_PLACES)
            if (place := places.get(name, {}).get(number)) is not None
        )
    else:
        known = ((*place, offset) for place, offset in zip(owned, some, strict=False) if offset >= 0)
    return tuple(one for one in known if 0 < len(one[0]) <= _MOST_NAME)


def places_of(state: GroupState) -> Places:
    """Return what the group has committed, unless that is very much to read for one member."""
    held = state.positions
    return positions.places_of(held) if len(held.table) + held.size <= _MOST_BYTES else {}


def work_of(member: Member, *, given: bool) -> int:
    """Whether the member had anything to commit: nothing where others were `given` all partitions."""
    return NO_WORK if given and not member.offsets else MAYBE_WORK


def _returned(state: GroupState, change: Change) -> dict[str, int]:
    """Ids of departed members whose place a newcomer took, and where it is.

    `SAME_PLACE`: on its host, as no other member of the group: the client id is the same, or has been counted
    up, or it was the only member on the host. `ELSEWHERE`: with the client id that only it had, among
    several, as a pod with a name of its own has that was moved.
    """
    fresh = [one for one in change.joined if one.instance_id is None]
    if not fresh:
        return {}
    came = {place for one in fresh for place in _places(one)}
    had = Counter(place for one in state.members for place in _places(one))
    found = {}
    for one in change.left:
        *here, anywhere = (place in came and had[place] == 1 for place in _places(one))
        if any(here):
            found[one.member_id] = SAME_PLACE
        elif anywhere and len(state.members) > 1:
            found[one.member_id] = ELSEWHERE
    return found


def _followed(state: GroupState, kept: Iterable[Member]) -> frozenset[str]:
    """Return the ids of members in whose place one that stayed had come for the generation before."""
    recent = [one for one in kept if one.joined_at >= state.cst and not one.commits and not one.instance_id]
    if not recent:
        return frozenset()
    came, new = {(one.client_id, one.host) for one in recent}, {one.member_id for one in recent}
    old = [one for one in state.members if one.member_id not in new]
    had = Counter((one.client_id, one.host) for one in old)
    return frozenset(
        one.member_id
        for one in old
        if (one.client_id, one.host) in came and had[one.client_id, one.host] == 1
    )


def _succeeded(change: Change) -> set[str]:
    """Return the ids of departed threads of Kafka Streams in whose instance another thread has joined.

    A process that is restarted numbers its threads as before. Where one dies, the instance goes on with a
    thread of another number.
    """
    threads = [one for one in change.left if instance_of(one.client_id) != one.client_id]
    if not threads:
        return set()
    left = {one.client_id for one in change.left}
    fresh = Counter(_instance(one) for one in change.joined if one.client_id not in left)
    found = set()
    for one in threads:
        if fresh[_instance(one)] > 0:
            fresh[_instance(one)] -= 1
            found.add(one.member_id)
    return found


def _instance(one: Member) -> tuple[str, str]:
    return instance_of(one.client_id), one.host


def _places(one: Member) -> tuple[tuple[str, str], ...]:
    """Return what identifies a member's place: client id and host, the host, the client id."""
    return (one.client_id, one.host), ("", one.host), (one.client_id, "")


def is_telling_silence(state: GroupState, member: Member, siblings: Siblings, life: int) -> bool:
    """Whether the silence of a member since `life` (ms) says anything.

    It does of one that commits when idle, or that committed steadily while steady siblings went on.
    """
    if not member.offsets:
        return False
    if commits_when_idle(state, member):
        return True
    goes_on = siblings.went_on(life, member.cadence)
    if member.commits >= OFTEN:
        return is_steady(member, OFTEN) and (goes_on or not siblings.are_steady)
    return goes_on


def _unmoved(group: _Group, member: Member) -> int:
    """How much its last commits without progress say of a member that commits while it is stalled.

    2: none for longer than its siblings' share of such commits explains; 1: the siblings say nothing.
    """
    moved = member.moved or member.fresh or not member.commits
    if moved or (member.idle + 2) * member.cadence < member.session_timeout:
        return 0
    commits = group.commits - member.commits
    if commits < _TELLING:
        return 1
    usual = (group.idle - _idle(member)) / commits
    beyond = member.idle - usual * member.commits
    return 2 if (beyond + 2) * member.cadence >= member.session_timeout else 1


def _idle(member: Member) -> int:
    """Return how many of its commits made no progress.

    First commits repeat nothing, though nothing is produced: one that mostly repeats makes no progress.
    """
    return member.commits if 2 * member.idle > member.commits else member.idle
