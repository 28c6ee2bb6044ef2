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

TOPIC = "heavy-records"


@pytest.mark.broker
def test_a_heavy_record_is_named_by_its_place_and_one_that_cannot_be_unpacked_before_all_others(
    lab_broker: LabBroker,
) -> None:
    properties = {"bootstrap.servers": lab_broker.bootstrap}
    admin = AdminClient(properties)
    for future in admin.create_topics([NewTopic(TOPIC, 3, 1)]).values():
        future.result()
    write = Producer({**properties, "compression.type": "zstd", "message.max.bytes": 900_000_000})
    values = [(0, b"usual"), (0, bytes(HEAVY_BYTES)), (0, b"after"), (1, b"usual"), (2, b"usual")]
    for partition, value in [*values, (2, bytes(300 * MB)), (2, b"after")]:
        write.produce(TOPIC, value, b"k", partition)
        assert write.flush(60) == 0
    assert find_heavy(properties, {1: (0, 1)}, TOPIC) is None
    assert find_heavy(properties, {0: (-1, 3), 1: (0, 1)}, TOPIC) == HeavyRecord(0, 1, HEAVY_BYTES + 1)
    assert find_heavy(properties, {0: (2, 3), 1: (0, 1)}, TOPIC) is None
    assert find_heavy(properties, {0: (0, 3), 1: (0, 1), 2: (0, 3)}, TOPIC) == HeavyRecord(2, 1, -1)
    with pytest.raises(UnpackError, match=r"offset 1 of partition 2 .*source\.skip: \{2: 1\}"):
        list(read_records(properties, Reading({2: 0}, until={2: 3}), TOPIC))


def test_where_the_reader_ends_too_the_partition_that_it_had_begun_is_named() -> None:
    found = _answer([{"began": 3}, {"began": 7}], -9)
    assert found == HeavyRecord(7, -1, -1)
    assert "ended while it read partition 7" in found.sentence()


def test_what_could_not_be_read_is_an_error_and_no_acquittal() -> None:
    with pytest.raises(DependencyError, match="no broker"):
        _answer([{"began": 3}, {"error": "no broker"}], 0)
    with pytest.raises(DependencyError, match="code 1"):
        _answer([], 1)
