"""The stateful operator: Spark's frames and state around `step`, for all coordinators of a lane in one call.

State has scalar columns only, and one versioned blob: Spark freezes the layout at the first start, and arrays
or maps in it break PySpark. There is no Spark timeout: deadlines are evaluated on the clock row, and a
timeout mode would double the Python tasks of every batch.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import pandas as pd

from rebalance_monitor.checkpoints.state.codec import StateCorruptError, decode_lane, encode_lane
from rebalance_monitor.coordinator.findings.outputs import StatOut
from rebalance_monitor.engine.batch.step import Plan, out_row, step
from rebalance_monitor.engine.memory import settle, uncollected
from rebalance_monitor.streaming.rows.handover import HANDOVER_DDL, Handed, Handover
from rebalance_monitor.streaming.rows.packing import Unpacked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.state import GroupState

    from rebalance_monitor.checkpoints.state.codec import Stored
    from rebalance_monitor.engine.batch.step import OutRow
    from rebalance_monitor.streaming.rows.lanes import Lanes

STATE_DDL = "now long, blob binary"


def operate(
    key: tuple[int],
    frames: Iterable[pd.DataFrame],
    state: GroupState,
    *,
    plan: Plan,
    lanes: Lanes,
    limit: int | None = None,
) -> Iterator[pd.DataFrame]:
    """Spark's state function: one call per lane and batch. Free of side effects: a task may run twice.

    `limit`: bytes that the lane may hand over (handover.py); HandoverLimitError beyond.
    """
    settle()
    with uncollected():
        handover = Handover(int(key[0]), limit)
        for outputs in _operated(key, frames, state, plan, lanes):
            yield from map(_frame, handover.add(outputs))
        yield _frame(*handover.end())


def _operated(
    key: tuple[int], frames: Iterable[pd.DataFrame], state: GroupState, plan: Plan, lanes: Lanes
) -> Iterator[list[OutRow]]:
    found = Unpacked(bytes(pack) for frame in frames for pack in frame["rows"].tolist())
    members = lanes.members(lanes.keys.index(int(key[0])))
    stored, damage = _stored(state)
    lost = [out_row(shard, StatOut("state_lost", {"error": damage})) for shard, _ in members if damage]
    # A lane that cannot be read has no history left: what comes is live.
    plan = replace(plan, catching_up={}) if lost else plan
    now = state.getCurrentProcessingTimeMs()
    yield lost
    for place in sorted(found.places.union(members if found.ticks else ())):
        rows, before = list(found.rows(place)), stored.get(place)
        stored[place], outputs = step(plan, *place, rows, now, before, ticks=found.ticks, newest=found.newest)
        yield outputs
    state.update((now, encode_lane(stored)))


def operated(
    packs: DataFrame, clock: DataFrame, plan: Plan, lanes: Lanes, limit: int | None = None
) -> DataFrame:
    """Return what the operator hands over for `packs` and `clock`, both with the columns of a pack."""
    return by_lane(packs, clock, partial(operate, plan=plan, lanes=lanes, limit=limit))


def by_lane(packs: DataFrame, clock: DataFrame, function: Callable[..., Iterator[pd.DataFrame]]) -> DataFrame:
    """Return the output of a state function like `operate` for each lane of `packs` and `clock`."""
    from pyspark.sql import functions as f  # noqa: PLC0415 - heavy, and an optional dependency

    # The key must be non-null in the union: else the state's schema would depend on which leg a batch has.
    lane = f.coalesce(f.col("lane"), f.lit(-1).cast("int"))
    return (
        packs.unionByName(clock)
        .withColumn("lane", lane)
        .groupBy("lane")
        .applyInPandasWithState(function, HANDOVER_DDL, STATE_DDL, "update", "NoTimeout")
    )


def _frame(*handed: Handed) -> pd.DataFrame:
    return pd.DataFrame(handed, columns=list(Handed._fields))


def _stored(state: GroupState) -> tuple[dict[tuple[int, int], Stored], str]:
    """Return what the lane keeps, and ""; nothing, and why, where it is damaged."""
    if not state.exists:
        return {}, ""
    _, lane = state.get
    try:
        return decode_lane(bytes(lane)), ""
    except StateCorruptError as error:
        return {}, str(error)[:500]
