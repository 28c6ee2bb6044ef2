"""Members that are to blame for a rebalance: they stopped polling, missed a deadline, or keep expiring.

An expired member is identified by its client id. If a member of the same client id has expired on the same
host, the host counts too: a pod that is created anew comes from another host. If several processes share a
client id, the member belongs to the process that had expired before it joined.

The first and second expiry are a crash, or a deployment that lets members send no LeaveGroup. From the third
within an hour on it is a crash loop, however slow: in a group with many members, each is lost only now and
then. Clients that never send LeaveGroup do not count, because a planned stop of theirs is the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rebalance_monitor.coordinator.commits.client_families import FAMILIES
from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.finding import CLAIMED

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from rebalance_monitor.coordinator.findings.finding import CauseEntry
    from rebalance_monitor.coordinator.state.group_state import Member, StormState

WINDOW_MS = 3_600_000
AGAIN = 3
_CLIENTS_KEPT = 200
_ADDRESS = "/"
# Stands before an instance id in `expired`; no client id begins with it.
_INSTANCE = "\t"
_EXPIRED = frozenset({Cause.SESSION_TIMEOUT, Cause.STATIC_MEMBER_EXPIRED})
_FAULTS = frozenset({Cause.POLL_INTERVAL_EXCEEDED, Cause.JOIN_DEADLINE_MISSED, Cause.SYNC_DEADLINE_MISSED})


def is_fault(storm: StormState, left: Iterable[Member], causes: Sequence[CauseEntry], at: int) -> bool:
    """Whether a member that departed by `at` (ms) is to blame; remembers which clients expired."""
    again = _again(storm, left, causes, at)
    return again or any(entry.cause in _FAULTS and entry.confidence >= CLAIMED for entry in causes)


def since(storm: StormState, began: int) -> int:
    """Return of how many clients, or instance ids, a member has expired from `began` (ms) on."""
    return sum(bool(times) and times[-1] >= began for times in storm.expired.values())


def instances(storm: StormState, began: int) -> list[str]:
    """Return the instance ids of the static members that have expired from `began` (ms) on."""
    return [
        name.removeprefix(_INSTANCE)
        for name, times in storm.expired.items()
        if name.startswith(_INSTANCE) and times and times[-1] >= began
    ]


def _again(storm: StormState, left: Iterable[Member], causes: Sequence[CauseEntry], at: int) -> bool:
    """Note which departed members have expired by `at` (ms); return whether one does so again and again."""
    sure = {entry.member_id for entry in causes if entry.cause in _EXPIRED and entry.confidence >= CLAIMED}
    again = False
    for member in left:
        static = member.instance_id is not None
        if member.member_id in sure and (static or FAMILIES[member.family].says_goodbye):
            name = f"{_INSTANCE}{member.instance_id}" if static else _process(storm, member, at)
            recent = add_occurrences(storm.expired, [name], at, WINDOW_MS, AGAIN)
            storm.expired = dict(list(recent.items())[-_CLIENTS_KEPT:])
            # A static member that is restarted slowly expires each time.
            again |= not static and len(storm.expired[name]) >= AGAIN
    return again


def _process(storm: StormState, member: Member, at: int) -> str:
    """Name the process that was this member, which expired by `at` (ms), as state knows it.

    In epoch-based groups it may be back as another member up to a session before the old one has expired.
    """
    name = f"{member.client_id} {member.host}"
    for whose in (f"{name} ", f"{member.client_id} {_ADDRESS}"):
        ends = {one: times[-1] for one, times in storm.expired.items() if f"{one} ".startswith(whose)}
        for came in (member.joined_at, member.joined_at + member.session_timeout):
            before = [one for one, end in ends.items() if end <= min(came, at - 1)]
            if before:
                return max(before, key=lambda one: ends[one])
    return f"{name} {member.member_id}" if name in storm.expired else name


def add_occurrences(
    memory: Mapping[str, Sequence[int]], names: Iterable[str], at: int, window_ms: int, kept: int
) -> dict[str, list[int]]:
    """Return the memory with one more `at` (ms) of each of `names`: name -> times, oldest first.

    Each name keeps its newest `kept` times within the window. The names of this call come last.
    """
    since = at - window_ms
    within = {name: [one for one in times if since < one <= at] for name, times in memory.items()}
    recent = {name: times for name, times in within.items() if times}
    for name in names:
        recent[name] = [*recent.pop(name, ()), at][-kept:]
    return recent
