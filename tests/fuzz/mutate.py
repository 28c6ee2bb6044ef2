"""The mutation run: `python -m tests.fuzz.mutate --records 1000000 --seed 1`.

Takes the corpus, damages its records, and checks on each what must hold of every record: never an exception,
linear time, bounded memory (on a sample), and batch decoding that tells the same as the readable parser. With
`--kafka N` the first N are also read by Kafka's own deserializer, and every verdict must agree or differ by a
named difference. Prints one line of figures; exits with 1 at the first record that breaks a property, and
prints its bytes in hex.
"""

from __future__ import annotations

import argparse
import base64
import random
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING

from rebalance_monitor.decoders import Failure
from tests.fuzz.mutations import Pair, damaged
from tests.fuzz.properties import PropertyError, check_allocation, check_batch, check_record, size_of
from tests.oracle import corpus, kafka_java
from tests.oracle.compare import UNEXPLAINED, verdict

if TYPE_CHECKING:
    from collections.abc import Iterator

BATCH = 500
LARGEST_SEED = 2048
ALLOCATION_SAMPLE = 25


@dataclass(slots=True)
class Tally:
    """What the run saw."""

    records: int = 0
    failures: Counter[str] = field(default_factory=Counter)
    rows: int = 0
    most_allocated: float = 0.0

    def text(self, seconds: float) -> str:
        """Give the figures as one line."""
        reasons = ", ".join(f"{reason} {count}" for reason, count in sorted(self.failures.items()))
        return (
            f"{self.records} damaged records in {seconds:.0f} s: "
            f"{self.records - self.failures.total()} read, {self.failures.total()} refused ({reasons}), "
            f"{self.rows} rows, "
            f"at most {self.most_allocated:.0f} bytes allocated per byte above 1 KiB, no surprise"
        )


def seeds() -> list[Pair]:
    """Give the corpus' records that Kafka reads; commits weigh as much as all others together."""
    found = [(r.key, r.value) for r in corpus.load() if "refused" not in r.expected]
    small = [pair for pair in found if size_of(pair) <= LARGEST_SEED]
    commits = [pair for pair in small if (pair[0] or b"")[:2] in (b"\0\0", b"\0\1")]
    return small + commits * (len(small) // len(commits))


def stream(seed: int) -> Iterator[Pair]:
    """Yield damaged records for ever, always the same for one seed.

    One record in three comes as a burst of itself, damaged and whole, so that commits form runs with holes.
    """
    chance = random.Random(seed)  # noqa: S311 - repeatable on purpose
    pool = seeds()
    while True:
        record = chance.choice(pool)
        yield damaged(record, pool, chance)
        for _ in range(chance.choice((0, 0, 4))):
            yield chance.choice((record, damaged(record, pool, chance)))


def run(records: int, seed: int, seconds: float) -> Tally:
    """Check `records` damaged records, or as many as `seconds` allow; raises `PropertyError`."""
    tally = Tally()
    deadline = time.monotonic() + seconds
    source = islice(stream(seed), records)
    while (batch := list(islice(source, BATCH))) and time.monotonic() < deadline:
        _check(batch, tally)
    return tally


def _check(batch: list[Pair], tally: Tally) -> None:
    for record in batch:
        found = check_record(record)
        if isinstance(found, Failure):
            tally.failures[found.reason] += 1
    for record in batch[::ALLOCATION_SAMPLE]:
        per_byte = check_allocation(record) / (1024 + size_of(record))
        tally.most_allocated = max(tally.most_allocated, per_byte)
    tally.rows += check_batch(batch)
    tally.records += len(batch)


def against_kafka(records: int, seed: int) -> Counter[str]:
    """Let Kafka read the first `records` damaged records; count equal and named differences."""
    return kafka_verdicts([pair for pair in islice(stream(seed), records) if pair[0] is not None])


def kafka_verdicts(batch: list[Pair]) -> Counter[str]:
    """Let Kafka read `batch`; count equal and named differences. Raises `PropertyError` for any other."""
    answers = kafka_java.run(kafka_java.RECORDS, "read", lines=(f"{_text(k)} {_text(v)}" for k, v in batch))
    counts: Counter[str] = Counter()
    for (key, value), kafka in zip(batch, answers, strict=True):
        found = verdict(key, value, kafka)
        if found == UNEXPLAINED:
            raise PropertyError(f"Kafka says {kafka}", (key, value))
        counts[found] += 1
    return counts


def _text(data: bytes | None) -> str:
    return "-" if data is None else base64.b64encode(data).decode()


def say(line: str) -> None:
    """Print one line."""
    sys.stdout.write(f"{line}\n")


def main() -> int:
    """Run from the command line."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--records", type=int, default=1_000_000)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--seconds", type=float, default=1800, help="stop after this long")
    options.add_argument("--kafka", type=int, default=0, metavar="N", help="let Kafka read the first N too")
    chosen = options.parse_args()
    started = time.monotonic()
    try:
        tally = run(chosen.records, chosen.seed, chosen.seconds)
        say(tally.text(time.monotonic() - started))
        if chosen.kafka:
            say(f"against Kafka: {dict(against_kafka(chosen.kafka, chosen.seed))}")
    except PropertyError as broken:
        sys.stderr.write(f"seed {chosen.seed}: {broken}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
