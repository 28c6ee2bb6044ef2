"""Hands over batches that grow until the JVM's small heap does not hold them; run in a process of its own.

Arguments: a folder, the heap in MB, and the MB of each batch, which has two rows. Prints one JSON object a
batch: its size, how many rows the writer took (-1: none), the error otherwise, and how full the heap was.
"""

from __future__ import annotations

import base64
import json
import os
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

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
LANES = Lanes(1, 1, 1)


def flood(_: Iterable[pd.DataFrame], size: int) -> Iterator[pd.DataFrame]:
    """One lane's two rows: one of so many MB, which nothing makes shorter, and one of some bytes."""
    noise = base64.b64encode(os.urandom(size * MB * 3 // 4)).decode()
    handover = Handover(LANES.keys[0])
    rows = [OutRow("removed", 0, "large", noise), OutRow("removed", 0, "small", "{}")]
    for handed in (*handover.add(rows), *handover.end()):
        yield pd.DataFrame([handed], columns=list(Handed._fields))


class Counting(BatchWriter):
    """Counts what it takes in place of telling it."""

    taken = -1

    def apply(self, key: BatchKey, batch: Batch) -> None:  # noqa: ARG002 - as the writer has it
        self.taken = len(batch.removed)


def main(root: Path, heap: int, sizes: list[int]) -> None:
    session = start_session("heap-test", {"spark.driver.memory": f"{heap}m", "spark.master": "local[1]"}, [])
    ledger = Ledger(root)
    writer = Counting(ledger, ledger.load(), [], Parts(DetectionSettings(), "c1", list))
    writer.serve("heap")
    take = collecting(writer, LANES)
    for size in sizes:
        writer.taken, error, peak = -1, "", -1.0
        try:
            # A JVM that has ended makes no frame either.
            frame = session.range(1).coalesce(1).mapInPandas(partial(flood, size=size), HANDOVER_DDL)
            take(frame, size)
        except Exception as failed:  # noqa: BLE001 - whatever a JVM without heap does
            error = f"{type(failed).__name__}: {failed}"[:300]
        # A JVM that has ended tells nothing.
        with suppress(Exception):
            peak = heap_peak(session)
        print(json.dumps({"mb": size, "taken": writer.taken, "error": error, "peak": peak}), flush=True)  # noqa: T201 - the test reads it


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), list(map(int, sys.argv[3:])))
