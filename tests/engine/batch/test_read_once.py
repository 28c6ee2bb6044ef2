"""Reading a record for its batch and then for its shard."""

from __future__ import annotations

from bench.traffic.mix import Mix, groups_of, new_generation
from rebalance_monitor.decoders import decode_record
from rebalance_monitor.engine.batch.read_once import MOST, ReadOnce

MIX = Mix(3, 4, 0, 0)


def test_the_second_reading_takes_what_the_first_one_made_and_a_third_reads_anew() -> None:
    record, read = new_generation(groups_of(MIX)[0], MIX, 7), ReadOnce()
    first = read(record.key, record.value)
    assert read(bytes(bytearray(record.key)), bytes(bytearray(record.value or b""))) is first
    again = read(record.key, record.value)
    assert again is not first
    assert first == again == decode_record(record.key, record.value)


def test_what_waits_for_its_second_reading_is_bounded_and_ends_with_the_batch() -> None:
    read = ReadOnce()
    found = [read(b"", number.to_bytes(4, "big")) for number in range(MOST + 1)]
    assert read(b"", (0).to_bytes(4, "big")) is found[0]
    assert read(b"", MOST.to_bytes(4, "big")) is not found[MOST]
    read.forget()
    assert read(b"", (1).to_bytes(4, "big")) is not found[1]
