"""Epoch-based groups (KIP-848 consumer, share and streams groups): records into state.

Every membership change bumps the group epoch, so one `rebalance` here is one convergence: from the first
bump until every member has acknowledged the newest target epoch (`convergence.py` reports it).

- Tombstones are written the moment a member leaves or is fenced, without a join phase, so the length of a
  silence is exact.
- Session timeouts are in no record: they are broker configuration.
- Records of consumer groups hold topic ids, commits hold names. So a commit belongs to a member only if the
  group subscribes to one topic, or if `topic_names.py` has resolved the ids.
- Streams groups (KIP-1071) assign tasks; the topology record names their source topics. If it was written
  after a member's last assignment, that member's commits are not known before its next one.
- Members of share groups commit nothing to this topic.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rebalance_monitor.coordinator.commits import client_families
from rebalance_monitor.coordinator.deadlines import silent_members, stuck_rebalances
from rebalance_monitor.coordinator.deadlines.member_deadlines import AWAY
from rebalance_monitor.coordinator.lifecycle import close_incidents, empty_groups
from rebalance_monitor.coordinator.modern import convergence, fencing, lost_tombstones
from rebalance_monitor.coordinator.rebalance import baselines, group_metadata, subscriptions
from rebalance_monitor.coordinator.state.group_state import OF_MEMBER, Member
from rebalance_monitor.coordinator.state.roster import roster_of
from rebalance_monitor.coordinator.state.state_machine import SETTLED, Status
from rebalance_monitor.coordinator.storms import rolling_restarts, storm

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rebalance_monitor.coordinator.context import Scene
    from rebalance_monitor.coordinator.findings.finding import Finding
    from rebalance_monitor.coordinator.state.group_state import GroupState
    from rebalance_monitor.decoders import Decoded

CONSUMER, STREAMS = "consumer", "streams"
GROUP_TYPES = {
    **dict.fromkeys((3, 4, 5, 6, 7, 8, 16), CONSUMER),
    **dict.fromkeys((9, 10, 11, 12, 13, 14, 15), "share"),
    **dict.fromkeys((17, 19, 20, 21, 22, 23), STREAMS),
}
"""Record type -> group type."""

_GROUP_RECORDS = frozenset({3, 11, 17})
_MEMBER_RECORDS = frozenset({5, 10, 19})
_CURRENT_RECORDS = frozenset({8, 14, 22})
_TARGET_RECORDS = frozenset({6, 12, 20})
_CLOSING_RECORDS = _GROUP_RECORDS | _TARGET_RECORDS | _CURRENT_RECORDS
"""With these a write may end; a member's own record or tombstone is followed by one of them in the same."""

_TOPIC_RECORDS = frozenset({4, 9})
"""A group's topics, which a hash replaced in 4.1; written when they change."""

_PATTERN_RECORD, _TOPOLOGY_RECORD = 16, 23
_OF_GROUP = -1
"""`version` of a member that has the session timeout of its group."""

_GOING = -2
"""The target epoch of a group that goes as a whole, from the target's tombstone on."""


def is_group_tombstone(found: Decoded) -> bool:
    """Whether this record is the tombstone of a whole group."""
    return found.type in _GROUP_RECORDS and found.value is None


def on_record(state: GroupState, found: Decoded, scene: Scene) -> list[Finding]:
    """Take one record (no group's tombstone) into `state`; returns what it completes."""
    kind = GROUP_TYPES[found.type]
    out: list[Finding] = []
    if state.group_type != kind:
        out = close_incidents.begin_anew(state, scene, kind)
        state.protocol_type = kind
        state.status = Status.EMPTY
    if state.offset < scene.whole_since:
        state.epochs.unread_at = state.ts
    state.ts, state.offset, state.live = scene.ts, scene.offset, not scene.history
    state.subscriptions.committed, state.subscriptions.committed_at = [], -1
    if found.value is None and (found.type in _TARGET_RECORDS or state.epochs.target == _GOING):
        # Only the end of a group writes it, before its members' tombstones: none of them left.
        state.epochs.target = _GOING
        return out
    out += _taken(state, found, scene)
    before, state.status = state.status, convergence.api_status(state, scene.ts)
    if not state.changes.bumps and before in SETTLED:
        # A member that asks for other topics may give up partitions before the epoch is bumped (4.2).
        state.epochs.bumped_at = scene.ts
    if found.value is None or found.type not in _CLOSING_RECORDS:
        return out
    return out + convergence.on_status(state, before, scene)


