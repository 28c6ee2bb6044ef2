"""Faults that need no broker: a churn of groups leaves nothing behind, a clock that jumps accuses nobody."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from rebalance_monitor.coordinator.findings.finding import from_json
from rebalance_monitor.coordinator.settings import DetectionSettings
from rebalance_monitor.engine.batch.step import Plan, step
from tests.coordinator.support.timeline import T0, Client, Topic

if TYPE_CHECKING:
    from rebalance_monitor.checkpoints.state.codec import Stored
    from rebalance_monitor.decoders import rows

PLAN = Plan(DetectionSettings(), "c", {})
HOUR = 3_600_000
GROUPS = 12_000
AT_ONCE = 2_000


def churn(group: str, first_offset: int, at: int) -> list[rows.Row]:
    """A group that is born, lives for a commit and is deleted."""
    topic = Topic(group=group, shard=0)
    topic.generation(at, 1, [Client("a-1", (0, 1))])
    topic.commit(at + 10, {0: 1})
    topic.generation(at + 20, 2, [])
    topic.tombstone(at + 30)
    moved = [replace(row, first_offset=row.first_offset + first_offset) for row in topic.rows]
    return [replace(row, last_offset=row.last_offset + first_offset) for row in moved]


def test_twelve_thousand_groups_born_and_removed_leave_the_state_as_it_was() -> None:
    stored: Stored | None = None
    sizes, offset = [], 0
    for first in range(0, GROUPS, AT_ONCE):
        batch = []
        for number in range(first, first + AT_ONCE):
            batch += churn(f"born-{number}", offset, first // AT_ONCE * 1_000)
            offset = batch[-1].last_offset + 1
        now = T0 + first // AT_ONCE * 1_000 + 10_000
        stored, _ = step(PLAN, 0, 0, batch, now, stored, ticks=True)
        sizes.append(len(stored.blob))
    assert max(sizes[1:]) < 2 * sizes[0] + 1_000
    assert max(sizes) < 4_096


@pytest.mark.parametrize("jump", [HOUR, -HOUR])
def test_a_clock_that_jumps_an_hour_changes_no_finding_of_records(jump: int) -> None:
    topic = two_members()
    steady, jumped = told(topic, 0), told(topic, jump)
    assert steady == [("rebalance", 1), ("rebalance", 2)]
    assert jumped == steady


def test_a_lone_member_is_suspected_by_no_clock_that_jumps() -> None:
    topic = Topic(group="g", shard=0)
    topic.generation(0, 1, [Client("a-1", (0, 1))])
    for at in range(1_000, 20_000, 1_000):
        topic.commit(at, {0: 1, 1: 1})
    assert told(topic, -HOUR) == told(topic, HOUR) == told(topic, 0) == [("rebalance", 1)]


def two_members() -> Topic:
    topic = Topic(group="g", shard=0)
    topic.generation(0, 1, [Client("a-1", (0,)), Client("b-1", (1,))])
    for at in range(1_000, 20_000, 1_000):
        topic.commit(at, {0: 1, 1: 1})
    topic.generation(20_000, 2, [Client("a-1", (0,)), Client("b-1", (1,)), Client("c-1", (2,))])
    return topic


def told(topic: Topic, jump: int) -> list[tuple[str, int | None]]:
    """What one batch a second tells, with the driver's clock moved by `jump` ms after the tenth."""
    stored: Stored | None = None
    found = []
    for number in range(25):
        now = T0 + number * 1_000 + (jump if number > 10 else 0)
        due = [r for r in topic.rows if number * 1_000 - 1_000 < r.record_ts - T0 <= number * 1_000]
        stored, out = step(PLAN, 0, 0, due, now, stored, ticks=True)
        found += [from_json(row.body) for row in out if row.row_kind == "finding"]
    return [(finding.kind.value, finding.generation) for finding in found]
