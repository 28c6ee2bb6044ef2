"""What the dispatcher keeps, on every kind of place; and a store that is slow, away or lost to another."""

from __future__ import annotations

import json
import os
import threading
import time
import uuid
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from rebalance_monitor.alerts.dispatch.dispatch import Dispatch
from rebalance_monitor.alerts.dispatch.plan import Memory
from rebalance_monitor.alerts.dispatch.rehearsal import rehearse
from rebalance_monitor.alerts.runtime.inbox import Inbox
from rebalance_monitor.alerts.runtime.journal import Journal
from rebalance_monitor.alerts.runtime.memory_file import MemoryFile, MemoryFileError
from rebalance_monitor.alerts.runtime.silences import SilenceFiles, Silences
from rebalance_monitor.alerts.setup.receivers import plan_of
from rebalance_monitor.checkpoints.errors import FolderInUseError
from rebalance_monitor.checkpoints.storage import lease
from rebalance_monitor.checkpoints.storage.files import locked
from rebalance_monitor.checkpoints.storage.lines import read_lines
from rebalance_monitor.config.model import Settings
from rebalance_monitor.coordinator.findings.finding import to_json
from rebalance_monitor.coordinator.findings.kinds import Kind
from tests.alerts.dispatch.test_crashes import Story
from tests.alerts.support.findings import AT, finding
from tests.alerts.support.memo import SECTION, Memo, dispatching, eventually, storm
from tests.checkpoints.stores import faulty_place, s3_place

if TYPE_CHECKING:
    from pathlib import Path

    from rebalance_monitor.checkpoints.storage.places import Place


