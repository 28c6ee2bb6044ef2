"""When members last committed, and whether records wait for them, by the positions that groups publish.

A summary is made when the group changes, so what it says of commits is of then. Positions come every few
seconds while a group commits. Each partition of a member has one, and the ends of its topic say when the
record after it was written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rebalance_monitor.coordinator.deadlines.not_rejoined import Commits
from rebalance_monitor.coordinator.deadlines.rejoining import NOTHING, UNKNOWN
from rebalance_monitor.coordinator.lag.committing import Committing, committing
from rebalance_monitor.coordinator.lag.owners import CUT, partitions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from rebalance_monitor.coordinator.lag.board import Board
    from rebalance_monitor.coordinator.lag.committing import Find

    Came = Callable[[str, int, int, int], int | None]

LATE_MS = 8_000
"""A commit is in the positions so late at most: they are published every five seconds, batch by batch."""


def last_commits(board: Board, group: str, summary: Mapping[str, Any]) -> dict[str, Commits]:
    """Return member id -> what the positions of its partitions say, for the members of a summary."""
    consumed = board.groups.get(group)
    find = Committing(-1).find() if consumed is None else committing(consumed).find()
    return {
        str(one["member_id"]): _commits(find, board.next_at, list(_places(one)), one)
        for one in summary.get("member_list", ())
    }


def _places(member: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    for topic, ranges in member.get("assigned", {}).items():
        for partition in partitions(ranges):
            yield topic, partition


def _commits(find: Find, came: Came, places: list[tuple[str, int]], member: Mapping[str, Any]) -> Commits:
    found = [(place, position) for place in places if (position := find(*place)) is not None]
    last = max((position.at for _, position in found), default=-1)
    times = [came(*place, position.offset, position.at) for place, position in found]
    waiting = [at for at in times if at is not None and at >= 0]
    if waiting:
        return Commits(last, min(waiting))
    is_cut = len(found) != member.get("partitions") or any(CUT in one for one in member["assigned"].values())
    return Commits(last, UNKNOWN if is_cut or not found or None in times else NOTHING)