def _taken(state: GroupState, found: Decoded, scene: Scene) -> list[Finding]:
    """Take what one record says of the group or of a member."""
    if found.type in _MEMBER_RECORDS:
        return _member(state, found.key, found.value, scene)
    if found.type in _CURRENT_RECORDS and found.value is not None:
        return _acknowledged(state, found.key, found.value, scene)
    if found.type in _GROUP_RECORDS:
        _bumped(state, found.value, scene)
    elif found.type == _PATTERN_RECORD:
        subscriptions.resolve(state, found.key, found.value, scene.ts)
    elif found.type in _TOPIC_RECORDS:
        state.changes.rehashed |= found.value is not None
    elif found.type == _TOPOLOGY_RECORD:
        state.subscriptions.aliases = _sources(found.value)
    elif found.type in _TARGET_RECORDS:
        stuck_rebalances.retarget(state, _number(found.value, "assignment_epoch"), scene.ts)
    return []


def on_clock(state: GroupState, scene: Scene) -> list[Finding]:
    """Set the current session timeout of members, and drop members whose tombstone will never be read.

    A member of the classic protocol has its own session timeout.
    """
    usual, _ = scene.settings.session_timeout(scene.group, state.group_type)
    for member in state.members:
        if member.version == _OF_GROUP and member.session_timeout != usual:
            member.session_timeout, state.dirty = usual, True
    return lost_tombstones.drop(state, scene) + empty_groups.settle(state, scene)


def _bumped(state: GroupState, value: object, scene: Scene) -> None:
    if _number(value, "epoch") == state.generation:
        # A streams group notes there, too, which topology's description is stored (4.4).
        return
    subscriptions.bumped(state, scene.ts)
    state.generation = _number(value, "epoch")
    # Compaction may have left the old target's tombstone, and not the old group's.
    state.epochs.target = max(state.epochs.target, -1)
    usual, _ = scene.settings.session_timeout(scene.group, state.group_type)
    baselines.count_members(state, scene, usual)
    digest = _number(value, "metadata_hash")
    state.changes.rehashed |= state.epochs.metadata_hash not in {0, digest} and digest != 0
    state.epochs.metadata_hash = digest
    if not state.changes.bumps:
        state.epochs.bumped_at = scene.ts
    state.changes.bumps += 1
    state.dirty = True


def _member(state: GroupState, key: object, value: object | None, scene: Scene) -> list[Finding]:
    member_id, members = _text(key, "member_id"), roster_of(state)
    before = members.find(member_id)
    state.dirty = True
    if value is None:
        rolling_restarts.note_size(state, scene, scene.ts)
        if before is None:
            return []
        members.take_out(member_id)
        subscriptions.leave(state, before.subscribed)
        causes = fencing.note_departure(state, before, scene)
        resolved = silent_members.on_sign(state, scene, before, gone=True)
        return resolved + storm.note_departure(state, scene, before, causes)
    now = _described(state, member_id, value, scene, before)
    if before is None and (state.rebalances.migrated <= 0 or now.version == _OF_GROUP):
        # A member of the classic protocol came with the group that was migrated.
        state.changes.newcomers.add(member_id)
    elif before and before.subscribed not in {"", now.subscribed}:
        state.changes.resubscribed.add(member_id)
    members.put(now)
    subscriptions.note(state, value, now.subscribed, before.subscribed if before else now.subscribed)
    return []


