"""No record takes a group along an edge that the table, and so the diagram, does not have."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from rebalance_monitor.cluster.captures.capture import read_capture
from rebalance_monitor.coordinator.findings.kinds import Kind
from rebalance_monitor.coordinator.settings import DetectionSettings
from rebalance_monitor.coordinator.shard import ShardCoordinator, new_shard_state
from rebalance_monitor.coordinator.state.state_machine import TRANSITIONS, Status
from rebalance_monitor.decoders import Row, decode_batch
from rebalance_monitor.decoders.rows import made_rows
from tests.coordinator.support.epochs import A, B, Epochs
from tests.coordinator.support.timeline import Topic, findings
from tests.coordinator.test_invariance import topics

FIXTURES = Path(__file__).parents[2] / "fixtures" / "scenarios"
EDGES = {(edge.before, edge.after) for edge in TRANSITIONS}
quick = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def taken(shard: ShardCoordinator, rows: list[Row]) -> set[tuple[str, str]]:
    """From which state to which the rows took their groups."""
    out = set()
    for row in rows:
        before, after = (_status(shard, row, apply=apply) for apply in (False, True))
        if before != after:
            out.add((before, after))
    return out


def _status(shard: ShardCoordinator, row: Row, *, apply: bool) -> str:
    if apply:
        shard.on_row(row)
    group = shard.state.groups.get(row.group)
    return Status.DEAD if group is None else group.status


def fresh(shard: int = 7) -> ShardCoordinator:
    return ShardCoordinator(new_shard_state(shard, 0, None), DetectionSettings(), "c1")


@pytest.mark.parametrize("name", ["families-4.1.1", "late-4.1.1", "matrix-4.3.0"])
def test_recorded_groups_keep_to_the_table(name: str) -> None:
    seen = set()
    with read_capture(FIXTURES / name / "capture").by_partition() as streams:
        for partition, stream in streams.items():
            shard = fresh(partition)
            for batch in stream:
                seen |= taken(shard, list(made_rows(decode_batch(batch))))
    assert seen <= EDGES
    assert (Status.STABLE, Status.EMPTY) in seen


@quick
@given(topics())
def test_made_up_groups_keep_to_the_table(topic: Topic) -> None:
    assert taken(fresh(), topic.rows) <= EDGES


def test_a_member_that_leaves_while_another_joins_is_one_convergence() -> None:
    """Its tombstones stand before the bump of the same write: nothing has converged with them."""
    topic = Epochs()
    topic.join(0, A, 1, (0,))
    topic.join(10_000, B, 2, ())
    topic.leave(11_000, B, 3)
    topic.target(12_000, 3)
    topic.ack(12_000, A, 3, (0,))
    started, left = (found for found in findings(topic) if found.kind is Kind.REBALANCE)
    assert (started.generation, left.generation, left.previous_generation) == (1, 3, 1)
    assert [member.member_id for member in left.members if member.role == "left"] == [B]


def test_a_member_that_was_described_anew_before_compaction_is_known_with_its_epoch() -> None:
    topic = Epochs()
    topic.bump(0, 1)
    topic.target(0, 1)
    topic.ack(10, A, 1, (0, 1))
    topic.metadata(50_000, A)
    shard = ShardCoordinator(new_shard_state(7, 0, topic.offset), DetectionSettings(), "c1")
    for row in topic.rows:
        shard.on_row(row)
    (member,) = shard.state.groups["g"].members
    assert (shard.state.groups["g"].status, member.epoch, len(member.offsets)) == (Status.STABLE, 1, 2)
    assert member.client_id == "c-zg"
    assert shard.state.groups["g"].changes.resubscribed == set()
