"""Kafka Connect's groups (protocol type `connect`, KIP-415): what their assignments say about causes.

- The config offset in an assignment moves when a connector or its tasks were reconfigured.
- A scheduled delay says that the leader waits for a lost worker before it assigns its tasks to others. If no
  worker was lost, the leader spaces out consecutive revocations (KAFKA-12495).
- Revoked tasks announce a second generation.
- Each worker's metadata holds the config offset that it has read. A worker that has read nothing, while
  others have, reads a config topic of its own: it belongs to another Connect cluster.

An assignment that cannot be read is no evidence.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.finding import CauseEntry
from rebalance_monitor.coordinator.findings.wording import seconds
from rebalance_monitor.decoders.embedded.connect import (
    ConnectAssignment,
    ConnectMetadata,
    decode_connect_assignment,
    decode_connect_metadata,
)

if TYPE_CHECKING:
    from rebalance_monitor.coordinator.state.group_state import GroupState
    from rebalance_monitor.decoders import GroupMetadataValue

PROTOCOL_TYPE = "connect"
_SLACK_MS = 10_000
_FOLLOW_UP_MS = 60_000
_MOVED, _STRANGER = 0.95, 0.93

Who = tuple[str, str, str, str | None]
"""Member id, client id, host, instance id."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """From one record: newest config offset (-1 none), scheduled delay in ms (0 none), tasks were revoked.

    `workers`: (worker, config offset that it has read), for workers with readable metadata.
    """

    offset: int = -1
    delay: int = 0
    revoked: bool = False
    workers: tuple[tuple[Who, int], ...] = ()


NO_EVIDENCE = Evidence()
"""Of a record of any other group."""


def is_connect(value: GroupMetadataValue) -> bool:
    """Whether a record is of a group of Connect workers."""
    return value.protocol_type == PROTOCOL_TYPE


def read(value: GroupMetadataValue) -> Evidence:
    """Read what all workers' assignments of one record say."""
    decoded = [decode_connect_assignment(member.assignment) for member in value.members]
    given = [assignment for assignment in decoded if isinstance(assignment, ConnectAssignment)]
    return Evidence(
        offset=max((assignment.config_offset for assignment in given), default=-1),
        delay=max((assignment.delay for assignment in given), default=0),
        revoked=any(assignment.revoked for assignment in given),
        workers=tuple(
            ((one.member_id, one.client_id, one.client_host, one.group_instance_id), metadata.config_offset)
            for one in value.members
            if isinstance(metadata := decode_connect_metadata(one.subscription), ConnectMetadata)
        ),
    )


def causes(state: GroupState, now: Evidence, cst: int, *, same: bool, lost: bool) -> list[CauseEntry]:
    """Causes of the generation after `state`'s.

    `same`: the members are the same as before; `lost`: at least one departed.
    """
    before, delay, revoked = state.connect
    found = _strangers(now, before)
    # The first offset may be the leader's session key, for which no worker rejoins, or the first connector.
    known = before >= 0 or (same and state.protocol_type == PROTOCOL_TYPE and bool(state.members))
    if known and now.offset > before:
        why = f"config offset moved from {before if before >= 0 else 'none'} to {now.offset}"
        found.append(CauseEntry(Cause.CONNECT_RECONFIGURED, _MOVED, why))
    if lost and now.delay > 0 and not delay:
        why = f"the leader waits {now.delay / 1000:g} s before it hands on a lost worker's tasks"
        found.append(CauseEntry(Cause.CONNECT_DELAYED, 0.7, why))
    if same and not found and delay and cst - state.ts >= delay - _SLACK_MS:
        why = f"the scheduled delay of {delay / 1000:g} s is over"
        found.append(CauseEntry(Cause.CONNECT_DELAYED, 0.9, why))
    if same and not found and revoked and cst - state.ts <= _FOLLOW_UP_MS:
        why = f"tasks are handed on that the generation {seconds(cst - state.ts)} before revoked"
        found.append(CauseEntry(Cause.COOPERATIVE_FOLLOW_UP, 0.9, why))
    if same and not found and _reconfigured(state) and cst - state.ts <= _FOLLOW_UP_MS:
        why = f"a worker catches up with config offset {before}, to which the generation before had moved"
        found.append(CauseEntry(Cause.CONNECT_RECONFIGURED, 0.7, why))
    return found


def _strangers(now: Evidence, before: int) -> list[CauseEntry]:
    """Name the workers that have read no configuration, though the generation `before` had some to read.

    A worker reads the whole config topic before it joins, and catches up before it starts its tasks. Only the
    leader's session key is in no worker's offset: the leader writes it as it starts.
    """
    newest = max((offset for _, offset in now.workers), default=-1)
    if newest < 0 or before < 0:
        return []
    why = f"has read none of the config topic (offset -1), others have up to offset {newest}"
    return [
        CauseEntry(Cause.CONNECT_CONFIGS_DIFFER, _STRANGER, f"worker {who[1]} {why}", *who)
        for who, offset in now.workers
        if offset < 0
    ]


def _reconfigured(state: GroupState) -> bool:
    """Whether the config offset had moved in the generation that `state` describes."""
    return any(
        cause == Cause.CONNECT_RECONFIGURED and float(share) >= _MOVED
        for cause, share in state.rebalances.causes
    )