def _described(
    state: GroupState, member_id: str, value: object | None, scene: Scene, before: Member | None
) -> Member:
    """Return the member as its metadata record describes it, if it was read, with the trace it had."""
    classic: Any = getattr(value, "classic_member_metadata", None)
    usual, _ = scene.settings.session_timeout(scene.group, state.group_type)
    session = max(0, getattr(classic, "session_timeout_ms", 0))
    fresh = Member(
        member_id=member_id,
        instance_id=_optional(value, "instance_id"),
        client_id=_text(value, "client_id"),
        host=_text(value, "client_host"),
        host_stale=False,
        session_timeout=session or usual,
        rebalance_timeout=_number(value, "rebalance_timeout_ms"),
        family=_family(state, member_id, value),
        version=OF_MEMBER if session else _OF_GROUP,
        subscribed="" if value is None else subscriptions.digest(value),
        joined_at=scene.ts,
    )
    if before is None:
        return fresh
    for name in Member.__struct_fields__:
        if name not in _DESCRIBED:
            setattr(fresh, name, getattr(before, name))
    return fresh


def _family(state: GroupState, member_id: str, value: object | None) -> str:
    classic: Any = getattr(value, "classic_member_metadata", None)
    if getattr(classic, "session_timeout_ms", 0) > 0:
        return group_metadata.spoken(
            _text(value, "client_id"), _number(value, "rebalance_timeout_ms"), classic
        )
    if state.group_type == STREAMS:
        return client_families.STREAMS_1071
    return client_families.recognise_848(member_id) if state.group_type == CONSUMER else "unknown"


_DESCRIBED = frozenset(
    {
        "instance_id",
        "client_id",
        "host",
        "session_timeout",
        "rebalance_timeout",
        "family",
        "member_id",
        "subscribed",
        "version",
    }
)


def _acknowledged(state: GroupState, key: object, value: object, scene: Scene) -> list[Finding]:
    member_id, members = _text(key, "member_id"), roster_of(state)
    member = members.find(member_id)
    if member is None:
        # What describes it was not read: it stands behind its epochs in a compacted log, before the beginning
        # of a recording, or could not be decoded.
        member = _described(state, member_id, None, scene, None)
        members.put(member)
    state.dirty = True
    member.epoch, member.acked_at = _number(value, "member_epoch"), scene.ts
    # Kafka counts the states of streams members from 1, those of the others from 0.
    found = _number(value, "state") - (state.group_type == STREAMS)
    # A member that announces its departure keeps its state, and has nothing more to give up.
    member.epoch_state = 0 if member.epoch == AWAY else found
    _assign(state, member, _given(state, value))
    members.renew(member)
    return silent_members.on_sign(state, scene, member, gone=False)


def _sources(value: object) -> dict[str, list[str]]:
    """Return subtopology -> topics that its tasks read and commit: sources and repartition topics."""
    parts: Any = getattr(value, "subtopologies", ())
    return {
        part.subtopology_id: [*part.source_topics, *(topic.name for topic in part.repartition_source_topics)]
        for part in parts
    }


def _given(state: GroupState, value: object) -> list[tuple[str, Iterable[int]]]:
    """Return (topic, partitions) that a member has now: ids of a consumer group's topics, else names.

    A task reads its own number's partition of all topics of its subtopology.
    """
    if state.group_type == CONSUMER:
        found: Any = getattr(value, "assigned_partitions", ())
        return [(item.topic_id.hex(), item.partitions) for item in found]
    tasks: Any = getattr(value, "active_tasks", ()) if state.group_type == STREAMS else ()
    return [
        (topic, task.partitions)
        for task in tasks
        for topic in state.subscriptions.aliases.get(task.subtopology_id, ())
    ]


def _assign(state: GroupState, member: Member, given: list[tuple[str, Iterable[int]]]) -> None:
    """Set the current partitions of the member; it keeps the offsets of partitions that stay."""
    kept = dict(zip(_flat(member), member.offsets, strict=True))
    member.assigned = []
    for topic, partitions in given:
        if topic not in state.topics:
            state.topics.append(topic)
        member.assigned.append([state.topics.index(topic), *partitions])
    member.offsets = [kept.get(where, -1) for where in _flat(member)]


def _flat(member: Member) -> list[tuple[int, int]]:
    return [(topic, partition) for topic, *given in member.assigned for partition in given]


def _number(value: object, name: str) -> int:
    found: Any = getattr(value, name, -1)
    return -1 if found is None else int(found)


def _text(value: object, name: str) -> str:
    return str(getattr(value, name, "") or "")


def _optional(value: object, name: str) -> str | None:
    found: Any = getattr(value, name, None)
    return None if found is None else str(found)
