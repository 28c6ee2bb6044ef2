"""Oracle (a): Kafka's own classes: the checked-in corpus, its regeneration, damaged records read by Kafka."""

from __future__ import annotations

import json
import re

import pytest

from rebalance_monitor.cli.main import run
from rebalance_monitor.decoders import Decoded, Failure, coordinator_partition, decode_record
from rebalance_monitor.decoders.registry import RECORD_TYPES
from tests.fuzz import mutate, mutations, properties
from tests.oracle import corpus, kafka_java
from tests.oracle.compare import DIFFERENCES, EQUAL, verdict
from tests.oracle.needs import needs

CORPUS = corpus.load()
BY_TYPE = {label: [r for r in CORPUS if r.label.split(" ")[0] == label] for label in
           dict.fromkeys(r.label.split(" ")[0] for r in CORPUS)}  # fmt: skip


@pytest.mark.parametrize("name", BY_TYPE)
def test_every_record_reads_field_for_field_as_kafka_reads_it(name: str) -> None:
    differing = [r.label for r in BY_TYPE[name] if verdict(r.key, r.value, r.expected) != EQUAL]
    assert differing == []


def test_the_corpus_holds_every_type_and_value_version_that_we_claim_to_read() -> None:
    claimed = {(t.id, v) for t in RECORD_TYPES.values() if t.value is not None for v in range(t.newest + 1)}
    proven = {
        (r.expected["key"]["type"], r.expected["value"]["version"])
        for r in CORPUS
        if "refused" not in r.expected and r.expected["value"] is not None
    }
    # Kafka splits type 0 from type 1 and keeps only its version 0; brokers before 0.8.2 wrote no other.
    assert {pair for pair in claimed - proven if pair[0] != 0} == set()
    assert proven <= claimed


def test_tombstones_of_every_type_are_read() -> None:
    read = {found.type for r in CORPUS if isinstance(found := decode_record(r.key, None), Decoded)}
    assert read == {t.id for t in RECORD_TYPES.values() if t.value is not None}


def test_the_partition_of_a_group_is_the_one_kafka_computes() -> None:
    decoded = [(r, decode_record(r.key, r.value)) for r in CORPUS if "refused" not in r.expected]
    wrong = [
        r.label
        for r, found in decoded
        if isinstance(found, Failure)
        or coordinator_partition(found.key.group, corpus.PARTITIONS) != r.partition
    ]
    assert wrong == []


def test_no_record_of_the_corpus_breaks_a_property() -> None:
    pairs = [(r.key, r.value) for r in CORPUS]
    for pair in pairs:
        properties.check_record(pair)
    for pair in pairs[::40]:
        properties.check_allocation(pair)
    assert properties.check_batch(pairs) > 0


def test_damaged_records_break_no_property() -> None:
    tally = mutate.run(records=5_000, seed=20, seconds=60)
    assert tally.records == 5_000
    assert tally.failures["truncated"] > 0


def test_the_decode_command_prints_the_corpus_as_kafka_does(capfd: pytest.CaptureFixture[str]) -> None:
    run(["decode", "--capture", str(corpus.FOLDER)])
    lines = [json.loads(line) for line in capfd.readouterr().out.split("\n") if line]
    assert len(lines) == len(CORPUS)
    places = ("partition", "offset", "timestamp")
    for line, record in zip(lines, CORPUS, strict=True):
        assert [line[name] for name in places] == [record.expected[name] for name in places]
        if "refused" in record.expected:
            assert line["error"] is not None
        else:
            parts = ("key", "value")
            assert [line[part] for part in parts] == [record.expected[part] for part in parts]
            assert line["error"] is None


def filled_records() -> list[tuple[bytes | None, bytes | None]]:
    """One record of every type and value version, with every field set."""
    return [(r.key, r.value) for r in CORPUS if re.fullmatch(r"\w+ v\d+: filled", r.label)]


def test_no_forged_length_at_any_position_breaks_a_property() -> None:
    for record in filled_records():
        for broken in mutations.forged(record):
            properties.check_record(broken)


@pytest.mark.slow
@pytest.mark.parametrize("version", kafka_java.OLDER_RELEASES)
def test_what_an_older_kafka_writes_reads_as_it_reads_it(version: str) -> None:
    with needs():
        written = corpus.from_kafka(kafka_java.run(kafka_java.records_of(version), "write"))
    assert len(written) > 6_000
    assert [r.label for r in written if verdict(r.key, r.value, r.expected) != EQUAL] == []


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_every_forged_length_at_every_position_is_read_as_kafka_reads_it() -> None:
    broken = [record for whole in filled_records() for record in mutations.forged(whole)]
    with needs():
        counts = mutate.kafka_verdicts(broken)
    assert set(counts) <= {EQUAL, *DIFFERENCES}


@pytest.mark.slow
def test_kafka_writes_the_checked_in_corpus_byte_for_byte() -> None:
    with needs():
        written = corpus.from_kafka(kafka_java.run(kafka_java.RECORDS, "write"))
    assert [r.label for r in written] == [r.label for r in CORPUS]
    assert written == CORPUS


@pytest.mark.slow
def test_damaged_records_are_read_as_kafka_reads_them() -> None:
    with needs():
        counts = mutate.against_kafka(records=20_000, seed=21)
    assert set(counts) <= {EQUAL, *DIFFERENCES}
    assert counts[EQUAL] > counts.total() // 2
