"""Oracle (a) for what is embedded in group metadata: the classes of Kafka's clients, Connect and Streams."""

from __future__ import annotations

import base64
import dataclasses
import random

import pytest

from rebalance_monitor.decoders import Failure
from tests.fuzz import mutations
from tests.oracle import corpus, embedded, kafka_java
from tests.oracle.needs import needs

LINES = corpus.load_lines("embedded")


@pytest.mark.parametrize("kind", embedded.KINDS)
def test_every_embedded_structure_reads_as_its_own_classes_read_it(kind: str) -> None:
    lines = [line for line in LINES if line["kind"] == kind]
    assert len(lines) > 0
    assert embedded.differing(lines) == []


def test_no_damage_to_an_embedded_structure_raises() -> None:
    chance = random.Random(30)  # noqa: S311 - repeatable on purpose
    for line in LINES:
        whole = base64.b64decode(line["bytes"])
        cut = [whole[:length] for length in range(min(len(whole), 300))]
        for broken in (*cut, *(mutations.changed(whole, chance) or b"" for _ in range(20))):
            found = embedded.read(line["kind"], broken)
            assert isinstance(found, Failure) or dataclasses.is_dataclass(found)


@pytest.mark.slow
def test_kafka_writes_the_checked_in_embedded_corpus_byte_for_byte() -> None:
    with needs():
        written = kafka_java.run(kafka_java.EMBEDDED)
    assert written == LINES
