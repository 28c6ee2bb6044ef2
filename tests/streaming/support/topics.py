"""Hand-written topics (tests/coordinator/support/timeline.py) as rows of a batch and as Kafka's records."""

from __future__ import annotations

from struct import pack
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from rebalance_monitor.decoders import ROW_SCHEMA, Row, rows
from rebalance_monitor.streaming.rows.lanes import Lanes
from rebalance_monitor.streaming.rows.packing import packed
from tests.coordinator.support.timeline import Client, Topic, text

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("ms", tz="UTC")),
    ]
)


def eventful_topic(shard: int = 0, group: str = "g") -> Topic:
    """A group that starts, loses a member, loses generations, is emptied, starts anew and is removed."""
    topic = Topic(group=group, shard=shard)
    one, two = Client("a-1", (0, 1)), Client("b-1", (2, 3), "consumer-g-2", "/10.0.0.2")
    both = Client("a-1", (0, 1, 2, 3))
    topic.generation(0, 1, [one, two])
    for at in range(1_000, 9_000, 1_000):
        topic.commit(at, {0: at, 1: at})
        if at < 4_000:
            topic.commit(at + 1, {2: at, 3: at})
    topic.generation(10_000, 2, [both])
    topic.commit(11_000, {0: 1, 1: 1, 2: 1, 3: 1})
    topic.generation(12_000, 5, [one, two])
    topic.generation(20_000, 6, [])
    topic.generation(30_000, 7, [one])
    topic.generation(40_000, 8, [])
    topic.tombstone(50_000)
    topic.commit(60_000, {0: 5})
    return topic


def records(topic_rows: Sequence[Row]) -> pa.Table:
    """The records that decode to these rows, with the Kafka source's columns."""
    found: list[tuple[bytes, bytes | None, int, int, int]] = []
    for row in topic_rows:
        if row.row_kind == rows.RECORD:
            key, value = rows.record(row)
            found.append((key, value, row.shard, row.first_offset, row.record_ts))
            continue
        run = rows.commit_run(row)
        for number, (name, partition, offset) in enumerate(run.entries()):
            key = pack(">h", 1) + text(run.group) + text(name) + pack(">i", partition)
            value = pack(">hqi", 3, offset, -1) + text("") + pack(">q", run.commit_ts)
            found.append((key, value, row.shard, row.first_offset + number, row.record_ts))
    columns = zip(*found, strict=True)
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA)


def row_batch(found: Sequence[Row]) -> pa.RecordBatch:
    """Rows as the decode stage has them."""
    columns = [[getattr(row, name) for row in found] for name in ROW_SCHEMA.names]
    arrays = [pa.array(column, kind) for column, kind in zip(columns, ROW_SCHEMA.types, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=ROW_SCHEMA)


def packs_of(found: Sequence[Row]) -> list[bytes]:
    """Rows as they reach the only lane of a state."""
    return [bytes(pack) for pack in packed(row_batch(found), Lanes(1, 1, 1)).column("rows").to_pylist()]


def put_file(folder: Path, name: str, table: pa.Table) -> None:
    """Put a file into a streamed folder, whole."""
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, draft := folder / f".{name}.draft")
    draft.rename(folder / f"{name}.parquet")
