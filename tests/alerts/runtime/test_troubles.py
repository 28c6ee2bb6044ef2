"""What hangs, breaks or is full delays no batch; what was committed is notified when the trouble is over."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import pytest
from structlog.testing import capture_logs as quiet

from rebalance_monitor.alerts.runtime.dispatcher import TRIES
from rebalance_monitor.alerts.runtime.inbox import Inbox
from rebalance_monitor.alerts.runtime.memory_file import MemoryFile
from rebalance_monitor.config.errors import ConfigError
from tests.alerts.support.memo import Memo, dispatching, eventually, storm

if TYPE_CHECKING:
    from pathlib import Path

    from rebalance_monitor.alerts.dispatch.plan import Memory


@pytest.mark.parametrize("step", ["read", "drop"])
def test_a_storage_that_is_away_for_a_moment_leaves_no_file_of_a_batch_that_was_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    monkeypatch.setattr("rebalance_monitor.alerts.runtime.dispatcher.TROUBLE_S", 0.05)
    works, failed = getattr(Inbox, step), []

    def away_once(inbox: Inbox, name: tuple[str, int]) -> object:
        if name == ("q", 1) and not failed:
            failed.append(name)
            raise OSError("the store does not answer")
        return works(inbox, name)

    monkeypatch.setattr(Inbox, step, away_once)
    inbox = Inbox(tmp_path / "inbox")
    inbox.open({})
    inbox.put(("q", 0), [storm("opened")])
    inbox.put(("q", 1), [storm("opened", "other")])
    with dispatching(tmp_path, sink := Memo(), {"q": 1}):
        assert eventually(lambda: {told.labels["group"] for told in sink.told} == {"orders", "other"})
        assert eventually(lambda: list((tmp_path / "inbox").iterdir()) == [])
    assert failed


def test_a_file_that_cannot_be_read_is_set_aside_and_said_and_the_others_are_notified(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rebalance_monitor.alerts.runtime.dispatcher.TROUBLE_S", 0.02)
    inbox = Inbox(tmp_path / "inbox")
    inbox.open({})
    inbox.put(("q", 0), [storm("opened", "before")])
    with quiet(), dispatching(tmp_path, sink := Memo(), {"q": 0}) as dispatcher:
        dispatcher.put(("q", 1), [storm("opened", "lost")])
        (file := tmp_path / "inbox" / "q-1.jsonl").unlink()
        # Whoever reads it gets an error of the system, as from a bad block, also as root.
        file.mkdir()
        dispatcher.committed(("q", 1))
        dispatcher.put(("q", 2), [storm("opened", "after")])
        dispatcher.committed(("q", 2))
        assert eventually(lambda: {told.labels["group"] for told in sink.told} == {"before", "after"})
        assert str(file) in dispatcher.failing()
    assert file.exists()


def test_a_storage_that_comes_back_behind_the_last_read_sets_nothing_aside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rebalance_monitor.alerts.runtime.dispatcher.TROUBLE_S", 0.01)
    tries: list[str] = []
    works = Inbox.read

    def away(inbox: Inbox, name: tuple[str, int]) -> object:
        tries.append("read")
        if len(tries) <= TRIES:
            raise OSError("the store does not answer")
        return works(inbox, name)

    monkeypatch.setattr(Inbox, "read", away)
    with quiet(), dispatching(tmp_path, sink := Memo()) as dispatcher:
        dispatcher.put(("q", 0), [storm("opened")])
        dispatcher.committed(("q", 0))
        assert eventually(lambda: sink.phases() == ["opened"])
        assert dispatcher.failing() == ""


def test_a_storage_that_is_away_for_long_sets_nothing_aside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rebalance_monitor.alerts.runtime.dispatcher.TROUBLE_S", 0.01)
    tries: list[str] = []
    works = Inbox.read

    def away(inbox: Inbox, name: tuple[str, int]) -> object:
        tries.append("read")
        if len(tries) < 2 * TRIES:
            raise OSError("the store does not answer")
        return works(inbox, name)

    def unsaved(files: MemoryFile, memory: Memory) -> None:
        if len(tries) < 2 * TRIES:
            raise OSError("the store does not answer")
        saved(files, memory)

    saved = MemoryFile.save

    def unwritten(files: MemoryFile, memory: Memory) -> None:
        if len(tries) < 2 * TRIES:
            raise OSError("the store does not answer")
        written(files, memory)

    written = MemoryFile.rewrite
    monkeypatch.setattr(Inbox, "read", away)
    monkeypatch.setattr(MemoryFile, "save", unsaved)
    monkeypatch.setattr(MemoryFile, "rewrite", unwritten)
    with quiet(), dispatching(tmp_path, sink := Memo()) as dispatcher:
        dispatcher.put(("q", 0), [storm("opened")])
        dispatcher.committed(("q", 0))
        assert eventually(lambda: [told.labels["group"] for told in sink.told] == ["orders"])
        assert dispatcher.failing() == ""


def test_a_hanging_sink_delays_no_batch(tmp_path: Path) -> None:
    sink = Memo()
    sink.hangs.clear()
    with dispatching(tmp_path, sink) as dispatcher:
        for number in range(20):
            dispatcher.put(("q", number), [storm("opened", f"g{number}")])
            dispatcher.committed(("q", number))
        assert sink.told == []
        sink.hangs.set()
        assert eventually(lambda: len(sink.told) == 20)


def test_a_hanging_sink_does_not_keep_the_process_from_ending_and_is_notified_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rebalance_monitor.alerts.runtime.dispatcher.GRACE_S", 0.2)
    sink = Memo()
    sink.hangs.clear()
    with dispatching(tmp_path, sink) as dispatcher:
        dispatcher.put(("q", 0), [storm("opened")])
        dispatcher.committed(("q", 0))
        assert sink.asked.wait(60)
    assert sink.told == []
    later = Memo()
    with dispatching(tmp_path, later, {"q": 0}):
        assert eventually(lambda: later.phases() == ["opened"])
    assert later.told[0].maybe_sent
    sink.hangs.set()


def test_a_sink_that_breaks_its_contract_is_tried_again_and_its_words_stay_unsaid(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    sink = Memo()
    sink.answers.append(RuntimeError("secret words"))
    with dispatching(tmp_path, sink) as dispatcher:
        dispatcher.put(("q", 0), [storm("opened")])
        dispatcher.committed(("q", 0))
        assert eventually(lambda: sink.phases() == ["opened"])
    said = capfd.readouterr()
    assert "RuntimeError" in said.out + said.err
    assert "secret words" not in said.out + said.err


def saving_fails(monkeypatch: pytest.MonkeyPatch, error: Exception) -> threading.Event:
    """Let no memory be saved, and tries follow soon, until the event is cleared."""
    from rebalance_monitor.alerts.runtime import dispatcher as module
    from rebalance_monitor.alerts.runtime import memory_file

    broken, real = threading.Event(), memory_file.replace_file
    broken.set()

    def replace_file(path: Path, content: bytes) -> None:
        if broken.is_set():
            raise error
        real(path, content)

    monkeypatch.setattr(memory_file, "replace_file", replace_file)
    monkeypatch.setattr(module, "TROUBLE_S", 0.05)
    return broken


def test_a_memory_that_cannot_be_saved_sends_nothing_and_goes_on_when_it_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = saving_fails(monkeypatch, OSError(28, "No space left on device"))
    sink = Memo()
    with dispatching(tmp_path, sink) as dispatcher:
        dispatcher.put(("q", 0), [storm("opened")])
        dispatcher.committed(("q", 0))
        time.sleep(0.5)
        assert sink.told == []
        full.clear()
        assert eventually(lambda: sink.phases() == ["opened"])


def test_whatever_keeps_the_memory_from_being_saved_sends_nothing_and_goes_on_when_it_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rebalance_monitor.alerts.runtime import dispatcher as module

    broken = saving_fails(monkeypatch, ConfigError("somebody else has the folder"))
    monkeypatch.setattr(module, "HELD_UP_S", 0.2)
    sink = Memo()
    with dispatching(tmp_path, sink) as dispatcher:
        dispatcher.put(("q", 0), [storm("opened")])
        dispatcher.committed(("q", 0))
        assert eventually(lambda: "held up" in dispatcher.failing())
        assert sink.told == []
        broken.clear()
        assert eventually(lambda: sink.phases() == ["opened"])
        assert eventually(lambda: dispatcher.failing() == "")


def test_a_machine_without_threads_for_a_while_delays_notifications(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, full = threading.Thread.start, threading.Event()
    full.set()

    def start(thread: threading.Thread) -> None:
        if full.is_set() and thread.name == "alerts-sre":
            raise RuntimeError("can't start new thread")
        real(thread)

    monkeypatch.setattr(threading.Thread, "start", start)
    sink = Memo()
    with dispatching(tmp_path, sink) as dispatcher:
        dispatcher.put(("q", 0), [storm("opened")])
        dispatcher.committed(("q", 0))
        time.sleep(0.5)
        full.clear()
        assert eventually(lambda: sink.phases() == ["opened"])
