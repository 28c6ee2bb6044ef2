"""The operator around the step: packs, lanes and state keep every type and byte."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pandas as pd
import pytest

pytest.importorskip("pyspark")

from pyspark.sql.streaming.state import GroupState
from pyspark.sql.types import Row as SparkRow

from rebalance_monitor.checkpoints.state.codec import StateVersionError, decode_lane, decode_state
from rebalance_monitor.coordinator.settings import DetectionSettings
from rebalance_monitor.engine.batch.step import OutRow, Plan, step
from rebalance_monitor.streaming.query.operator import operate
from rebalance_monitor.streaming.rows.handover import HANDOVER_DDL, unpacked
from rebalance_monitor.streaming.rows.lanes import Lanes
from rebalance_monitor.streaming.rows.packing import CLOCK
from tests.coordinator.support.timeline import T0
from tests.streaming.support.topics import eventful_topic, packs_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

PLAN = Plan(DetectionSettings(), "c1", {})
ONE = Lanes(1, 1, 1)
TOPIC = eventful_topic()


def frame(packs: Sequence[bytes]) -> pd.DataFrame:
    return pd.DataFrame({"lane": [0] * len(packs), "rows": list(packs)})


def group_state(now: int, value: tuple[int, bytes] | None = None) -> GroupState:
    row = None if value is None else SparkRow(*value)
    return GroupState(row, now, -1, "NoTimeout", False, False, value is not None, False, False, -1, b"", None)  # noqa: FBT003


def operated(packs: Sequence[bytes], state: GroupState, lanes: Lanes = ONE, lane: int = 0) -> list[OutRow]:
    return rows_of(operate((lanes.keys[lane],), [frame(packs)], state, plan=PLAN, lanes=lanes))


def rows_of(out: Iterable[pd.DataFrame]) -> list[OutRow]:
    """What the driver reads of the frames of one lane."""
    handed = [values for part in out for values in part.itertuples(index=False, name=None)]
    number = ONE.keys[0]
    return unpacked([(number, rows, pack) for _, rows, pack in handed], ONE)


def test_chunks_of_a_lane_are_one_batch() -> None:
    chunks = [frame([CLOCK]), frame(packs_of(TOPIC.rows[9:])), frame(packs_of(TOPIC.rows[:9]))]
    out = operate((ONE.keys[0],), chunks, group_state(T0), plan=PLAN, lanes=ONE)
    _, expected = step(PLAN, 0, 0, TOPIC.rows, T0, None, ticks=True)
    assert rows_of(out) == expected


def test_what_a_long_history_shows_leaves_in_parts_and_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    lanes, packs, whole, parts = Lanes(50, 1, 1), packs_of(TOPIC.rows), group_state(T0), group_state(T0)
    expected = operated([CLOCK, *packs], whole, lanes)
    monkeypatch.setattr("rebalance_monitor.streaming.rows.handover.PACK_ROWS", 3)
    frames = list(operate((lanes.keys[0],), [frame([CLOCK, *packs])], parts, plan=PLAN, lanes=lanes))
    assert len(frames) > 2
    assert rows_of(frames) == expected
    assert parts.get == whole.get


def test_state_crosses_as_scalars_and_bytes() -> None:
    state = group_state(T0)
    operated(packs_of(TOPIC.rows), state)
    now, lane = state.get
    assert (type(now), type(lane), now) == (int, bytes, T0)
    ((place, stored),) = decode_lane(lane).items()
    assert (place, stored.now) == ((0, 0), T0)
    assert decode_state(stored.blob).last_offset == TOPIC.rows[-1].last_offset


def test_a_bytearray_from_spark_is_state_too() -> None:
    before, after = group_state(T0), group_state(T0)
    operated(packs_of(TOPIC.rows[:4]), before)
    now, lane = before.get
    after = group_state(T0, (now, bytearray(lane)))  # type: ignore[arg-type] # what 3.5 gives
    operated(packs_of(TOPIC.rows[4:]), after)
    assert decode_state(decode_lane(after.get[1])[0, 0].blob).last_offset == TOPIC.rows[-1].last_offset


def test_the_clock_reaches_every_coordinator_of_its_lane_and_no_other() -> None:
    lanes = Lanes(5, 2, 3)
    for lane in range(3):
        state = group_state(T0)
        told = operated([CLOCK], state, lanes, lane)
        assert sorted(decode_lane(state.get[1])) == lanes.members(lane)
        judged = [row.shard for row in told if json.loads(row.body)["kind"] == "shard"]
        assert judged == [shard for shard, _ in lanes.members(lane)]


def test_without_the_clock_what_has_no_rows_is_kept_as_it_is() -> None:
    lanes, state = Lanes(3, 1, 1), group_state(T0)
    operated([CLOCK], state, lanes)
    before = decode_lane(state.get[1])
    later = group_state(T0 + 1_000, (T0, state.get[1]))
    operated(packs_of(eventful_topic(1).rows), later, lanes)
    after = decode_lane(later.get[1])
    assert [place for place in before if after[place] != before[place]] == [(1, 0)]


def test_a_damaged_lane_is_said_and_what_comes_after_it_is_live() -> None:
    plan = Plan(DetectionSettings(), "c1", {0: 10**6})
    state = group_state(T0, (T0, b"\x01short"))
    out = rows_of(operate((ONE.keys[0],), [frame([CLOCK])], state, plan=plan, lanes=ONE))
    told = [json.loads(row.body) for row in out]
    assert [entry["kind"] for entry in told].count("state_lost") == 1
    assert decode_state(decode_lane(state.get[1])[0, 0].blob).catching_up_until is None


def test_a_lane_of_another_release_is_left_alone() -> None:
    with pytest.raises(StateVersionError, match="--rebuild-state"):
        operated([CLOCK], group_state(T0, (T0, b"\xfa...")))


def test_output_columns_are_the_declared_ones() -> None:
    declared = [entry.split()[0] for entry in HANDOVER_DDL.split(", ")]
    for out in operate((ONE.keys[0],), [frame([CLOCK])], group_state(T0), plan=PLAN, lanes=ONE):
        assert list(out.columns) == declared
