"""What a batch's time is worth: the ends that were asked for before it have been read, or they have not."""

from __future__ import annotations

import threading
import time
from itertools import count
from typing import TYPE_CHECKING

import pytest

from rebalance_monitor.cluster.clients.reader import Reading, RecordReader
from rebalance_monitor.engine.batch.step import Extent
from rebalance_monitor.engine.embedded.feed import CHANGE_S, NAP_S, WAIT_S, Fed, Feed
from tests.cluster.clients.test_reader import Consumer, Message, eof

if TYPE_CHECKING:
    from collections.abc import Iterable


class Ends:
    """Gives the answers that it was given, the last one again and again."""

    def __init__(self, *answers: dict[int, int] | None) -> None:
        self.answers = list(answers)

    def ask(self, _partitions: Iterable[int]) -> dict[int, int] | None:
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


def feed(ends: Ends, *answers: list[Message], most: float | None = None) -> Feed:
    reader = RecordReader({"bootstrap.servers": "localhost:1"}, Reading({0: 0}), "t")
    reader.consumer.close()
    reader.consumer = Consumer(*answers)
    clock = count(1_000, 1_000)
    stop = threading.Event()
    return Feed(reader, ends, stop, every_s=0.0, most=most, wall_ms=lambda: next(clock))  # type: ignore[arg-type]


def offsets(found: Feed) -> tuple[list[int], int, Extent]:
    fed = found.next()
    return [at for batch in fed.records for at in batch.column("offset").to_pylist()], fed.now, fed.extent


def test_a_batch_reads_up_to_the_ends_that_were_asked_for_before_it() -> None:
    found = feed(Ends({0: 4}), [Message(0)], [Message(1), Message(2)], [Message(3)])
    assert offsets(found) == ([0, 1, 2, 3], 1_000, Extent.USUAL)


def test_ends_that_are_not_reached_make_the_batch_limited_and_the_next_one_may_be_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("rebalance_monitor.engine.embedded.feed.PATIENCE_S", 0.0)
    found = feed(Ends({0: 9}, {0: 2}), [Message(0)], [Message(1)])
    assert offsets(found) == ([0], 1_000, Extent.LIMITED)
    assert offsets(found) == ([1], 2_000, Extent.USUAL)


