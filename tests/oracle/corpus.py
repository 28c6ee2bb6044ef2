"""The checked-in corpus: every record type and version as Kafka's classes write it, and what they read back.

`tests/fixtures/corpus/records.parquet` is an ordinary capture; `expected.jsonl.gz` has one line per record in
the same order: `label`, `partition`, `offset`, `timestamp`, then Kafka's `key` and `value` as JSON, or
`refused` with the class of Kafka's exception. `embedded.jsonl.gz` holds the protocols embedded in group
metadata.
"""

from __future__ import annotations

import base64
import gzip
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from rebalance_monitor.cluster.captures.captured import METADATA_KEY, Metadata

if TYPE_CHECKING:
    from collections.abc import Iterable

FOLDER = Path(__file__).parents[1] / "fixtures" / "corpus"
TOPIC = "__consumer_offsets"
PARTITIONS = 50
FIRST_TIMESTAMP = 1_700_000_000_000
SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("ms", "UTC")),
        ("timestampType", pa.int32()),
    ]
)


@dataclass(frozen=True, slots=True)
class Record:
    """One record of the corpus and Kafka's word on it."""

    key: bytes | None
    value: bytes | None
    partition: int
    offset: int
    timestamp: int
    expected: dict[str, Any]

    @property
    def label(self) -> str:
        """What is special about this record."""
        return str(self.expected["label"])


def from_kafka(lines: Iterable[dict[str, Any]]) -> list[Record]:
    """Place the oracle's lines in the topic, sorted by partition, with offsets and timestamps in order."""
    placed = sorted(lines, key=lambda line: line.get("partition", 0))
    heads: dict[int, int] = {}
    return [_record(number, line, heads) for number, line in enumerate(placed)]


def _record(number: int, line: dict[str, Any], heads: dict[int, int]) -> Record:
    line = dict(line)
    key, value = _bytes(line.pop("rawKey")), _bytes(line.pop("rawValue"))
    partition = line.pop("partition", 0)
    offset = heads[partition] = heads.get(partition, -1) + 1
    place = {"partition": partition, "offset": offset, "timestamp": FIRST_TIMESTAMP + number}
    expected = {"label": line.pop("label"), **place, **line}
    return Record(key, value, partition, offset, FIRST_TIMESTAMP + number, expected)


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


def write(records: list[Record], embedded: list[dict[str, Any]], kafka: str) -> None:
    """Write the three files of the corpus folder."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    ends = {record.partition: record.offset + 1 for record in records}
    metadata = Metadata(
        cluster_id="corpus",
        partitions=PARTITIONS,
        end_offsets=ends,
        broker_version=kafka,
    )
    columns = table(records).replace_schema_metadata({METADATA_KEY: metadata.to_json()})
    pq.write_table(columns, FOLDER / "records.parquet", compression="zstd", compression_level=19)
    _write_lines(FOLDER / "expected.jsonl.gz", (record.expected for record in records))
    _write_lines(FOLDER / "embedded.jsonl.gz", embedded)


def table(records: list[Record]) -> pa.Table:
    """Give the records as the columns of Spark's Kafka source."""
    rows = [(r.key, r.value, TOPIC, r.partition, r.offset, r.timestamp, 0) for r in records]
    columns = zip(*rows, strict=True)
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA)


def _write_lines(path: Path, lines: Iterable[dict[str, Any]]) -> None:
    text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    path.write_bytes(gzip.compress(text.encode(), 9, mtime=0))


def load() -> list[Record]:
    """Read the checked-in corpus."""
    columns = pq.read_table(FOLDER / "records.parquet").to_pydict()
    places = zip(columns["key"], columns["value"], load_lines("expected"), strict=True)
    return [
        Record(key, value, line["partition"], line["offset"], line["timestamp"], line)
        for key, value, line in places
    ]


def load_lines(name: str) -> list[dict[str, Any]]:
    """Read `expected` or `embedded`."""
    text = gzip.decompress((FOLDER / f"{name}.jsonl.gz").read_bytes()).decode()
    return [json.loads(line) for line in text.split("\n") if line]
