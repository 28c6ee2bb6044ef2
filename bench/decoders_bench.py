"""What decoding costs on one core: ratios within one run, process time, best of several.

Commits: the kernel (find the commits, then gather group, topic, partition, offset and commit timestamp)
against the same gather alone with every position known, the readable parser, and kafka-python's schema-driven
codec on the same records; then the whole of `decode_batch`, and how many records it folds into one row.
Groups: us per GroupMetadata record by number of members.

    python bench/decoders_bench.py --records 50000
"""

from __future__ import annotations

import argparse
import gc
import io
import random
import struct
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from kafka.protocol.data_container import DataContainer
from kafka.protocol.schemas.fields import StructField

from rebalance_monitor.decoders import decode_batch, decode_record
from rebalance_monitor.decoders.columns import Cells, cells, gather, view
from rebalance_monitor.decoders.kernel import Commits, scan

if TYPE_CHECKING:
    from collections.abc import Callable

Pairs = list[tuple[bytes, bytes]]
# The readable paths take this many records: per record they are slow enough to measure.
SAMPLE = 20_000
MEMBERS = (1, 10, 100, 1_000, 10_000)


def string(text: str) -> bytes:
    """Pack a string with its int16 length."""
    return struct.pack(">h", len(text.encode())) + text.encode()


def commit(group: str, topic: str, partition: int, offset: int, commit_ts: int) -> tuple[bytes, bytes]:
    """Pack one commit as Kafka 4.1+ does, with a topic id; one in thirty has metadata."""
    metadata = b"" if offset % 30 else b"AgAAAYvP5WgA"
    value = struct.pack(">hqi", 4, offset, 3) + bytes([len(metadata) + 1]) + metadata
    key = b"\0\1" + string(group) + string(topic) + struct.pack(">i", partition)
    return key, value + struct.pack(">q", commit_ts) + b"\1\0\x10" + bytes(range(16))


def traffic(records: int, seed: int = 1) -> Pairs:
    """Make commits as groups write them: requests of 1 to 20 partitions, mostly of one topic."""
    chance = random.Random(seed)  # noqa: S311 - repeatable, not secret
    pairs: Pairs = []
    while len(pairs) < records:
        group, commit_ts = f"payments-consumer-{chance.randrange(500)}", 1_700_000_000_000 + len(pairs)
        topic = f"orders.events.v{chance.randrange(20)}"
        for partition in range(chance.choice((1, 2, 5, 10, 20))):
            pairs.append(commit(group, topic, partition, len(pairs), commit_ts))
    return pairs[:records]


def batch(pairs: Pairs) -> pa.RecordBatch:
    """Lay records out as Spark's Kafka source does."""
    rows = len(pairs)
    return pa.record_batch(
        {
            "key": pa.array([key for key, _ in pairs], pa.binary()),
            "value": pa.array([value for _, value in pairs], pa.binary()),
            "partition": pa.array(np.zeros(rows, np.int32)),
            "offset": pa.array(np.arange(rows)),
            "timestamp": pa.array(np.arange(rows) * 1000, pa.timestamp("us", tz="UTC")),
        }
    )


def group(members: int) -> tuple[bytes, bytes]:
    """Pack one GroupMetadata v3 whose members carry 60 bytes of subscription and 80 of assignment."""
    one = string("consumer-1-0d2a7c1e-5b1f-4e53-9d4e-2f6b8a7c9e10") + b"\xff\xff" + string("consumer-1")
    one += string("/10.1.2.3") + struct.pack(">ii", 300_000, 45_000)
    one += struct.pack(">i", 60) + bytes(60) + struct.pack(">i", 80) + bytes(80)
    head = b"\0\3" + string("consumer") + struct.pack(">i", 7) + string("range") + string("leader")
    value = head + struct.pack(">qi", 1_700_000_000_000, members) + one * members
    return b"\0\2" + string("payments"), value


def columns(keys: Cells, values: Cells, found: Commits) -> list[object]:
    """Gather the five columns of all commits, every position being known."""
    partition = found.topic_start + found.topic_size
    return [
        gather(keys.data, found.group_start, found.group_size, pa.string()),
        gather(keys.data, found.topic_start, found.topic_size, pa.string()),
        view(keys.data, ">i4")[partition].astype(np.int32),
        view(values.data, ">i8")[values.starts + 2].astype(np.int64),
        found.commit_ts.astype(np.int64),
    ]


