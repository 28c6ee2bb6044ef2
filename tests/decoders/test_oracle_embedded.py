"""Oracle (a) for what is embedded in group metadata: the classes of Kafka's clients, Connect and Streams."""

from __future__ import annotations

import pytest

from tests.oracle import corpus, embedded, kafka_java
from tests.oracle.needs import needs

LINES = corpus.load_lines("embedded")


@pytest.mark.parametrize("kind", embedded.KINDS)
def test_every_embedded_structure_reads_as_its_own_classes_read_it(kind: str) -> None:
    lines = [line for line in LINES if line["kind"] == kind]
    assert len(lines) > 0
    assert embedded.differing(lines) == []


@pytest.mark.slow
def test_kafka_writes_the_checked_in_embedded_corpus_byte_for_byte() -> None:
    with needs():
        written = kafka_java.run(kafka_java.EMBEDDED)
    assert written == LINES
