"""What `replay` costs: records per CPU second of the pure core, and how much of it is reading and decoding.

Writes a capture of the mix (or takes one), replays it in this process and measures CPU seconds, which noise
of the machine disturbs less than elapsed ones. The best round counts; the first one, in which libraries are
loaded, stands beside. The digest of all findings as JSON lines says whether two versions found the same.
Prints a table and writes build/bench/replay.json.

    python -m bench.core.replay --records 600000 --groups 1000
    python -m bench.core.replay --capture path/to/capture
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from hashlib import sha256
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from bench.traffic.mix import Message, Mix, messages
from rebalance_monitor.cluster.captures.capture import Metadata, conform, read_capture, write_capture
from rebalance_monitor.coordinator.findings.finding import to_json
from rebalance_monitor.coordinator.settings import DetectionSettings
from rebalance_monitor.decoders import decode_batch
from rebalance_monitor.engine.replay.replaying import BATCH_ROWS, replay_capture

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

UNTIL, SHARDS, CHUNK = 1_795_000_000_000, 50, 50_000
OUT = Path(__file__).parents[2] / "build" / "bench" / "replay.json"


def made(records: int, groups: int, path: Path) -> None:
    """Write a capture of the mix at `path`."""
    found = chain.from_iterable(messages(Mix(groups, 10, records, UNTIL)))
    write_capture(path, _batches(found), Metadata(cluster_id="bench", partitions=SHARDS))


def _batches(found: Iterator[Message]) -> Iterator[pa.RecordBatch]:
    ends = dict.fromkeys(range(SHARDS), 0)
    while part := list(islice(found, CHUNK)):
        offsets = []
        for message in part:
            offsets.append(ends[message.partition])
            ends[message.partition] += 1
        columns = {
            "key": pa.array([m.key for m in part], pa.binary()),
            "value": pa.array([m.value for m in part], pa.binary()),
            "partition": pa.array([m.partition for m in part], pa.int32()),
            "offset": pa.array(offsets, pa.int64()),
            "timestamp": pa.array([m.timestamp for m in part], pa.timestamp("ms", tz="UTC")),
        }
        yield conform(pa.RecordBatch.from_pydict(columns))


def reading(path: Path) -> None:
    """Read the capture as `replay` does, and nothing else."""
    with read_capture(path).by_partition(BATCH_ROWS) as streams:
        for stream in streams.values():
            for _ in stream:
                pass


def decoding(path: Path) -> None:
    """Read the capture and decode it to rows."""
    with read_capture(path).by_partition(BATCH_ROWS) as streams:
        for stream in streams.values():
            for batch in stream:
                decode_batch(batch)


def replay(path: Path) -> tuple[int, str]:
    """Replay the capture; return the number of findings and the digest of their lines."""
    number, digest = 0, sha256()
    for finding in replay_capture(path, DetectionSettings()):
        digest.update(to_json(finding).encode() + b"\n")
        number += 1
    return number, digest.hexdigest()


def cost(run: Callable[[Path], Any], path: Path, rounds: int) -> list[float]:
    """CPU seconds of each round."""
    spent = []
    for _ in range(rounds):
        began = time.process_time()
        run(path)
        spent.append(time.process_time() - began)
    return spent


def measured(path: Path, rounds: int) -> dict[str, Any]:
    """Measure one capture."""
    records = read_capture(path).rows
    whole = cost(replay, path, rounds + 1)
    seconds = {
        "reading": min(cost(reading, path, rounds)),
        "reading and decoding": min(cost(decoding, path, rounds)),
        "first replay": whole[0],
        "replay": min(whole[1:]),
    }
    number, digest = replay(path)
    per_million = {name: round(one / records * 1e6, 2) for name, one in seconds.items()}
    return {
        "records": records,
        "findings": number,
        "digest": digest,
        "cpu_s_per_million": per_million,
        "records_per_cpu_s": round(records / seconds["replay"]),
    }


def main() -> None:
    """Measure, print and keep."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=600_000)
    parser.add_argument("--groups", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--capture", type=Path, help="a capture of your own, instead of the mix")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-replay-") as folder:
        path = given.capture or Path(folder) / "capture"
        if not given.capture:
            made(given.records, given.groups, path)
        found = measured(path, given.rounds)
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text(json.dumps(found, indent=1) + "\n")
    for part, seconds in found.pop("cpu_s_per_million").items():
        print(f"{part:24}{seconds:>10} CPU-s per million")
    for name, value in found.items():
        print(f"{name:24}{value:>10}")


if __name__ == "__main__":
    main()