def _codec(fields: list[tuple[str, str, dict[str, Any]]]) -> StructField:
    """Make kafka-python's codec of a message, with a class to hold it, as its `ApiData` does."""
    described = [{"name": name, "type": kind, "versions": "0+", **more} for name, kind, more in fields]
    made = StructField(
        {"name": "Message", "type": "data", "validVersions": "0-4", "versions": "0+", "fields": described}
    )
    made.set_data_class(type("Message", (DataContainer,), {"_struct": made}))
    return made


COMMIT_KEY = [("group", "string", {}), ("topic", "string", {}), ("partition", "int32", {})]
COMMIT_VALUE: list[tuple[str, str, dict[str, Any]]] = [
    ("offset", "int64", {}),
    ("leaderEpoch", "int32", {}),
    ("metadata", "string", {}),
    ("commitTimestamp", "int64", {}),
    ("topicId", "uuid", {"tag": 0, "taggedVersions": "0+"}),
]


def api_data(pairs: Pairs) -> Callable[[], None]:
    """Return the loop over kafka-python's codec."""
    key_codec, value_codec = _codec(COMMIT_KEY), _codec(COMMIT_VALUE)

    def read() -> None:
        for key, value in pairs:
            key_codec.decode(io.BytesIO(key[2:]), version=0, compact=False, tagged=False)
            value_codec.decode(io.BytesIO(value[2:]), version=4, compact=True, tagged=True)

    return read


def parser(pairs: Pairs) -> Callable[[], None]:
    """Return the loop over the readable parser."""

    def read() -> None:
        for key, value in pairs:
            decode_record(key, value)

    return read


def seconds(works: dict[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Return the best process time of each work, taken in turns, without the collector's pauses."""
    best = dict.fromkeys(works, float("inf"))
    gc.disable()
    for _ in range(repeats):
        for name, work in works.items():
            started = time.process_time()
            work()
            best[name] = min(best[name], time.process_time() - started)
        gc.collect()
    gc.enable()
    return best


def commits(records: int, repeats: int) -> None:
    """Print the table of commits."""
    pairs = traffic(records)
    whole, sample = batch(pairs), pairs[:SAMPLE]
    keys, values = cells(whole.column("key")), cells(whole.column("value"))
    found = scan(keys, values)
    works: dict[str, Callable[[], object]] = {
        "plain numpy gather": lambda: columns(keys, values, found),
        "kernel": lambda: columns(keys, values, scan(keys, values)),
        "kernel, positions only": lambda: scan(keys, values),
        "decode_batch (with run folding)": lambda: decode_batch(whole),
        "readable parser": parser(sample),
        "kafka-python ApiData": api_data(sample),
    }
    sampled = ("readable parser", "kafka-python ApiData")
    per_second = {
        name: (len(sample) if name in sampled else records) / taken
        for name, taken in seconds(works, repeats).items()
    }
    rows = decode_batch(whole).num_rows
    print(f"{records} commits, {len(pairs[0][0])} + {len(pairs[0][1])} bytes, one core")
    for name, rate in per_second.items():
        print(f"  {name:34} {rate / 1e6:8.3f} M/s  {1e6 / rate:8.3f} us")
    for one, other in (
        ("kernel", "plain numpy gather"),
        ("kernel", "readable parser"),
        ("decode_batch (with run folding)", "readable parser"),
        ("readable parser", "kafka-python ApiData"),
    ):
        print(f"  {one} / {other}: {per_second[one] / per_second[other]:.2f}")
    print(f"  {records} records in {rows} rows: {records / rows:.1f} records a row")


def groups(repeats: int) -> None:
    """Print the table of groups."""
    print("GroupMetadata v3")
    for members in MEMBERS:
        key, value = group(members)
        times = max(1, 2_000 // members)
        taken = seconds({"": parser([(key, value)] * times)}, repeats)[""] / times
        print(f"  {members:6} members, {len(value):8} bytes: {taken * 1e6:10.1f} us, "
              f"{taken / members * 1e6:.2f} us a member")  # fmt: skip


def main() -> None:
    """Run both."""
    options = argparse.ArgumentParser(description="cost of decoding, one core")
    options.add_argument("--records", type=int, default=50_000)
    options.add_argument("--repeats", type=int, default=5)
    chosen = options.parse_args()
    commits(chosen.records, chosen.repeats)
    groups(chosen.repeats)


if __name__ == "__main__":
    main()
