"""Reading a record for its batch and then for its shard."""

from __future__ import annotations

from bench.traffic.mix import Mix, groups_of, new_generation
from rebalance_monitor.decoders import decode_record
from rebalance_monitor.engine.batch.read_once import ReadOnce

MIX = Mix(3, 4, 0, 0)


def test_the_second_reading_takes_what_the_first_one_made_and_a_third_reads_anew() -> None:
    record, read = new_generation(groups_of(MIX)[0], MIX, 7), ReadOnce()
    first = read.first(record.key, record.value)
    assert read.again(bytes(bytearray(record.key)), bytes(bytearray(record.value or b""))) is first
    again = read.again(record.key, record.value)
    assert again is not first
    assert first == again == decode_record(record.key, record.value)


def test_what_waits_for_its_second_reading_is_bounded_and_the_newest_waits() -> None:
    read = ReadOnce(most_bytes=400)
    values = [number.to_bytes(4, "big") for number in range(300)]
    found = [read.first(b"", value) for value in values]
    # Those that are read anew take no place from the others.
    again = [read.again(b"", value) for value in values]
    assert [one is two for one, two in zip(found, again, strict=True)] == [False] * 200 + [True] * 100


def test_a_record_that_is_larger_than_all_that_may_wait_is_read_twice() -> None:
    read = ReadOnce(most_bytes=4)
    small, large = read.first(b"", b"1234"), read.first(b"", b"12345")
    assert read.again(b"", b"1234") is small
    assert read.again(b"", b"12345") is not large


def test_a_record_that_comes_twice_waits_once() -> None:
    read = ReadOnce(most_bytes=4)
    found = [read.first(b"", b"1234") for _ in range(3)]
    assert read.again(b"", b"1234") is found[0] is found[2]
    assert read.first(b"", b"abcd") is read.again(b"", b"abcd")
