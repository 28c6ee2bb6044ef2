"""Coordinators move under a running job and under live members: nobody is blamed, and all is published once.

A cluster of three nodes. First the shards of some groups get other leaders (a preferred leader election),
then the broker that leads one of them is killed, stays away for longer than any session, and returns.
"""

from __future__ import annotations

import sys
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark")

from rebalance_monitor.lab.cluster.broker import LabBroker
from rebalance_monitor.lab.cluster.node import wait_until
from rebalance_monitor.lab.scenario.cluster_faults import coordinator_of, move_shard_of
from rebalance_monitor.lab.scoring.claims import is_about_shard
from tests.chaos.support.living import SESSION_S, Living
from tests.chaos.support.rig import PATIENCE_S, Rig, of_faults
from tests.streaming.support.undisturbed import findings_of_topic

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from rebalance_monitor.coordinator.findings.finding import Finding

pytestmark = of_faults(1_200 + 10 * PATIENCE_S)
GROUPS = 3
# A busy machine starves brokers too; those that live are not to be taken for dead.
STARVED = {"broker.session.timeout.ms": "18000", "controller.quorum.fetch.timeout.ms": "10000"}
# All deadlines that began before have passed, s.
OUTLIVED_S = SESSION_S + 10


def test_moving_coordinators_and_a_dying_broker_accuse_no_member_and_hide_nothing(
    tmp_path: Path,
) -> None:
    with (
        LabBroker(nodes=3, offsets_partitions=8, folder=tmp_path / "brokers", settings=STARVED) as broker,
        ExitStack() as stack,
    ):
        rig = Rig(broker.bootstrap, tmp_path / "job", copies=3)
        living = Living(rig, "moved", GROUPS, tmp_path / "members", stack)
        living.start("one")
        living.start("two")
        living.feed(2)
        with rig.job:
            rig.job.wait_ready()
            living.await_members(2)
            move_all(rig, living)
            living.require_unaccused()
            lose_a_broker(rig, living, broker)
            living.require_unaccused()
            require_generations(rig)
            joins_once(living)
            living.require_unaccused()
            require_generations(rig)
            rig.job.require()
            assert wait_until(rig.is_well, PATIENCE_S), rig.health()
            say(rig, living)


def move_all(rig: Rig, living: Living) -> None:
    """Move the coordinator of every group; each move is published, with the broker that lost it."""
    for group in living.names:
        before = coordinator_of(group, rig.bootstrap)
        shard = move_shard_of(group, rig.bootstrap)
        assert wait_until(
            lambda group=group, before=before: coordinator_of(group, rig.bootstrap) != before, 60
        )
        rig.await_told(lambda f, shard=shard, before=before: is_move(f, shard, before))
    time.sleep(OUTLIVED_S)


def lose_a_broker(rig: Rig, living: Living, broker: LabBroker) -> None:
    """Kill the coordinator of the first group; let it return once every session has had time to end."""
    lost = coordinator_of(living.names[0], rig.bootstrap)
    (node,) = [node for node in broker.nodes if node.address.node == lost]
    killed_at = time.time() * 1_000
    node.kill()
    rig.await_told(lambda f: f.at > killed_at and is_move(f, None, lost))
    time.sleep(OUTLIVED_S)
    assert coordinator_of(living.names[0], rig.bootstrap) != lost
    node.start(leashed=True)
    broker.wait_ready()
    time.sleep(OUTLIVED_S)


def require_generations(rig: Rig) -> None:
    """Every generation that is on the topic was published, once.

    Their causes are not those of records alone: the job saw that the coordinator had moved, and blames nobody
    for the silence.
    """
    on_topic = generations(rig, findings_of_topic(rig.bootstrap))
    assert len(on_topic) >= GROUPS
    wait_until(lambda: len(generations(rig, rig.told())) >= len(on_topic), PATIENCE_S)
    assert generations(rig, rig.told()) == on_topic


def generations(rig: Rig, found: Iterable[Finding]) -> list[tuple[str, int]]:
    return sorted(
        (str(f.group), f.generation or 0) for f in found if f.kind == "rebalance" and f.group in rig.groups
    )


def joins_once(living: Living) -> None:
    """A member that joins afterwards is published once, and is the cause."""
    group = living.names[0]
    living.start("three", group)
    living.await_members(3, group)
    told = [finding for finding in living.told() if "three" in joined(finding)]
    assert len(told) == 1
    assert told[0].group == group
    assert told[0].causes[0].cause == "member_joined"


def joined(finding: Finding) -> set[str]:
    return {member.client_id for member in finding.members if member.role == "joined"}


def is_move(finding: Finding, shard: int | None, before: int) -> bool:
    """Whether a shard, or any, is published to have moved away from broker `before`."""
    moved = finding.kind == "coordinator_moved" and finding.details.get("previous_broker") == before
    return moved and (shard is None or is_about_shard(finding, shard))


def say(rig: Rig, living: Living) -> None:
    """Shown with -s."""
    told = rig.told()
    moves = sum(finding.kind == "coordinator_moved" for finding in told)
    generations = sum(finding.kind == "rebalance" for finding in living.told())
    sys.stdout.write(
        f"\n{moves} moves told; {generations} generations of {GROUPS} groups, "
        f"{living.suspicions()} members suspected and cleared; health: {rig.health()}\n"
    )
