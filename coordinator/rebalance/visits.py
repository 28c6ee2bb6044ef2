"""Commits to a group without members (KIP-211). Once members join, the topics show who made the commits.

- An application that uses assign() with the same group id commits for topics that no member subscribes to.
  While the group has members the coordinator refuses its commits (`UNKNOWN_MEMBER_ID`). So it commits
  whenever the group is empty.
- A reset tool commits for the members' own topics.
- Commits just after the group has become empty are the last ones of its members.
- A client that was evicted for work that took too long commits what it did (aiokafka's without a member id,
  which an empty group accepts), and then polls, so that it joins again. Its commit goes forward.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rebalance_monitor.coordinator.commits import positions
from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.finding import CauseEntry
from rebalance_monitor.coordinator.findings.wording import counted, seconds

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from rebalance_monitor.coordinator.state.group_state import GroupState, Member

_MAX_TOPICS, _NAMED = 20, 3
_LEAST_REACH_MS = 3_000
"""The longest heartbeat interval of most clients: within it members may commit yet what they had before."""

_MOST_REACH_MS = 60_000

_RETURN_MS = 10_000
"""An evicted client that commits and joins again is in a generation so soon: a new group waits 3 s."""

_REPEATEDLY = 3
_RESET, _ANOTHER, _READY = 0.7, 0.8, 0.6
_BACK, _PERHAPS = 2, 0.1
_EVICTIONS = frozenset(
    {
        Cause.SESSION_TIMEOUT,
        Cause.POLL_INTERVAL_EXCEEDED,
        Cause.JOIN_DEADLINE_MISSED,
        Cause.SYNC_DEADLINE_MISSED,
    }
)


def reach(members: Iterable[Member]) -> int:
    """Return for how long (ms) after a rebalance members may commit what they owned before it.

    An application that commits on a timer does so until the timer's next turn. So the reach is the longest
    interval between the members' commits, within bounds.
    """
    longest = max((member.cadence for member in members), default=-1)
    return min(max(longest, _LEAST_REACH_MS), _MOST_REACH_MS)


def note(state: GroupState, at: int, topics: Iterable[str], back: Collection[str] = ()) -> None:
    """Take a commit at `at` (ms) for these topics to a group that has no members; of `back` it went back."""
    members_own, visits = {*state.topics, *state.subscriptions.names}, state.empty.visits
    for topic in topics:
        if topic in members_own and at <= state.cst + _LEAST_REACH_MS:
            continue
        last, times, own = visits.get(topic, (-1, 0, 0))
        if topic in visits or len(visits) < _MAX_TOPICS:
            whose = int(topic in members_own) * (_BACK if topic in back else 1)
            visits[topic] = [max(last, at), times + (at > last), max(own, whose)]


def were_evicted(state: GroupState) -> bool:
    """Whether the last members of an empty group may have been evicted, and live."""
    causes = state.rebalances.causes
    return any(cause in _EVICTIONS and float(share) >= _PERHAPS for cause, share in causes)


def causes(
    state: GroupState, since: int, until: int, asked: Collection[str] | None
) -> tuple[CauseEntry, ...]:
    """Name a reset tool or another application as the origin of commits between `since` and `until` (ms).

    `asked`: topics that the new members subscribe to. None if they could not be read; then no commit is
    claimed to be of another application.
    """
    evicted = were_evicted(state)
    recent = {
        topic: seen
        for topic, seen in state.empty.visits.items()
        if seen[0] > since and not (evicted and seen[2] == 1 and until - seen[0] <= _RETURN_MS)
    }
    own = [topic for topic, (*_, own) in recent.items() if own or asked is None or topic in asked]
    foreign = [topic for topic, (_, times, _) in recent.items() if times >= _REPEATEDLY and topic not in own]
    found = []
    if own:
        last = max(recent[topic][0] for topic in own)
        why = "offsets were committed while it had no members, "
        found.append(CauseEntry(Cause.OFFSETS_RESET, _RESET, why + _when(until - last, own)))
    if foreign:
        times = max(recent[topic][1] for topic in foreign)
        last = max(recent[topic][0] for topic in foreign)
        why = (
            f"{counted(times, 'commit')} without members, for topics that no member subscribes to, the last "
        )
        found.append(CauseEntry(Cause.GROUP_ID_SHARED, _ANOTHER, why + _when(until - last, foreign)))
    return tuple(found)


def before_members(state: GroupState, until: int, asked: Collection[str] | None) -> tuple[CauseEntry, ...]:
    """Report that offsets were committed before a new group had its first members, at `until` (ms).

    No member can have committed them. A tool did, the sync of another cluster (MirrorMaker), or consumers
    that use assign(). `asked`: the topics that the members subscribe to.
    """
    places = positions.places_of(state.positions)
    ready = [topic for topic in places if topic in (asked or ())]
    if not ready:
        return ()
    last = max(place.at for topic in ready for place in places[topic].values())
    why = f"offsets were committed before it ever had a member, {_when(until - last, ready)}"
    return (CauseEntry(Cause.OFFSETS_RESET, _READY, why),)


def unsubscribed(state: GroupState, asked: Collection[str]) -> list[str]:
    """Return the topics that were committed to while the group had members that have not `asked` for them.

    While a group has members, its coordinator accepts commits of two kinds of clients only: members, which
    may also use assign() for other topics, and transactional producers, whose requests need not name a
    member. A commit within reach of the rebalance may be of a member that subscribed to the topic before it.
    """
    since = max(state.cst, state.ts) + reach(state.members)
    places = positions.places_of(state.positions) if state.members and asked else {}
    return sorted(
        topic
        for topic, found in places.items()
        if topic not in asked and any(place.at > since for place in found.values())
    )


def forget(state: GroupState, asked: Collection[str] | None) -> None:
    """Forget the commits for topics that members subscribe to now."""
    state.empty.visits = {
        topic: seen
        for topic, seen in state.empty.visits.items()
        if asked is not None and topic not in asked and not seen[2]
    }


def _when(ago: int, topics: list[str]) -> str:
    more = f" and {len(topics) - _NAMED} more" if len(topics) > _NAMED else ""
    return f"{seconds(ago)} before: {', '.join(sorted(topics)[:_NAMED])}{more}"
