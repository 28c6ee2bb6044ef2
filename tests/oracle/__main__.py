"""`python -m tests.oracle`: what Kafka's own classes say of our decoder; exits with 1 on any disagreement.

Regenerates the corpus with Kafka's classes and compares it byte for byte with the checked-in one,
compares our JSON of every record with Kafka's field for field, and lets Kafka read `--damaged` damaged
records beside us. When all agrees it writes the table of types, versions and oracles to
`docs/measurements/oracles.md`. `--accept` puts a corpus that differs in place of the checked-in one. Needs a
JDK and, the first time, Maven Central.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from rebalance_monitor.cluster.errors import DependencyError
from tests.fuzz import mutate
from tests.fuzz.properties import PropertyError
from tests.oracle import corpus, embedded, kafka_java, page
from tests.oracle.compare import EQUAL, verdict

PAGE = Path(__file__).parents[2] / "docs" / "measurements" / "oracles.md"


def main() -> int:
    """Run all comparisons; 0 when everything agrees, 1 when not, 3 when the oracle cannot run here."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--damaged", type=int, default=20_000, metavar="N")
    options.add_argument("--accept", action="store_true", help="replace the checked-in corpus")
    chosen = options.parse_args()
    try:
        return _run(chosen.damaged, accept=chosen.accept)
    except DependencyError as missing:
        sys.stderr.write(f"{missing}\n")
        return 3


def _run(damaged: int, *, accept: bool) -> int:
    written = corpus.from_kafka(kafka_java.run(kafka_java.RECORDS, "write"))
    lines = kafka_java.run(kafka_java.EMBEDDED)
    if accept:
        corpus.write(written, lines, kafka_java.RECORDS.kafka)
    records = corpus.load()
    same = written == records and lines == corpus.load_lines("embedded")
    _say(f"corpus of Kafka {kafka_java.RECORDS.kafka}: {len(records)} records, {len(lines)} embedded")
    _say("byte for byte what Kafka writes" if same else "DIFFERS from what Kafka writes")
    wrong = [*_differing(records), *embedded.differing(lines)]
    _say(f"read otherwise than by Kafka: {', '.join(wrong) or 'none'}")
    try:
        counts = mutate.against_kafka(damaged, seed=22)
    except PropertyError as broken:
        _say(f"UNEXPLAINED: {broken}")
        return 1
    _say(f"{counts.total()} damaged records, Kafka's verdict against ours: {dict(counts.most_common())}")
    if wrong or not same:
        return 1
    PAGE.write_text(page.text(records, lines, counts), encoding="utf-8")
    return 0


def _differing(records: list[corpus.Record]) -> list[str]:
    return [record.label for record in records if verdict(record.key, record.value, record.expected) != EQUAL]


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")


if __name__ == "__main__":
    sys.exit(main())
