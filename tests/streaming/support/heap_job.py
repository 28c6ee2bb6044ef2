"""Hands over batches of three lanes until the JVM's small heap does not hold them, as a program of its own.

Arguments: a folder, the heap in MB, and each batch as a JSON list, the fields of Shape. Prints one JSON
object a batch: how many rows the writer took (-1: none), the error otherwise, and how full the heap was.
"""

from __future__ import annotations

import base64
import json
import os
import signal
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pandas as pd

from rebalance_monitor.checkpoints.ledger import Ledger
from rebalance_monitor.coordinator.settings import DetectionSettings
from rebalance_monitor.engine.batch.step import OutRow
from rebalance_monitor.engine.driver.parts import Parts
from rebalance_monitor.engine.driver.writer import BatchWriter
from rebalance_monitor.streaming.query.foreach_batch import collecting
from rebalance_monitor.streaming.rows.handover import HANDOVER_DDL, Handed, Handover
from rebalance_monitor.streaming.rows.lanes import Lanes
from rebalance_monitor.streaming.spark.heap import heap_peak
from rebalance_monitor.streaming.spark.session import start_session

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rebalance_monitor.engine.batch.batches import Batch, BatchKey

MB = 1 << 20
LANES = Lanes(3, 1, 3)


class Shape(NamedTuple):
    """One batch: which lane is large, its rows, and the MB of each; the other lanes have one short row.

    killed: whether the worker of the large lane is killed before its last row, at the first try.
    """

    lane: int
    rows: int
    mb: int
    killed: bool = False


def flood(frames: Iterable[pd.DataFrame], shape: Shape, died: Path) -> Iterator[pd.DataFrame]:
    """The rows of the lane whose number the frame holds: noise, which nothing makes shorter."""
    (number,) = [int(one) for frame in frames for one in frame["id"]]
    handover = Handover(LANES.keys[number])
    count, size = (shape.rows, shape.mb * MB) if number == shape.lane else (1, 0)
    for at in range(count):
        noise = base64.b64encode(os.urandom(size * 3 // 4)).decode()
        yield from map(_frame, handover.add([OutRow("removed", number, f"{number}-{at}", noise)]))
        if shape.killed and size and at == count - 1 and not died.exists():
            died.touch()
            os.kill(os.getpid(), signal.SIGKILL)
    yield from map(_frame, handover.end())


def _frame(handed: Handed) -> pd.DataFrame:
    return pd.DataFrame([handed], columns=list(Handed._fields))


class Counting(BatchWriter):
    """Counts what it takes in place of telling it."""

    taken = -1

    def apply(self, key: BatchKey, batch: Batch) -> None:  # noqa: ARG002 - as the writer has it
        self.taken = len(batch.removed)


def main(root: Path, heap: int, shapes: list[Shape]) -> None:
    # What a killed worker had to do is tried once more.
    settings = {"spark.driver.memory": f"{heap}m", "spark.master": "local[1,2]"}
    session = start_session("heap-test", settings, [])
    ledger = Ledger(root)
    writer = Counting(ledger, ledger.load(), [], Parts(DetectionSettings(), "c1", list))
    writer.serve("heap")
    take = collecting(writer, LANES)
    for number, shape in enumerate(shapes):
        writer.taken, error, peak = -1, "", -1.0
        try:
            # A JVM that has ended makes no frame either.
            lanes = session.range(0, LANES.count, 1, LANES.count)
            give = partial(flood, shape=shape, died=root / f"died-{number}")
            take(lanes.mapInPandas(give, HANDOVER_DDL), number)
        except Exception as failed:  # noqa: BLE001 - whatever a JVM without heap does
            error = f"{type(failed).__name__}: {failed}"
        # A JVM that has ended tells nothing.
        with suppress(Exception):
            peak = heap_peak(session)
        found = {"taken": writer.taken, "error": error, "peak": peak}
        print(json.dumps(found), flush=True)  # noqa: T201 - the test reads it


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), [Shape(*json.loads(one)) for one in sys.argv[3:]])
