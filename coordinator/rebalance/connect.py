"""Kafka Connect's groups (protocol type `connect`, KIP-415): what their assignments say about causes.

The config offset in an assignment moves when a connector or its tasks were reconfigured; a delay says that
the leader waits for a lost worker before it hands its tasks on, or, where none was lost, that it spaces out
revocations that follow each other (KAFKA-12495); revoked tasks announce a second generation. What cannot be
read says nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.finding import CauseEntry
from rebalance_monitor.coordinator.findings.wording import seconds
from rebalance_monitor.decoders.embedded.connect import ConnectAssignment, decode_connect_assignment

if TYPE_CHECKING:
    from rebalance_monitor.coordinator.state.group_state import GroupState
    from rebalance_monitor.decoders import GroupMetadataValue

PROTOCOL_TYPE = "connect"
_SLACK_MS = 10_000
_FOLLOW_UP_MS = 60_000
_MOVED = 0.95


@dataclass(frozen=True, slots=True)
class Evidence:
    """From one record: newest config offset (-1 none), scheduled delay in ms (0 none), tasks were revoked."""

    offset: int = -1
    delay: int = 0
    revoked: bool = False


def read(value: GroupMetadataValue) -> Evidence:
    """Read what all workers' assignments of one record say."""
    if value.protocol_type != PROTOCOL_TYPE:
        return Evidence()
    decoded = [decode_connect_assignment(member.assignment) for member in value.members]
    given = [assignment for assignment in decoded if isinstance(assignment, ConnectAssignment)]
    return Evidence(
        offset=max((assignment.config_offset for assignment in given), default=-1),
        delay=max((assignment.delay for assignment in given), default=0),
        revoked=any(assignment.revoked for assignment in given),
    )


def causes(state: GroupState, now: Evidence, cst: int, *, same: bool, lost: bool) -> list[CauseEntry]:
    """Causes of the generation after `state`'s.

    `same`: its members are those of the one before; `lost`: at least one of these is gone.
    """
    found = []
    before, delay, revoked = state.connect
    # The first offset may be that of the leader's session key, for which nobody rejoins; else it is of the
    # first connector.
    known = before >= 0 or (same and state.protocol_type == PROTOCOL_TYPE and bool(state.members))
    if known and now.offset > before:
        why = f"config offset moved from {before} to {now.offset}"
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


def _reconfigured(state: GroupState) -> bool:
    """Whether the config offset had moved in the generation that `state` describes."""
    return any(
        cause == Cause.CONNECT_RECONFIGURED and float(share) >= _MOVED for cause, share in state.causes
    )
