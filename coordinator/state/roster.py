"""The members of an epoch-based group, indexed by what each of its records asks about them.

A record of these groups is about one member, and a group of ten thousand writes ten thousand of them for each
epoch. A record that visited every member would make that the square. So the list of the members also knows
who has an id, who is at an epoch, and when members joined and acknowledged. It is written with the state as
any list; the index is made anew when the state has been read.

Members come, go and change through its methods alone. The commits of a member are not indexed.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import Counter
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from rebalance_monitor.coordinator.state.group_state import Member

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from rebalance_monitor.coordinator.state.group_state import GroupState

_UNKNOWN = "unknown"
_ROOM = 64
"""So many ids more than twice the members are noted as changed, before their reader has to begin anew."""


class _Entry(NamedTuple):
    """What the index says of a member; `order`: its place among the others, which may have gaps."""

    member: Member
    order: int
    joined_at: int
    subscribed: str
    family: str
    given: bool
    epoch: int
    stage: int
    acked_at: int


class _AtEpoch:
    """The members at one epoch: by their state (`Member.epoch_state`) and id, and when they acknowledged."""

    __slots__ = ("acks", "stages")

    def __init__(self) -> None:
        self.acks: list[int] = []
        self.stages: dict[int, dict[str, Member]] = {}


class Roster(list[Member]):
    """The members, in the order in which records described them last.

    `moved`: ids of members that came, left or were assigned something since its reader emptied it. `lived`:
    the same, and members that committed. Both are None until somebody reads them, and again once it has not
    for long. `beside`: what the reader of `lived` keeps.
    """

    __slots__ = (
        "_entries",
        "_epochs",
        "_families",
        "_found",
        "_given",
        "_joined",
        "_numbers",
        "_orders",
        "beside",
        "lived",
        "moved",
        "subscribed",
    )

    def __init__(self, members: Iterable[Member] = ()) -> None:
        super().__init__()
        self.moved: dict[str, None] | None = None
        self.lived: dict[str, None] | None = None
        self.beside: object = None
        self.subscribed: Counter[str] = Counter()
        self._entries: dict[str, _Entry] = {}
        self._orders: list[int] = []
        self._joined: list[int] = []
        self._families: Counter[str] = Counter()
        self._given = self._found = 0
        self._epochs: dict[int, _AtEpoch] = {}
        self._numbers: list[int] = []
        for member in members:
            self.put(member)

    def find(self, member_id: str) -> Member | None:
        """Return the member of an id, None where there is none."""
        entry = self._entries.get(member_id)
        return None if entry is None else entry.member

    def put(self, member: Member) -> None:
        """Add a member at the end, in place of the one of the same id."""
        self.take_out(member.member_id)
        order = self._orders[-1] + 1 if self._orders else 0
        self.append(member)
        self._orders.append(order)
        self._enter(member, order)

    def take_out(self, member_id: str) -> Member | None:
        """Remove the member of an id, and return it."""
        entry = self._leave(member_id)
        if entry is None:
            return None
        place = bisect_left(self._orders, entry.order)
        del self[place], self._orders[place]
        return entry.member

    def renew(self, member: Member) -> None:
        """Take what a record has changed of a member that stays."""
        entry = self._leave(member.member_id)
        if entry is not None:
            self._enter(member, entry.order)

    def commit(self, members: Iterable[Member]) -> None:
        """Note that members have committed."""
        if self.lived is not None:
            self.lived = self._noted(self.lived, (member.member_id for member in members))

    def of(self, ids: Iterable[str]) -> list[Member]:
        """Return the members of these ids that are there, in their order."""
        entries = [entry for one in ids if (entry := self._entries.get(one)) is not None]
        return [entry.member for entry in sorted(entries, key=lambda one: one.order)]

    def at(self, epoch: int) -> Iterator[Member]:
        """Yield the members at an epoch."""
        there = self._epochs.get(epoch)
        return chain.from_iterable(stage.values() for stage in there.stages.values()) if there else iter(())

    def count_at(self, epoch: int, stages: Iterable[int] | None = None) -> int:
        """Count the members at an epoch, in these states of theirs or in any."""
        there = self._epochs.get(epoch)
        if there is None:
            return 0
        return len(there.acks) if stages is None else sum(len(there.stages.get(one, ())) for one in stages)

    def first_ack(self, epoch: int, since: int) -> int | None:
        """Return when (ms) after `since` a member acknowledged `epoch`, or a later one, first."""
        found = []
        for number in self._numbers[bisect_left(self._numbers, epoch) :]:
            acks = self._epochs[number].acks
            place = bisect_right(acks, since)
            found += acks[place : place + 1]
        return min(found, default=None)

    def last_ack(self, epoch: int) -> int | None:
        """Return when (ms) a member acknowledged `epoch` last."""
        there = self._epochs.get(epoch)
        return there.acks[-1] if there is not None and there.acks else None

    def joined_before(self, at: int) -> int:
        """Count the members that joined before `at` (ms)."""
        return bisect_left(self._joined, at)

    @property
    def oldest(self) -> int | None:
        """When (ms) the first of them joined."""
        return self._joined[0] if self._joined else None

    @property
    def any_given(self) -> bool:
        """Whether any of them was given partitions."""
        return self._given > 0

    @property
    def family(self) -> str | None:
        """The client family of most of them, as far as it is known."""
        known = [(-count, family) for family, count in self._families.items() if family != _UNKNOWN]
        return min(known)[1] if known else None

    def first(self, wanted: Callable[[Member], bool]) -> Member | None:
        """Return a member that is wanted, None where none is.

        The one that was found last is asked first, then those after it: few change between two questions.
        """
        for place in chain(range(self._found, len(self)), range(min(self._found, len(self)))):
            if wanted(self[place]):
                self._found = place
                return self[place]
        return None

    def _enter(self, member: Member, order: int) -> None:
        entry = self._entries[member.member_id] = _Entry(
            member,
            order,
            member.joined_at,
            member.subscribed,
            member.family,
            bool(member.offsets),
            member.epoch,
            member.epoch_state,
            member.acked_at,
        )
        insort(self._joined, entry.joined_at)
        self.subscribed[entry.subscribed] += 1
        self._families[entry.family] += 1
        self._given += entry.given
        there = self._epochs.get(entry.epoch)
        if there is None:
            there = self._epochs[entry.epoch] = _AtEpoch()
            insort(self._numbers, entry.epoch)
        insort(there.acks, entry.acked_at)
        there.stages.setdefault(entry.stage, {})[member.member_id] = member
        self._note(member.member_id)

    def _leave(self, member_id: str) -> _Entry | None:
        entry = self._entries.pop(member_id, None)
        if entry is None:
            return None
        del self._joined[bisect_left(self._joined, entry.joined_at)]
        _count_down(self.subscribed, entry.subscribed)
        _count_down(self._families, entry.family)
        self._given -= entry.given
        there = self._epochs[entry.epoch]
        del there.acks[bisect_left(there.acks, entry.acked_at)]
        del there.stages[entry.stage][member_id]
        if not there.acks:
            del self._epochs[entry.epoch]
            del self._numbers[bisect_left(self._numbers, entry.epoch)]
        self._note(member_id)
        return entry

    def _note(self, member_id: str) -> None:
        if self.moved is not None:
            self.moved = self._noted(self.moved, (member_id,))
        if self.lived is not None:
            self.lived = self._noted(self.lived, (member_id,))

    def _noted(self, noted: dict[str, None], ids: Iterable[str]) -> dict[str, None] | None:
        noted.update(dict.fromkeys(ids))
        return noted if len(noted) <= 2 * len(self) + _ROOM else None


def roster_of(state: GroupState) -> Roster:
    """Return the members of an epoch-based group with their index."""
    members = state.members
    if not isinstance(members, Roster):
        members = state.members = Roster(members)
    return members


def joined_before(state: GroupState, at: int) -> int:
    """Count the members that joined before `at` (ms); those of a classic group are all in each record."""
    members = state.members
    if isinstance(members, Roster):
        return members.joined_before(at)
    return sum(member.joined_at < at for member in members)


def _count_down(counts: Counter[str], name: str) -> None:
    counts[name] -= 1
    if not counts[name]:
        del counts[name]
