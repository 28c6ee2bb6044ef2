"""When positions leave the coordinator: of each group that committed, at most once in `PUBLISH_MS`.

All that is due within a second leaves together, at its end. Most clients commit every five seconds: positions
that left a moment sooner were those of the commit before, and the next ones came as soon again.

A group without a record of its own (its consumers assign themselves partitions, or an application stores
offsets under a name) has no state but its positions. There may be any number of such names, so a shard keeps
the names that committed last. While history is read every group may be one of them still.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rebalance_monitor.coordinator.commits import positions
from rebalance_monitor.coordinator.findings.outputs import PositionsOut
from rebalance_monitor.coordinator.state.positions import Positions
from rebalance_monitor.decoders import decode_record

if TYPE_CHECKING:
    from rebalance_monitor.coordinator.state.group_state import GroupState
    from rebalance_monitor.coordinator.state.shard_state import ShardState

PUBLISH_MS, TOGETHER_MS = 5_000, 1_000
WAIT_MS = 1_500
"""A group that is not touched when its positions are due may be soon: decoding it is the dearest part."""

MAX_LONE = 200
MAX_LONE_IN_HISTORY = 10_000
MAX_LONE_BYTES, MOST_LONE_BYTES = 16_384, 262_144
"""Of a group without a record of its own: some 800 partitions, and some 13,000 where a shard has room."""


def due_at(now: int) -> int:
    """Return the clock (ms) from which on positions are published that come after a clock of `now`."""
    return -(-(now + PUBLISH_MS) // TOGETHER_MS) * TOGETHER_MS


def on_commits(shard: ShardState, group: str) -> None:
    """Publish the positions of a group that has committed or lost some, unless they are due already."""
    shard.unpublished.setdefault(group, due_at(shard.now))


def on_lone_commits(shard: ShardState, group: str, at: int, parts: tuple[bytes, bytes]) -> None:
    """Keep a commit run of a group without a record of its own."""
    text = shard.lone.pop(group, "")
    held = positions.read(text) if text else Positions(lone=True)
    positions.take_commits(held, at, *parts)
    _keep_lone(shard, group, held)


def on_marker(shard: ShardState) -> None:
    """Note that one offset is missing behind the last commit, as where a transaction has ended."""
    if shard.catching_up_until is None and shard.committing not in shard.marked:
        shard.marked.append(shard.committing)
        on_commits(shard, shard.committing)


def on_tombstone(shard: ShardState, group: str, state: GroupState | None, at: int, key: bytes) -> None:
    """Forget the position of an offset that expired or was deleted at `at` (ms); `key`: its record's key."""
    if state is None and group not in shard.lone:
        return
    found = decode_record(key, None).key
    topic, partition = getattr(found, "topic", None), getattr(found, "partition", -1)
    if topic is None:
        return
    if state is not None:
        positions.drop(state.positions, at, topic, partition)
        on_commits(shard, group)
        return
    held = positions.read(shard.lone.pop(group))
    positions.drop(held, at, topic, partition)
    _keep_lone(shard, group, held)


def adopt(shard: ShardState, group: str, state: GroupState) -> None:
    """Give a group that has a record of its own from now on the positions that it had without one."""
    text = shard.lone.pop(group, "")
    if text:
        state.positions = positions.read(text)
        state.positions.lone = False
        if group not in shard.unpublished:
            shard.unpublished = {group: -1, **shard.unpublished}


def forget(shard: ShardState, group: str) -> None:
    """Forget that the positions of a removed group are due: a churn of groups leaves nothing behind."""
    shard.unpublished.pop(group, None)
    if group in shard.marked:
        shard.marked.remove(group)


def publish(shard: ShardState, reader: int) -> list[PositionsOut]:
    """Return the positions that are due; all of them to a `reader` that has seen none. None in history."""
    if shard.catching_up_until is not None:
        return []
    _trim(shard, MAX_LONE)
    if reader != shard.reader:
        shard.reader = reader
        shard.unpublished |= dict.fromkeys((*shard.groups, *shard.lone), -1)
    now, live, due = shard.now, shard.groups.live, []
    for group, at in shard.unpublished.items():
        if at > now:
            # They stand in the order of their times.
            break
        if group in live or at <= now - WAIT_MS:
            due.append(group)
    return [out for group in sorted(due) if (out := _published(shard, group)) is not None]


def _published(shard: ShardState, group: str) -> PositionsOut | None:
    """Return what is published of a group, None where nothing was ever committed to it."""
    del shard.unpublished[group]
    is_marked = group in shard.marked
    if is_marked:
        shard.marked.remove(group)
    state = shard.groups.get(group)
    if state is None:
        return _published_lone(shard, group, is_marked=is_marked)
    held = state.positions
    held.marked |= is_marked
    return PositionsOut(group, positions.copied(held)) if held.runs or held.table else None


def _published_lone(shard: ShardState, group: str, *, is_marked: bool) -> PositionsOut | None:
    text = shard.lone.get(group)
    if text is None:
        return None
    held = positions.read(text)
    if is_marked:
        held.marked = True
        shard.lone[group] = positions.published(held)
    return PositionsOut(group, held)


def _keep_lone(shard: ShardState, group: str, held: Positions) -> None:
    if held.size + len(held.table) > MAX_LONE_BYTES:
        positions.merge(held)
    if _has_room(shard, len(held.table)):
        on_commits(shard, group)
        shard.lone[group] = positions.published(held)
    else:
        shard.lone_dropped += 1
    _trim(shard, MAX_LONE if shard.catching_up_until is None else MAX_LONE_IN_HISTORY)


def _has_room(shard: ShardState, size: int) -> bool:
    """Whether positions of `size` bytes are kept: large ones are as long as all of a shard stay in bounds."""
    if size <= MAX_LONE_BYTES:
        return True
    return size <= MOST_LONE_BYTES and size + sum(map(len, shard.lone.values())) <= MAX_LONE * MAX_LONE_BYTES


def _trim(shard: ShardState, most: int) -> None:
    while len(shard.lone) > most:
        gone = next(iter(shard.lone))
        del shard.lone[gone]
        forget(shard, gone)
        shard.lone_dropped += 1
