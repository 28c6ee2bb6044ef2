"""The record that a heap did not hold is found and named, whatever it does to its reader."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from rebalance_monitor.cluster.captures.heavy import HEAVY_BYTES, MB, HeavyRecord, _answer, find_heavy
from rebalance_monitor.cluster.clients.reader import Reading, UnpackError, read_records
from rebalance_monitor.cluster.errors import DependencyError

if TYPE_CHECKING:
    from rebalance_monitor.lab.cluster.broker import LabBroker


@pytest.mark.broker
@pytest.mark.parametrize(
    "codec", ["zstd", *(pytest.param(codec, marks=pytest.mark.slow) for codec in ("gzip", "lz4", "snappy"))]
)
def test_a_heavy_record_is_named_with_the_end_of_its_batch_and_one_beyond_the_bound_before_all_others(
    lab_broker: LabBroker, codec: str
) -> None:
    properties, topic = {"bootstrap.servers": lab_broker.bootstrap}, f"heavy-{codec}"
    admin = AdminClient(properties)
    # Snappy makes a twentieth of zeros: less than this, and the broker refuses the batch.
    made = NewTopic(topic, 3, 1, config={"max.message.bytes": "20000000"})
    for future in admin.create_topics([made]).values():
        future.result()
    # What is flushed at once is one batch.
    one_batch = {"message.max.bytes": 900_000_000, "batch.size": 1_000_000_000, "linger.ms": 1_000}
    write = Producer({**properties, **one_batch, "compression.type": codec})
    usual, heavy, beyond = b"usual", bytes(HEAVY_BYTES), bytes(101 * MB)
    for partition, values in ((0, [usual, heavy, usual]), (1, [usual]), (2, [usual, beyond, usual])):
        for value in values:
            write.produce(topic, value, b"k", partition)
        assert write.flush(60) == 0
    write.produce(topic, usual, b"k", 2)
    assert write.flush(60) == 0
    assert find_heavy(properties, {1: (0, 1)}, topic) is None
    assert find_heavy(properties, {0: (-1, 3), 1: (0, 1)}, topic) == HeavyRecord(0, 1, HEAVY_BYTES + 1, 2)
    assert find_heavy(properties, {0: (2, 3), 1: (0, 1)}, topic) is None
    found = find_heavy(properties, {0: (0, 3), 1: (0, 1), 2: (0, 4)}, topic)
    assert found is not None
    assert (found.partition, found.bytes, found.last, found.skip) == (2, -1, 2, {2: 2})
    with pytest.raises(UnpackError, match=r"of partition 2 .*source\.skip: \{2: 2\}"):
        list(read_records(properties, Reading({2: 0}, until={2: 4}), topic))
    behind = list(read_records(properties, Reading({2: 3}, until={2: 4}), topic))
    assert [batch.column("offset").to_pylist() for batch in behind] == [[3]]


def test_where_the_reader_ends_too_the_partition_that_it_had_begun_is_named() -> None:
    found = _answer([{"began": 3}, {"began": 7}], -9)
    assert found == HeavyRecord(7, -1, -1)
    assert "ended while it read partition 7" in found.sentence()


def test_what_could_not_be_read_is_an_error_and_no_acquittal() -> None:
    with pytest.raises(DependencyError, match="no broker"):
        _answer([{"began": 3}, {"error": "no broker"}], 0)
    with pytest.raises(DependencyError, match="code 1"):
        _answer([], 1)
