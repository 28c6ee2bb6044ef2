"""The operator around the step: Spark's frames and state keep every type and byte."""

from __future__ import annotations

import pandas as pd
import pytest

pytest.importorskip("pyspark")

from pyspark.sql.streaming.state import GroupState
from pyspark.sql.types import Row as SparkRow

from rebalance_monitor.checkpoints.codec import CODEC_VERSION, decode_state
from rebalance_monitor.coordinator.settings import DetectionSettings
from rebalance_monitor.decoders import ROW_SCHEMA, Row, rows
from rebalance_monitor.streaming.operator import OUTPUT_DDL, frame_rows, operate
from rebalance_monitor.streaming.step import OutRow, Plan, Stored, step
from tests.coordinator.timeline import T0
from tests.streaming.topics import eventful_topic

PLAN = Plan(DetectionSettings(), "c1", {})
TOPIC = eventful_topic()


def frame(found: list[Row]) -> pd.DataFrame:
    return pd.DataFrame({name: [getattr(row, name) for row in found] for name in ROW_SCHEMA.names})


def group_state(now: int, value: Stored | None = None) -> GroupState:
    row = None if value is None else SparkRow(*value)
    return GroupState(row, now, -1, "NoTimeout", False, False, value is not None, False, False, -1, b"", None)  # noqa: FBT003


def test_rows_survive_the_frame() -> None:
    assert list(frame_rows(frame(TOPIC.rows))) == TOPIC.rows


def test_values_of_a_frame_are_pythons_own() -> None:
    (row,) = frame_rows(frame(TOPIC.rows[:1]))
    assert {type(getattr(row, name)) for name in ROW_SCHEMA.names} == {int, str, bytes}


def test_chunks_of_a_key_are_one_batch() -> None:
    clock = [rows.clock_row(0, 0)]
    chunks = [frame(clock), frame(TOPIC.rows[9:]), frame(TOPIC.rows[:9])]
    (out,) = operate((0, 0), chunks, group_state(T0), plan=PLAN)
    _, expected = step(PLAN, 0, 0, [*TOPIC.rows, *clock], T0, None)
    assert [OutRow(*values) for values in out.itertuples(index=False)] == expected


def test_state_crosses_as_scalars_and_bytes() -> None:
    state = group_state(T0)
    list(operate((0, 0), [frame(TOPIC.rows)], state, plan=PLAN))
    codec, now, blob = state.get
    assert (type(codec), type(now), type(blob)) == (int, int, bytes)
    assert (codec, now) == (CODEC_VERSION, T0)
    assert decode_state(blob).last_offset == TOPIC.rows[-1].last_offset


def test_a_bytearray_from_spark_is_state_too() -> None:
    stored, _ = step(PLAN, 0, 0, TOPIC.rows[:4], T0, None)
    state = group_state(T0, stored._replace(blob=bytearray(stored.blob)))  # type: ignore[arg-type] # what 3.5 gives
    list(operate((0, 0), [frame(TOPIC.rows[4:])], state, plan=PLAN))
    assert decode_state(bytes(state.get[2])).last_offset == TOPIC.rows[-1].last_offset


def test_output_columns_are_the_declared_ones() -> None:
    (out,) = operate((3, 0), [frame([rows.clock_row(3, 0)])], group_state(T0), plan=PLAN)
    declared = [entry.split()[0].strip("`") for entry in OUTPUT_DDL.split(", ")]
    assert list(out.columns) == declared