def test_an_end_of_partition_that_came_long_ago_proves_nothing_of_now(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("rebalance_monitor.engine.embedded.feed.PATIENCE_S", 0.0)
    found = feed(Ends({0: 1}, {0: 2}), [Message(0), eof(1)])
    assert offsets(found)[2] is Extent.USUAL
    assert offsets(found) == ([], 2_000, Extent.LIMITED)


def test_brokers_that_do_not_say_where_the_topic_ends_make_the_batch_limited() -> None:
    assert offsets(feed(Ends(None), [Message(0), eof(1)])) == ([0], 1_000, Extent.LIMITED)


def test_a_partition_that_nobody_leads_is_named_and_the_others_are_read_to_their_ends() -> None:
    found = feed(Ends({0: 1}), [Message(0), eof(1)])
    found._reader.reading.start = {0: 0, 1: 0}
    fed = found.next()
    assert (fed.extent, fed.unled, fed.lag) == (Extent.USUAL, (1,), 0)


def test_brokers_that_say_nothing_for_long_are_said_to_be_silent_until_one_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = feed(Ends({0: 1}, None, {0: 1}), [Message(0), eof(1)])
    found.next()
    monkeypatch.setattr("rebalance_monitor.engine.embedded.feed.AWAY_S", -1.0)
    found.next()
    assert "No broker has said for" in found.silence
    monkeypatch.undo()
    found.next()
    assert found.silence == ""


def test_a_batch_that_takes_long_is_no_silence_of_the_brokers(monkeypatch: pytest.MonkeyPatch) -> None:
    found = feed(Ends({0: 1}, None, {0: 1}), [Message(0)])
    found.next()
    later = time.monotonic() + 60.0
    monkeypatch.setattr("rebalance_monitor.engine.embedded.feed.time.monotonic", lambda: later)
    found.next()
    assert found.silence == ""


def test_partitions_that_nobody_leads_for_long_are_named_until_all_are_led(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = feed(Ends({0: 1}, {0: 1}, {0: 1, 1: 0}), [Message(0), eof(1)])
    found._reader.reading.start = {0: 0, 1: 0}
    # A leader that has just died has a successor soon.
    assert found.next().unled == (1,)
    assert found.abandoned == ()
    monkeypatch.setattr("rebalance_monitor.engine.embedded.feed.AWAY_S", -1.0)
    found.next()
    assert found.abandoned == (1,)
    found.next()
    assert found.abandoned == ()


def test_offsets_without_records_at_the_end_are_read_once_their_end_is_published() -> None:
    found = feed(Ends({0: 5}), [Message(0)], [eof(5)])
    assert offsets(found) == ([0], 1_000, Extent.USUAL)


def test_what_is_read_beyond_the_cap_is_waited_for() -> None:
    waits: list[float] = []
    found = feed(Ends({0: 3}), [Message(0), Message(1), Message(2)], most=1.0)
    found._stop.wait = lambda seconds=None: bool(waits.append(seconds or 0.0))  # type: ignore[method-assign]
    assert offsets(found)[0] == [0, 1, 2]
    # Six bytes at one a second, of which the first second's come at once.
    assert [round(wait) for wait in waits] == [5]


class Patient(Consumer):
    """Notes how many messages it is asked for, and for how long."""

    def __init__(self, *answers: list[Message]) -> None:
        super().__init__(*answers)
        self.asked: list[tuple[int, float]] = []

    def consume(self, number: int, timeout: float) -> list[Message]:
        self.asked.append((number, timeout))
        return super().consume(number, timeout)


def test_a_record_that_comes_after_a_lull_waits_for_no_other_one() -> None:
    found = feed(Ends({0: 1}))
    found._reader.consumer = consumer = Patient([], [], [Message(0)])
    found._due, found._ended = found._due + 3_600.0, found._ended - 3_600.0
    assert offsets(found)[0] == [0]
    *naps, gathered = consumer.asked
    assert naps == [(1, NAP_S)] * 3
    assert gathered[1] == 0.0


def just_after_a_batch(first: Message) -> tuple[list[int], float]:
    """The offsets of a batch whose first record comes just after the one before, and how long it waited."""
    found = feed(Ends({0: 2}))
    found._reader.consumer = Consumer([first], [Message(1)])
    now, waits = found._ended, list[float]()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("time.monotonic", lambda: now + sum(waits))
        patch.setattr(found._stop, "wait", waits.append)
        found._due = now + 3_600.0
        return offsets(found)[0], sum(waits)


@pytest.mark.parametrize("key", [b"\0\0\0\1g", b"\0\1\0\1g\0\1t", b"\1", b""])
def test_a_commit_that_comes_just_after_a_batch_waits_for_others(key: bytes) -> None:
    read, waited = just_after_a_batch(Message(0, named=key))
    assert read == [0, 1]
    assert waited == pytest.approx(WAIT_S)


@pytest.mark.parametrize("key", [b"\0\2\0\1g", b"\0\3\0\1g", b"\0\x15\0\1g", b"\1\1\0\1g"])
def test_a_record_of_a_groups_members_ends_its_batch_sooner_than_a_commit(key: bytes) -> None:
    read, waited = just_after_a_batch(Message(0, named=key))
    assert read == [0, 1]
    assert waited == pytest.approx(CHANGE_S)


def test_the_reader_sleeps_while_others_come_and_the_client_is_not_asked_to_wait_for_them() -> None:
    found = feed(Ends({0: 2}))
    found._reader.consumer = consumer = Patient([Message(0)], [Message(1)])
    found._due = found._ended + 3_600.0
    assert offsets(found)[0] == [0, 1]
    assert {wait for _, wait in consumer.asked[1:]} == {0.0}


def history(records: int, monkeypatch: pytest.MonkeyPatch) -> list[Fed]:
    """Batches that may have the bytes of `records`, of 40 that are there; the reader cuts after two."""
    size = len(Message(0)) + len(Message(0).key())
    monkeypatch.setattr("rebalance_monitor.cluster.clients.reader.BATCH_ROWS", 2)
    monkeypatch.setattr("rebalance_monitor.engine.embedded.feed.HISTORY_BYTES", records * size)
    found = feed(Ends({0: 40}), *([Message(at), Message(at + 1)] for at in range(0, 40, 2)))
    batches = [found.next()]
    while batches[-1].extent is Extent.LIMITED:
        batches.append(found.next())
    read = [batch.column("offset").to_pylist() for one in batches for batch in one.records]
    assert [offset for some in read for offset in some] == list(range(40))
    assert [one.until[0] for one in batches] == [
        one.records[-1].column("offset")[-1].as_py() + 1 for one in batches
    ]
    return batches


def test_a_batch_of_history_holds_cuts_up_to_its_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    batches = history(10, monkeypatch)
    assert [sum(cut.num_rows for cut in one.records) for one in batches] == [10] * 4
    assert all(len(one.records) > 1 for one in batches)


def test_a_batch_of_history_whose_first_cut_has_all_its_bytes_holds_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert {len(one.records) for one in history(1, monkeypatch)} == {1}
