"""What keeping and publishing positions costs a commit run, in the step of one shard, and in bytes of state.

Groups of three members commit every second, each member its own partitions, in batches of one second. These
batches go through `step` with positions and with the two calls that keep and publish them taken out; the
difference is what they cost. CPU time, best of several turns in alternation; bytes from the blob.

    python -m bench.core.positions --groups 200 --width 10
"""

from __future__ import annotations

import argparse
import time
from struct import pack
from typing import TYPE_CHECKING
from unittest.mock import patch

from bench.traffic.mix import MEMBERS
from rebalance_monitor.coordinator.lag import publishing
from rebalance_monitor.coordinator.settings import DetectionSettings
from rebalance_monitor.decoders import Row, rows
from rebalance_monitor.engine.batch.step import Plan, step

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rebalance_monitor.checkpoints.state.codec import Stored

T0 = 1_795_000_000_000
PLAN = Plan(DetectionSettings(), "bench", {})


def text(value: str) -> bytes:
    """Pack a STRING."""
    return pack(">H", len(value.encode())) + value.encode()


def blob(raw: bytes) -> bytes:
    """Pack BYTES."""
    return pack(">i", len(raw)) + raw


def shares(width: int) -> list[tuple[int, ...]]:
    """Give each member its partitions."""
    return [tuple(range(width))[member::MEMBERS] for member in range(MEMBERS)]


def metadata(group: str, width: int) -> bytes:
    """Make the record of a generation in which each member has its share."""
    out = pack(">h", 3) + text("consumer") + pack(">i", 1) + text("range") + text("m0")
    out += pack(">qi", T0, MEMBERS)
    for number, share in enumerate(shares(width)):
        subscribed = pack(">hi", 3, 1) + text("orders") + pack(">iii", -1, 0, 0) + b"\xff\xff"
        given = pack(">hi", 0, 1) + text("orders") + pack(f">i{len(share)}i", len(share), *share)
        out += text(f"m{number}") + b"\xff\xff" + text(f"{group}-{number}") + text("/10.0.0.1")
        out += pack(">ii", 300_000, 45_000) + blob(subscribed) + blob(given + pack(">i", -1))
    return out


def batches(groups: int, width: int, count: int, every_s: int) -> Iterator[tuple[int, list[Row]]]:
    """Yield (timestamp, rows) of batches of one second; each member commits every `every_s` seconds."""
    offset = 0
    begun = []
    for number in range(groups):
        name = f"group-{number:05}"
        body = rows.record_body(b"\0\2" + text(name), metadata(name, width))
        begun.append(Row(0, 0, rows.RECORD, offset, offset, T0, name, -1, 1, body))
        offset += 1
    yield T0 + 1_000, begun
    for second in range(count):
        found = []
        at = T0 + 1_000 * (second + 1)
        for number in range(groups):
            if (second + number) % every_s:
                continue
            for member, share in enumerate(shares(width)):
                parts = b"".join(
                    rows.partition_entry(None if place else b"orders", p) for place, p in enumerate(share)
                )
                body = rows.run_body(
                    parts, pack(f">{len(share)}q", *[10**9 + second * 50 + p for p in share])
                )
                last, when = offset + len(share) - 1, at + member
                name = f"group-{number:05}"
                found.append(Row(0, 0, rows.COMMIT_RUN, offset, last, when, name, when, len(share), body))
                offset = last + 1
        yield at + 1_000, found


def turn(given: list[tuple[int, list[Row]]]) -> tuple[float, int, int]:
    """Return CPU seconds, bytes of the last blob, and positions published."""
    stored: Stored | None = None
    published, began = 0, time.process_time()
    for now, found in given:
        stored, out = step(PLAN, 0, 0, found, now, stored, ticks=True)
        published += sum(row.row_kind == "positions" for row in out)
    return time.process_time() - began, len(stored.blob) if stored else 0, published


def without(given: list[tuple[int, list[Row]]]) -> tuple[float, int, int]:
    """Do the same without positions."""
    with (
        patch.object(publishing, "on_commits", lambda *_: None),
        patch.object(publishing, "publish", lambda *_: []),
    ):
        return turn(given)


def main() -> None:
    """Print one line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--groups", type=int, default=200)
    parser.add_argument("--width", type=int, default=10)
    parser.add_argument("--batches", type=int, default=60)
    parser.add_argument("--every", type=int, default=1, help="seconds between a member's commits")
    parser.add_argument("--turns", type=int, default=5)
    options = parser.parse_args()
    given = list(batches(options.groups, options.width, options.batches, options.every))
    runs = sum(len(found) for _, found in given[1:])
    pairs = [(turn(given), without(given)) for _ in range(options.turns)]
    on, off = min(one[0] for one, _ in pairs), min(other[0] for _, other in pairs)
    partitions = options.groups * options.width
    print(
        f"{runs} runs: {off / runs * 1e6:.2f} us without, {on / runs * 1e6:.2f} us with"
        f" ({100 * (on / off - 1):+.1f} %); {pairs[0][0][2]} rows published;"
        f" state {(pairs[0][0][1] - pairs[0][1][1]) / partitions:.1f} bytes a partition more"
    )


if __name__ == "__main__":
    main()
