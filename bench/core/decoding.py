"""What decoding costs on one core: ratios within one run, process time, best of several.

Commits: the kernel (find the commits, then gather group, topic, partition, offset and commit timestamp)
against the same gather alone with every position known, and against the readable parser; then the whole of
`decode_batch`, and how many records it folds into one row. The readable parser against kafka-python's
`ApiData.decode` with Kafka's schemas: its public call, which walks the schema in Python (the code that
it generates for broker responses has no public call for such classes). Groups: us per GroupMetadata
record by number of members. Prints tables and writes build/bench/decoders.json.

    python -m bench.core.decoding --records 50000
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import struct
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from kafka.protocol.api_data import ApiData

from rebalance_monitor.decoders import decode_batch, decode_record
from rebalance_monitor.decoders.batches.columns import Cells, cells, gather, view
from rebalance_monitor.decoders.batches.kernel import Commits, scan

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Json = dict[str, Any]
Pairs = list[tuple[bytes, bytes]]
# The readable paths take this many records: per record they are slow enough to measure.
SAMPLE = 20_000
OUT = Path(__file__).parents[2] / "build" / "bench" / "decoders.json"
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


def as_v3(pair: tuple[bytes, bytes]) -> tuple[bytes, bytes]:
    """Give a packed commit as Kafka 2.1 to 4.0 write it: v3, without topic id."""
    key, value = pair
    size = value[14] - 1
    return key, b"\0\3" + value[2:14] + struct.pack(">h", size) + value[15 : 15 + size + 8]


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


def group(members: int, seed: int = 1, *, alike: bool = True) -> tuple[bytes, bytes]:
    """Pack one GroupMetadata v3 as one application's group is: ids with a UUID, hosts of one network.

    Not `alike`: client ids, hosts and sizes of subscription and assignment differ from member to member.
    """
    chance = random.Random(seed)  # noqa: S311 - repeatable, not secret
    packed = b"".join(_member(chance, number, alike=alike) for number in range(members))
    head = b"\0\3" + string("consumer") + struct.pack(">i", 7) + string("range") + string("leader")
    return b"\0\2" + string("payments"), head + struct.pack(">qi", 1_700_000_000_000, members) + packed


def _member(chance: random.Random, number: int, *, alike: bool) -> bytes:
    client = "consumer-1" if alike else f"payments-{number}"
    host = f"/10.1.2.{chance.randrange(100, 200) if alike else chance.randrange(256)}"
    subscription, assignment = bytes(60), bytes(80 if alike else chance.choice((76, 80, 84)))
    name = string(f"{client}-{uuid.UUID(int=chance.getrandbits(128))}")
    return (
        name
        + b"\xff\xff"
        + string(client)
        + string(host)
        + struct.pack(">ii", 300_000, 45_000)
        + struct.pack(">i", len(subscription))
        + subscription
        + struct.pack(">i", len(assignment))
        + assignment
    )


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


def _api_data(fields: list[Json], newest: int) -> type[ApiData]:
    """Make a kafka-python message class from a schema of Kafka's, as its own ones are made.

    They are found by name among the package's resources; the patch puts the record's schema there.
    """
    schema = {
        "type": "data",
        "name": "Message",
        "validVersions": f"0-{newest}",
        "flexibleVersions": f"{newest}+" if newest else "none",
        "fields": fields,
    }
    patch = classmethod(lambda _, __: schema)
    made: type[Any] = type(ApiData)("ConsumerProtocolAssignment", (ApiData,), {"json_patch": patch})
    return made


def _field(name: str, kind: str, versions: str = "0+", **more: object) -> Json:
    return {"name": name, "type": kind, "versions": versions, **more}


COMMIT_KEY = [_field("group", "string"), _field("topic", "string"), _field("partition", "int32")]
COMMIT_VALUE = [
    _field("offset", "int64"),
    _field("leaderEpoch", "int32", "3+", default="-1"),
    _field("metadata", "string"),
    _field("commitTimestamp", "int64"),
    _field("expireTimestamp", "int64", "1", default="-1"),
    _field("topicId", "uuid", "4+", taggedVersions="4+", tag=0),
]
MEMBER = [
    _field("memberId", "string"),
    _field("groupInstanceId", "string", "3+", nullableVersions="3+", default="null"),
    _field("clientId", "string"),
    _field("clientHost", "string"),
    _field("rebalanceTimeout", "int32", "1+", default="-1"),
    _field("sessionTimeout", "int32"),
    _field("subscription", "bytes"),
    _field("assignment", "bytes"),
]
GROUP_KEY = [_field("group", "string")]
GROUP_VALUE = [
    _field("protocolType", "string"),
    _field("generation", "int32"),
    _field("protocol", "string", nullableVersions="0+"),
    _field("leader", "string", nullableVersions="0+"),
    _field("currentStateTimestamp", "int64", "2+", default="-1"),
    _field("members", "[]MemberMetadata", fields=MEMBER),
]


def api_data(pairs: Pairs, key_fields: list[Json], value_fields: list[Json]) -> Callable[[], None]:
    """Return the loop over kafka-python's `ApiData.decode`: the public call, type and version read by it."""
    key_class, value_class = _api_data(key_fields, 0), _api_data(value_fields, 4)

    def read() -> None:
        for key, value in pairs:
            key_class.decode(key)
            value_class.decode(value)

    return read