@pytest.fixture(params=["path", "moves_onto_nothing", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    match request.param:
        case "path":
            return tmp_path
        case "moves_onto_nothing":
            return faulty_place(tmp_path)
        case _:
            return s3_place(request.getfixturevalue("s3"), uuid.uuid4().hex)


def test_the_inbox_gives_back_what_is_final_in_its_order(place: Place) -> None:
    inbox = Inbox(place / "inbox")
    assert inbox.open({}) == []
    for number in (9, 10, 11):
        inbox.put(("q", number), [storm("opened", f"g{number}")])
    inbox.put(("q", 10), [])
    inbox.put(("monitor", 0), [storm("opened", "m")])
    again = Inbox(place / "inbox")
    names = again.open({"q": 10, "monitor": 0})
    assert sorted(names) == [("monitor", 0), ("q", 9)]
    inbox.put(("q", 10), [storm("opened", "g10")])
    names = again.open({"q": 11})
    assert [name for name in names if name[0] == "q"] == [("q", 9), ("q", 10)]
    assert [found.group for found in again.read(("q", 10))] == ["g10"]
    again.drop(("q", 10))
    assert (again.has(("q", 10)), again.read(("q", 10)), again.has(("q", 9))) == (False, [], True)


def test_the_memory_comes_back_after_every_save(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda _descriptor: None)
    story = Story(place, 1)
    moves = [("open", "a"), ("wait", 30), ("open", "b"), ("update", "a"), ("wait", 20), ("end", "b")] * 3
    for verb, what in moves:
        if isinstance(what, int):
            story.wait(what)
        else:
            story.tell(verb, what)
        story.file.save(story.memory)
        assert MemoryFile(place / "memory.jsonl").load() == story.memory


def filled(incidents: int) -> Memory:
    """Return the memory of a dispatcher with open incidents of which nobody was notified."""
    dispatch = Dispatch(plan_of(Settings(alerts=SECTION), "prod"), Memory(), lambda: 0.5, AT)
    storms = [
        finding(Kind.STORM, group=f"g{n}", phase="opened", incident=f"i{n}", at=AT) for n in range(incidents)
    ]
    dispatch.take([replace(one, id=f"f{n}") for n, one in enumerate(storms)], AT)
    return dispatch.memory


def test_a_save_writes_what_has_changed_and_the_log_is_bounded(tmp_path: Path) -> None:
    memory, file = filled(300), MemoryFile(tmp_path / "memory.jsonl")
    file.save(memory)
    snapshot = (tmp_path / "memory.jsonl").stat().st_size
    memory.engine.collected_at += 1
    file.save(memory)
    assert (tmp_path / "memory.1.log").stat().st_size < snapshot / 1_000
    for turn in range(60):
        for group in memory.engine.groups.values():
            group.next_look += 1 + turn
        file.save(memory)
        assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 2 * snapshot + 1_100_000
    assert len(list(tmp_path.iterdir())) == 2
    assert MemoryFile(tmp_path / "memory.jsonl").load() == memory


def test_a_torn_end_of_the_log_is_passed_over_and_damage_before_it_is_not(tmp_path: Path) -> None:
    memory, file = filled(2), MemoryFile(tmp_path / "memory.jsonl")
    for _ in range(3):
        memory.engine.collected_at += 1
        file.save(memory)
    log = tmp_path / "memory.1.log"
    whole = log.read_bytes()
    assert whole.count(b"\n") == 2
    for cut in range(len(whole)):
        log.write_bytes(whole[:cut])
        loaded = MemoryFile(tmp_path / "memory.jsonl").load().engine.collected_at
        assert loaded == memory.engine.collected_at - 2 + whole[:cut].count(b"\n")
    log.write_bytes(b"{" + whole)
    with pytest.raises(MemoryFileError, match="move it away"):
        MemoryFile(tmp_path / "memory.jsonl").load()


def test_a_log_that_outlived_its_snapshot_is_not_taken_for_the_next_ones(tmp_path: Path) -> None:
    memory, path = filled(2), tmp_path / "memory.jsonl"
    file = MemoryFile(path)
    file.save(memory)
    memory.engine.collected_at += 5
    file.save(memory)
    path.unlink()
    fresh = filled(1)
    MemoryFile(path).save(fresh)
    assert MemoryFile(path).load() == fresh


def test_a_save_that_failed_is_made_good_by_the_next(tmp_path: Path) -> None:
    away = False

    def before(operation: str, path: str) -> None:
        if away and operation == "write":
            raise OSError(f"{path}: 503")

    memory, file = filled(3), MemoryFile(faulty_place(tmp_path, before) / "memory.jsonl")
    file.save(memory)
    memory.engine.collected_at += 1
    away = True
    with pytest.raises(OSError, match="503"):
        file.save(memory)
    away = False
    memory.engine.collected_at += 1
    file.save(memory)
    assert MemoryFile(faulty_place(tmp_path) / "memory.jsonl").load() == memory


def test_the_inbox_keeps_no_long_names(tmp_path: Path) -> None:
    inbox = Inbox(tmp_path)
    inbox.open({})
    inbox.put(("q", 0), [finding(Kind.STORM, group="x" * 10_000)])
    (back,) = inbox.read(("q", 0))
    assert len(to_json(back)) < 6_000


def test_the_journal_is_bounded_in_parts_too(tmp_path: Path) -> None:
    plan = plan_of(Settings(alerts=SECTION), "prod")
    ((_, outgoing),) = rehearse(plan, [storm("opened")], after_ms=1_000)
    for start in (0, 50):
        journal = Journal(faulty_place(tmp_path), max_bytes=5_000, part_bytes=1_000)
        for number in range(start, start + 50):
            journal.write(outgoing, number)
    found = [json.loads(line)["at"] for line in read_lines(faulty_place(tmp_path) / "notifications.jsonl")]
    assert found == list(range(found[0], 100))
    assert 10 < len(found) < 50


def test_silences_come_and_go_without_a_lock(place: Place) -> None:
    files, now = SilenceFiles(place), [0.0]
    silences = Silences(files, lambda: now[0])
    assert silences.refresh() == []
    made = files.add('group="orders"', AT + 10_000, "me", "why", AT)
    assert files.read()[0] == [made]
    now[0] += files.look_s
    assert silences.refresh() == []
    assert silences.holds({"group": "orders"}, AT + 1)
    ended = SilenceFiles(place).expire(made.id, AT + 5)
    assert files.read()[0] == [ended]
    now[0] += files.look_s
    assert silences.refresh() == []
    assert not silences.holds({"group": "orders"}, AT + 5)
    later = files.add('group="other"', AT + 10 * 86_400_000, "me", "", AT + 9 * 86_400_000)
    assert files.read()[0] == [later]


def test_a_silence_that_was_being_ended_when_the_process_died_has_ended(tmp_path: Path) -> None:
    files = SilenceFiles(tmp_path)
    made = files.add('group="orders"', AT + 10_000, "me", "", AT)
    (name,) = files.names()
    open_one = (tmp_path / "silences" / name).read_bytes()
    ended = files.expire(made.id, AT + 5)
    (tmp_path / "silences" / name).write_bytes(open_one)
    assert files.read()[0] == [ended]


def test_a_slow_store_and_a_sink_that_hangs_hold_up_no_batch(tmp_path: Path) -> None:
    """A batch costs its own put; what the dispatcher writes and sends meanwhile is waited for by nobody."""
    slow, held, free = threading.Event(), threading.Event(), threading.Event()

    def before(_operation: str, path: str) -> None:
        if slow.is_set() and "memory" in path:
            held.set()
            free.wait(60)

    sink = Memo()
    sink.hangs.clear()
    with dispatching(faulty_place(tmp_path, before), sink) as dispatcher:
        slow.set()
        for number in range(5):
            dispatcher.put(("q", number), [storm("opened", f"g{number}")])
            dispatcher.committed(("q", number))
            assert held.wait(60)
        assert sink.told == []
        free.set()
        sink.hangs.set()
        assert eventually(lambda: len(sink.told) == 5, 30)


def test_a_store_that_was_away_loses_no_incident(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from rebalance_monitor.alerts.runtime import dispatcher as module

    monkeypatch.setattr(module, "TROUBLE_S", 0.05)
    away = threading.Event()

    def before(_operation: str, path: str) -> None:
        if away.is_set():
            raise OSError(f"{path}: 503 Slow Down")

    sink = Memo()
    with dispatching(faulty_place(tmp_path, before), sink) as dispatcher:
        dispatcher.put(("q", 0), [storm("opened")])
        # The memory was saved: there is nothing in it that another save would have to write.
        assert eventually((tmp_path / "memory.jsonl").exists)
        time.sleep(0.2)
        away.set()
        dispatcher.committed(("q", 0))
        time.sleep(0.5)
        with pytest.raises(OSError, match="Slow Down"):
            dispatcher.put(("q", 1), [storm("opened", "never")])
        assert sink.told == []
        away.clear()
        assert eventually(lambda: sink.phases() == ["opened"])


def test_a_dispatcher_whose_store_was_taken_sends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rebalance_monitor.alerts.runtime import dispatcher as module

    monkeypatch.setattr(module, "TROUBLE_S", 0.05)
    monkeypatch.setattr(lease, "TERM_S", 0.6)
    sink, place = Memo(), faulty_place(tmp_path)
    with locked(place), dispatching(place / "alerts", sink) as dispatcher:
        dispatcher.put(("q", 0), [storm("opened")])
        (tmp_path / lease.NAME).write_text('{"token": "another", "host": "elsewhere", "pid": 1}')
        time.sleep(0.5)
        dispatcher.committed(("q", 0))
        with pytest.raises(FolderInUseError, match="elsewhere"):
            dispatcher.put(("q", 1), [storm("opened", "g1")])
        time.sleep(0.5)
        assert sink.told == []
    assert (tmp_path / lease.NAME).exists()
