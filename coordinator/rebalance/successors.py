"""Dynamic members that join in the place of an expired one: a restarted process, or one that was blocked.

The order of records decides. A process that joins before the session of its old member has ended was
restarted: a live one knows its member. One that joins after it may have been restarted, or lives on and was
blocked or cut off for longer than its session: kafkajs heartbeats between messages, aiokafka in an event
loop, and every client stops while its machine does. Both causes stand then, unless a Java client's number
went up: it counts the consumers of one process. A member of a KIP-848 group keeps its id for the life of its
process. The same client id on the same host is taken for the same process or the next one.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from rebalance_monitor.coordinator.commits.client_families import consumer_number, instance_of, process_of
from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.finding import CauseEntry
from rebalance_monitor.coordinator.findings.wording import seconds

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rebalance_monitor.coordinator.departure.verdicts import Departure
    from rebalance_monitor.coordinator.state.group_state import GroupState, Member
    from rebalance_monitor.coordinator.state.membership import Change

    Expired = list[str | int | float]
    """Member id, client id, host, when it was removed (ms), how sure it is that its session had ended."""

_KEPT, _WINDOW_MS = 50, 3_600_000
_LEAST, _EITHER, _SURE = 0.3, 0.45, 0.9


def causes(
    state: GroupState, change: Change, gone: Iterable[Departure], at: int, *, ordered: bool = True
) -> tuple[CauseEntry, ...]:
    """Return what became of the processes of members that joined in a rebalance that ended at `at` (ms).

    `gone`: its departed members. Those that expired are remembered until a successor joins. `ordered`: who
    joined in the same rebalance came before these were removed.
    """
    expired = [one for one in state.rebalances.expired if int(one[3]) > at - _WINDOW_MS]
    removed = at if ordered else at - 1
    now = [_expired(departure, removed) for departure in gone if _sure(departure) >= _LEAST]
    earlier, lately = _Predecessors(expired), _Predecessors(now)
    ids, found = {str(one[0]) for one in (*expired, *now)}, []
    for member in change.joined:
        # The number of a thread of Kafka Streams says nothing of its process; an id that is back does.
        thread = instance_of(member.client_id) != member.client_id and member.member_id not in ids
        if member.instance_id is not None or thread:
            continue
        found += _taken(lately, member, at) or _taken(earlier, member, at)
    state.rebalances.expired = [*earlier.left(), *lately.left()][-_KEPT:]
    return tuple(found)


class _Predecessors:
    """Expired members by client and host, each taken once: a whole fleet may expire and join again."""

    def __init__(self, expired: list[Expired]) -> None:
        self._expired = expired
        self._taken: set[int] = set()
        self._at_place: dict[tuple[str, str], deque[int]] = {}
        self._by_client: dict[tuple[str, str], deque[int]] = {}
        newest_first = sorted(range(len(expired)), key=lambda index: -int(expired[index][3]))
        for index in newest_first:
            client, host = str(expired[index][1]), str(expired[index][2])
            self._at_place.setdefault((process_of(client), host), deque()).append(index)
            self._by_client.setdefault((client, host), deque()).append(index)

    def take(self, member: Member) -> Expired | None:
        """Take the newest of the same client and host: with the same client id, if there is one."""
        alike = self._next(self._by_client.get((member.client_id, member.host)))
        if alike is None and self._at_place:
            alike = self._next(self._at_place.get((process_of(member.client_id), member.host)))
        if alike is None:
            return None
        self._taken.add(alike)
        return self._expired[alike]

    def left(self) -> list[Expired]:
        """Return those that nobody has taken, in their order."""
        return [one for index, one in enumerate(self._expired) if index not in self._taken]

    def _next(self, indexes: deque[int] | None) -> int | None:
        while indexes:
            if (index := indexes.popleft()) not in self._taken:
                return index
        return None


def _taken(expired: _Predecessors, member: Member, at: int) -> list[CauseEntry]:
    """Take the predecessor of a member out of those that expired, and say what became of its process."""
    before = expired.take(member)
    if before is None:
        return []
    joined_before = before[3] == at and before[0] != member.member_id
    return _restarted(before, member) if joined_before else _either(before, member, at)


def _sure(departure: Departure) -> float:
    """Return how sure it is that a departed dynamic member's session had ended."""
    dynamic = departure.member.instance_id is None
    likely = departure.causes[0]
    return likely.confidence if dynamic and likely.cause is Cause.SESSION_TIMEOUT else 0.0


def _expired(departure: Departure, at: int) -> Expired:
    member = departure.member
    return [member.member_id, member.client_id, member.host, at, _sure(departure)]


def _restarted(before: Expired, member: Member) -> list[CauseEntry]:
    if consumer_number(member.client_id) > consumer_number(str(before[1])):
        return []
    why = "it joined before the session of a member of its client id and host had ended: a restarted process"
    return [CauseEntry.of(member, Cause.MEMBER_RESTARTED, min(_SURE, float(before[4])), why)]


def _either(before: Expired, member: Member, at: int) -> list[CauseEntry]:
    ago = seconds(at - int(before[3]))
    same = "it is the member" if before[0] == member.member_id else ""
    if not same and consumer_number(member.client_id) > consumer_number(str(before[1])):
        same = "by the number in its client id it is the process"
    if same:
        why = f"{same} that expired {ago} before: blocked, paused or cut off for longer than its session"
        return [CauseEntry.of(member, Cause.MEMBER_BLOCKED, min(_SURE, float(before[4])), why)]
    why = f"it joined {ago} after a member of its client id and host had expired"
    lives = f"{why}: or its process lives on, and was blocked, paused or cut off for longer than its session"
    share = min(_EITHER, round(float(before[4]) / 2, 2))
    return [
        CauseEntry.of(member, Cause.MEMBER_RESTARTED, share, f"{why}: perhaps its process was restarted"),
        CauseEntry.of(member, Cause.MEMBER_BLOCKED, share, lives),
    ]
