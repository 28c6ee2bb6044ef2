"""The simulator gives real bytes, the same for the same seed, and Kafka's timers."""

from random import Random

import pytest

from rebalance_monitor.decoders import Decoded, GroupMetadataValue, decode_record, rows
from rebalance_monitor.decoders.embedded.consumer import Assignment, decode_assignment
from rebalance_monitor.lab.simulator import draw_plan, simulate

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
