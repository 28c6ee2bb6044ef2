"""The stateful operator: Spark's frames and state around `step`.

State has scalar columns only, and one versioned blob: Spark freezes the layout at the first start, and arrays
or maps in it break PySpark. There is no Spark timeout: deadlines are evaluated on the clock row, and a
timeout mode would double the Python tasks of every batch.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pandas as pd

from rebalance_monitor.decoders import Row
from rebalance_monitor.decoders.rows import made_rows
from rebalance_monitor.streaming.step import OutRow, Plan, Stored, step

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.state import GroupState

STATE_DDL = "codec int, now long, blob binary"
OUTPUT_DDL = "row_kind string, shard int, `group` string, body string"
_COLUMNS = tuple(Row.__dataclass_fields__)


def operate(
    key: tuple[int, int], frames: Iterable[pd.DataFrame], state: GroupState, *, plan: Plan
) -> Iterator[pd.DataFrame]:
    """Spark's state function: one call per key and batch. Free of side effects: a task may run twice."""
    rows = [row for frame in frames for row in frame_rows(frame)]
    stored = _stored(state)
    kept, outputs = step(plan, int(key[0]), int(key[1]), rows, state.getCurrentProcessingTimeMs(), stored)
    state.update(tuple(kept))
    yield pd.DataFrame(outputs, columns=list(OutRow._fields))


def frame_rows(frame: pd.DataFrame) -> Iterator[Row]:
    """Yield the rows of one frame as Python values (numpy's would not survive JSON)."""
    return made_rows(frame[name].tolist() for name in _COLUMNS)


def operated(rows: DataFrame, clock: DataFrame, plan: Plan) -> DataFrame:
    """Return the operator's output for `rows` and `clock`, both with the row contract's columns."""
    from pyspark.sql import functions as f  # noqa: PLC0415 - heavy, and an optional dependency

    # The key must be non-null in the union: else the state's schema would depend on which leg a batch has.
    keys = {name: f.coalesce(f.col(name), f.lit(-1).cast("int")) for name in ("shard", "bucket")}
    united = rows.unionByName(clock).withColumns(keys)
    return united.groupBy("shard", "bucket").applyInPandasWithState(
        partial(operate, plan=plan), OUTPUT_DDL, STATE_DDL, "update", "NoTimeout"
    )


def _stored(state: GroupState) -> Stored | None:
    if not state.exists:
        return None
    codec, now, blob = state.get
    return Stored(int(codec), int(now), bytes(blob))
