"""The simulator gives real bytes, the same for the same seed, and Kafka's timers."""

from itertools import islice
from random import Random

import pytest

from rebalance_monitor.decoders import Decoded, GroupMetadataValue, decode_record, rows
from rebalance_monitor.decoders.embedded.consumer import Assignment, decode_assignment
from rebalance_monitor.lab.simulator import draw_plan, simulate
from rebalance_monitor.lab.simulator.samples import ends, samples

SAMPLE_MS, ENDS_MS = 500.0, 5_000
SEEDS = range(24)


@pytest.mark.parametrize("profile", ["fast", "production", "healthy"])
def test_the_same_plan_and_seed_give_the_same_rows_and_truth(profile: str) -> None:
    plan = draw_plan(Random(3), profile)
    first, second = simulate(plan, 7), simulate(plan, 7)
    assert first.rows == second.rows
    assert first.truth == second.truth
    assert draw_plan(Random(3), profile) == plan


@pytest.mark.parametrize("seed", SEEDS)
def test_every_row_can_be_read_and_offsets_are_whole(seed: int) -> None:
    offset = 0
    for row in simulate(draw_plan(Random(seed)), seed).rows:
        assert row.first_offset == offset
        offset = row.last_offset + 1
        if row.row_kind == rows.COMMIT_RUN:
            assert len(rows.commit_run(row).entries()) == row.count
            continue
        found = decode_record(*rows.record(row))
        assert isinstance(found, Decoded)
        assert not found.notes
        assert found.value is not None or found.type in {5, 7, 8}
        if isinstance(found.value, GroupMetadataValue) and found.value.protocol_type == "consumer":
            assert all(isinstance(decode_assignment(m.assignment), Assignment) for m in found.value.members)


@pytest.mark.parametrize("seed", SEEDS)
def test_samples_see_the_join_phases_that_last_and_their_members(seed: int) -> None:
    made = simulate(draw_plan(Random(seed)), seed)
    looks = list(samples(made, SAMPLE_MS))
    down = {look.at for look in looks if not look.brokers[0][1]}
    seen = {look.at: {group.group for group in look.groups} for look in looks}
    for phase in made.truth.phases:
        inside = [at for at in seen if phase.began < at < phase.ended and at not in down]
        assert all(phase.group in seen[at] for at in inside)
        assert phase.ended - phase.began < 2 * SAMPLE_MS or inside or down
    removed = {one.member: one.at for one in made.truth.removals}
    for look in looks:
        for members in look.members.values():
            assert all(removed.get(member, look.at) >= look.at for member, *_ in members)


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_is_committed_beyond_the_end_of_a_partition(seed: int) -> None:
    made = simulate(draw_plan(Random(seed)), seed)
    for row in made.rows[:: max(len(made.rows) // 50, 1)]:
        if row.row_kind == rows.COMMIT_RUN:
            at = row.commit_ts + 1 - made.plan.epoch
            known = made.feeds[row.group].of([("", list(range(made.plan.groups[0].partitions)))]).at(at)
            assert all(offset <= known[p] for _, p, offset in rows.commit_run(row).entries())


@pytest.mark.parametrize("seed", SEEDS)
def test_samples_of_ends_are_the_ends_of_each_partition_at_their_times(seed: int) -> None:
    made = simulate(draw_plan(Random(seed), groups=2), seed)
    plans = {topic: plan for plan in made.plan.groups for topic in plan.topics}
    for sample in islice(ends(made, ENDS_MS), 0, None, 20):
        for topic, found in sample.latest.items():
            numbers = list(range(plans[topic].partitions))
            known = made.feeds[plans[topic].name].of([(topic, numbers)]).at(sample.at - made.plan.epoch)
            assert found == known