def parser(pairs: Pairs) -> Callable[[], None]:
    """Return the loop over the readable parser."""

    def read() -> None:
        for key, value in pairs:
            decode_record(key, value)

    return read


def seconds(works: Mapping[str, Callable[[], object]], repeats: int) -> dict[str, float]:
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


def commits(records: int, repeats: int) -> Json:
    """Print the table of commits; return records a second of each way."""
    pairs = traffic(records)
    whole, sample = batch(pairs), pairs[:SAMPLE]
    keys, values = cells(whole.column("key")), cells(whole.column("value"))
    found = scan(keys, values)
    works: Mapping[str, Callable[[], object]] = {
        "plain numpy gather": lambda: columns(keys, values, found),
        "kernel": lambda: columns(keys, values, scan(keys, values)),
        "kernel, positions only": lambda: scan(keys, values),
        "decode_batch (with run folding)": lambda: decode_batch(whole),
        "readable parser": parser(sample),
    }
    per_second = {
        name: (len(sample) if name == "readable parser" else records) / taken
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
    ):
        print(f"  {one} / {other}: {per_second[one] / per_second[other]:.2f}")
    print(f"  {records} records in {rows} rows: {records / rows:.1f} records a row")
    return per_second


def against_api_data(repeats: int) -> Json:
    """Print the readable parser's table against kafka-python's codec; return us a record of both."""
    found: Json = {}
    print("readable parser / kafka-python's ApiData.decode, on the same records")
    new = traffic(SAMPLE // 4)
    kinds: list[tuple[str, Pairs, list[Json], list[Json]]] = [
        ("commits v4, with topic id", new, COMMIT_KEY, COMMIT_VALUE),
        ("commits v3", [as_v3(pair) for pair in new], COMMIT_KEY, COMMIT_VALUE),
    ]
    kinds += [
        (
            f"groups of {members}{'' if alike else ', no two alike'}",
            [group(members, seed, alike=alike) for seed in range(1_000 // members)],
            GROUP_KEY,
            GROUP_VALUE,
        )
        for alike in (True, False)
        for members in MEMBERS[:4]
    ]
    for name, pairs, key_fields, value_fields in kinds:
        works = {"ours": parser(pairs), "theirs": api_data(pairs, key_fields, value_fields)}
        taken = {who: 1e6 * spent / len(pairs) for who, spent in seconds(works, repeats).items()}
        found[name] = taken
        print(f"  {name:30} {taken['ours']:9.2f} us, {taken['theirs']:9.2f} us: "
              f"{taken['theirs'] / taken['ours']:.2f}")  # fmt: skip
    return found


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
    """Run all."""
    options = argparse.ArgumentParser(description="cost of decoding, one core")
    options.add_argument("--records", type=int, default=50_000)
    options.add_argument("--repeats", type=int, default=5)
    chosen = options.parse_args()
    found = {"commits_per_s": commits(chosen.records, chosen.repeats), "us": against_api_data(chosen.repeats)}
    groups(chosen.repeats)
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
