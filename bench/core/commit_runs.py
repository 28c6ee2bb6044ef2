"""How many records `decode_batch` folds into one row: on captures, and on the mix that the benchmarks load.

Counts rows and bytes, batch by batch.

    python -m bench.core.commit_runs tests/fixtures/scenarios/*/capture --width 1 10 100
"""

from __future__ import annotations

import argparse
from collections import Counter
from itertools import chain
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from bench.traffic.mix import Mix, messages
from rebalance_monitor.decoders import decode_batch
from rebalance_monitor.decoders.rows import COMMIT_RUN

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

# Records per Arrow batch, as in the job.
BATCH = 50_000
COLUMNS = ["key", "value", "partition", "offset", "timestamp"]


def captured(folder: str) -> Iterator[pa.RecordBatch]:
    """Yield the records of a capture."""
    yield from pq.ParquetFile(f"{folder}/records.parquet").iter_batches(BATCH, columns=COLUMNS)


def mixed(mix: Mix) -> Iterator[pa.RecordBatch]:
    """Yield the records of a mix, one partition after the other."""
    found = sorted(chain.from_iterable(messages(mix)), key=lambda message: message.partition)
    table = pa.table(
        {
            "key": pa.array([message.key for message in found], pa.binary()),
            "value": pa.array([message.value for message in found], pa.binary()),
            "partition": pa.array([message.partition for message in found], pa.int32()),
            "offset": pa.array(range(len(found)), pa.int64()),
            "timestamp": pa.array([message.timestamp for message in found], pa.int64()),
        }
    )
    yield from table.to_batches(BATCH)


def report(name: str, batches: Iterable[pa.RecordBatch]) -> None:
    """Print records, commits in runs, rows and bytes, before and after."""
    seen: Counter[str] = Counter()
    for batch in batches:
        rows = decode_batch(batch)
        is_run = rows.column("row_kind").to_numpy(zero_copy_only=False) == COMMIT_RUN
        seen["records"] += batch.num_rows
        seen["rows"] += rows.num_rows
        seen["runs"] += int(is_run.sum())
        seen["commits"] += int(rows.column("count").to_numpy()[is_run].sum())
        seen["bytes in"] += size(batch, "key") + size(batch, "value")
        seen["bytes out"] += size(rows, "group") + size(rows, "body")
    folded, runs = seen["records"] / seen["rows"], seen["commits"] / max(1, seen["runs"])
    print(
        f"{name:28} {seen['records']:8} records in {seen['rows']:7} rows: {folded:5.2f}"
        f"; {seen['commits']:8} commits in {seen['runs']:6} runs: {runs:5.2f}"
        f"; bytes of keys, values and bodies: {seen['bytes in'] / seen['bytes out']:.2f}"
    )


def size(batch: pa.RecordBatch, column: str) -> int:
    """Give the bytes of a column's values."""
    return sum(map(len, filter(None, batch.column(column).cast(pa.binary()).to_pylist())))


def main() -> None:
    """Report on the captures named, and on the mix by partitions per group."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("captures", nargs="*")
    options.add_argument("--records", type=int, default=100_000, help="of the mix")
    options.add_argument("--width", type=int, nargs="*", default=[10], help="partitions per group of the mix")
    chosen = options.parse_args()
    for folder in chosen.captures:
        report("/".join(folder.rstrip("/").split("/")[-2:]), captured(folder))
    for width in chosen.width:
        mix = Mix(2_000, width, chosen.records, 1_700_000_000_000)
        report(f"mix, {width} partitions a group", mixed(mix))


if __name__ == "__main__":
    main()
