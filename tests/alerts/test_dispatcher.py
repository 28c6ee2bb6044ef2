"""The dispatcher with its thread, files and real clock: what is committed is told, once, whatever happens."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections import deque
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from rebalance_monitor.alerts.dispatcher import Dispatcher, wall_ms
from rebalance_monitor.alerts.inbox import Inbox
from rebalance_monitor.alerts.journal import Journal
from rebalance_monitor.alerts.memory_file import MemoryFile
from rebalance_monitor.alerts.silences import SilenceError, SilenceFiles, Silences
from rebalance_monitor.alerts.sinks.base import Sent, SinkError
from rebalance_monitor.alerts.ways import plan_of
from rebalance_monitor.checkpoints.ledger import Snapshot
from rebalance_monitor.config.errors import ConfigError
from rebalance_monitor.config.model import Settings
from rebalance_monitor.coordinator.causes import Cause
from rebalance_monitor.coordinator.kinds import Kind
from rebalance_monitor.coordinator.rollup import degraded
from rebalance_monitor.streaming.alerting import Alerting
from rebalance_monitor.streaming.batches import Batch, BatchKey
from rebalance_monitor.streaming.sinks import Telling
from rebalance_monitor.streaming.storage import Storage
from tests.alerts.findings import finding

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from rebalance_monitor.alerts.sinks.base import Notification
    from rebalance_monitor.coordinator.findings import Finding

SLACK = {"token": "xoxb-none", "channel": "C0123ABCD", "per_minute": 6_000}
SECTION: dict[str, Any] = {
    "receivers": [{"name": "sre", "slack": SLACK}],
    "route": {"receiver": "sre", "group_wait": "50ms", "group_interval": "100ms"},
}


class Memo:
    """A sink that remembers; `answers` come first. `hangs` makes every call wait for it."""

    name, kind, is_idempotent, resend_ms = "sre/slack", "slack", True, None

    def __init__(self) -> None:
        self.told: list[Notification] = []
        self.answers: deque[Exception] = deque()
        self.asked = threading.Event()
        self.hangs = threading.Event()
        self.hangs.set()

    def send(self, notification: Notification, now_ms: int) -> Sent:
        assert now_ms > 0
        self.asked.set()
        self.hangs.wait(60)
        if self.answers:
            raise self.answers.popleft()
        self.told.append(notification)
        return Sent({"seen": notification.key})

    def close(self) -> None:
        self.told.append  # noqa: B018 - nothing to let go

    def phases(self) -> list[str]:
        return [told.phase.value for told in self.told]


@contextmanager
def dispatching(folder: Path, sink: Memo, committed: dict[str, int] | None = None) -> Iterator[Dispatcher]:
    plan = partial(plan_of, Settings(alerts=SECTION), "prod")
    with Dispatcher(folder, plan, {"sre/slack": sink}) as dispatcher:
        dispatcher.open(committed or {})
        yield dispatcher


def storm(phase: str, group: str = "orders") -> Finding:
    now = wall_ms()
    made = finding(Kind.STORM, phase=phase, incident=f"i-{group}", group=group, at=now, detected_at=now)
    return replace(made, id=f"{phase}-{group}")


def eventually(holds: Callable[[], bool], seconds: float = 10) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and not holds():
        time.sleep(0.01)
    return holds()


def test_a_committed_batch_is_told_and_its_file_is_gone(tmp_path: Path) -> None:
    sink = Memo()
    with dispatching(tmp_path, sink) as dispatcher:
        dispatcher.put(("q", 0), [storm("opened"), finding(Kind.REBALANCE, history=True)])
        assert len((tmp_path / "inbox" / "q-0.jsonl").read_text().splitlines()) == 1
        dispatcher.committed(("q", 0))
        assert eventually(lambda: sink.phases() == ["opened"])
        dispatcher.put(("q", 1), [storm("resolved")])
        dispatcher.committed(("q", 1))
        assert eventually(lambda: sink.phases() == ["opened", "resolved"])
        assert sink.told[1].state == {"seen": sink.told[0].key}
    assert list((tmp_path / "inbox").iterdir()) == []
    lines = (tmp_path / "notifications.jsonl").read_text().splitlines()
    assert ['"reason": "first"' in lines[0], '"reason": "all_resolved"' in lines[1]] == [True, True]


@pytest.mark.parametrize("cause", [Cause.BLIND, Cause.BEHIND])
def test_a_monitor_that_ends_blind_says_so_without_waiting(tmp_path: Path, cause: Cause) -> None:
    sink, now = Memo(), wall_ms()
    section = {**SECTION, "route": {"receiver": "sre"}, "watchdog": {"to": ["sre"]}}
    plan = partial(plan_of, Settings(alerts=section), "prod")
    with Dispatcher(tmp_path, plan, {"sre/slack": sink}) as dispatcher:
        dispatcher.open({})
        degraded_now = degraded("prod", cause, "recreated", opened_at=now, at=now, phase="opened", details={})
        dispatcher.put(("monitor", 0), [degraded_now])
        dispatcher.committed(("monitor", 0), lives=False)
    assert [told.labels["cause"] for told in sink.told] == (["blind"] if cause is Cause.BLIND else [])
    with dispatching(tmp_path, sink, {"monitor": 0}):
        assert eventually(lambda: len(sink.told) == 1)
        time.sleep(0.3)
    assert len(sink.told) == 1


def test_what_was_never_committed_is_never_told(tmp_path: Path) -> None:
    sink = Memo()
    with dispatching(tmp_path, sink) as dispatcher:
        dispatcher.put(("q", 0), [storm("opened")])
        time.sleep(0.4)
    assert sink.told == []
    with dispatching(tmp_path, sink, {"q": -1}):
        time.sleep(0.3)
    assert sink.told == []
    assert list((tmp_path / "inbox").iterdir()) == []


def test_what_was_committed_but_not_taken_is_told_by_the_next_process(tmp_path: Path) -> None:
    sink, inbox = Memo(), Inbox(tmp_path / "inbox")
    inbox.open({})
    inbox.put(("q", 0), [storm("opened")])
    inbox.put(("q", 1), [storm("opened", "never")])
    with dispatching(tmp_path, sink, {"q": 0}):
        assert eventually(lambda: sink.phases() == ["opened"])
    assert sink.told[0].labels["group"] == "orders"
    with dispatching(tmp_path, sink, {"q": 0}):
        time.sleep(0.4)
    assert sink.phases() == ["opened"]


def test_a_batch_that_was_taken_twice_counts_once(tmp_path: Path) -> None:
    sink = Memo()
    with dispatching(tmp_path, sink) as dispatcher:
        dispatcher.put(("q", 0), [storm("opened"), finding(Kind.REBALANCE)])
        dispatcher.committed(("q", 0))
        assert eventually(lambda: sink.phases() == ["opened"])
    Inbox(tmp_path / "inbox").put(("q", 0), [storm("resolved")])
    with dispatching(tmp_path, sink, {"q": 0}):
        time.sleep(0.4)
    assert sink.phases() == ["opened"]


@pytest.mark.parametrize("step", ["read", "drop"])
def test_a_storage_that_is_away_for_a_moment_leaves_no_file_of_a_batch_that_was_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    monkeypatch.setattr("rebalance_monitor.alerts.dispatcher.TROUBLE_S", 0.05)
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


def test_a_hanging_sink_delays_no_batch(tmp_path: Path) -> None:
    sink = Memo()
    sink.hangs.clear()
    with dispatching(tmp_path, sink) as dispatcher:
        for number in range(20):
            dispatcher.put(("q", number), [storm("opened", f"g{number}")])
            dispatcher.committed(("q", number))
        assert sink.told == []
        sink.hangs.set()
        assert eventually(lambda: len(sink.told) == 20, 20)


def test_a_hanging_sink_does_not_keep_the_process_from_ending_and_is_told_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rebalance_monitor.alerts.dispatcher.GRACE_S", 0.2)
    sink = Memo()
    sink.hangs.clear()
    with dispatching(tmp_path, sink) as dispatcher:
        dispatcher.put(("q", 0), [storm("opened")])
        dispatcher.committed(("q", 0))
        assert sink.asked.wait(10)
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


def test_a_memory_that_cannot_be_saved_sends_nothing_and_goes_on_when_it_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rebalance_monitor.alerts import dispatcher as module
    from rebalance_monitor.alerts import memory_file

    full, real = threading.Event(), memory_file.replace_file
    full.set()

    def replace_file(path: Path, content: bytes) -> None:
        if full.is_set():
            raise OSError(28, "No space left on device")
        real(path, content)

    monkeypatch.setattr(memory_file, "replace_file", replace_file)
    monkeypatch.setattr(module, "TROUBLE_S", 0.05)
    sink = Memo()
    with dispatching(tmp_path, sink) as dispatcher:
        dispatcher.put(("q", 0), [storm("opened")])
        dispatcher.committed(("q", 0))
        time.sleep(0.5)
        assert sink.told == []
        full.clear()
        assert eventually(lambda: sink.phases() == ["opened"])


def test_every_attempt_is_reported_for_metrics(tmp_path: Path) -> None:
    sink, heard = Memo(), []
    sink.answers.append(SinkError("no"))
    plan = partial(plan_of, Settings(alerts=SECTION), "prod")
    with Dispatcher(tmp_path, plan, {"sre/slack": sink}, told=lambda *one: heard.append(one)) as dispatcher:
        dispatcher.open({})
        dispatcher.put(("q", 0), [storm("opened")])
        dispatcher.committed(("q", 0))
        assert eventually(lambda: sink.phases() == ["opened"])
        assert eventually(lambda: heard == [("sre/slack", False), ("sre/slack", True)])
        (way,) = dispatcher.status.ways
        assert eventually(lambda: dispatcher.status.ways[0].sent == 1)
        assert way.kind == "slack"


def test_a_running_job_honours_a_silence_of_another_process(tmp_path: Path) -> None:
    sink, config = Memo(), tmp_path / "c.yaml"
    config.write_text(f"storage: {{path: {tmp_path / 'store'}}}\n")
    words = ["alerts", "silence", "add", 'group="orders"', "--for", "1h", "-c", str(config)]
    main = "from rebalance_monitor.cli.main import main; main()"
    with dispatching(tmp_path / "store" / "alerts", sink) as dispatcher:
        subprocess.run([sys.executable, "-c", main, *words], check=True, timeout=60, capture_output=True)
        time.sleep(0.5)
        dispatcher.put(("q", 0), [storm("opened"), storm("opened", "payments")])
        dispatcher.committed(("q", 0))
        assert eventually(lambda: bool(sink.told))
        time.sleep(0.5)
        assert [told.labels["group"] for told in sink.told] == ["payments"]
        file = SilenceFiles(tmp_path / "store" / "alerts")
        (silence,) = file.read()[0]
        file.expire(silence.id, wall_ms())
        assert eventually(lambda: len(sink.told) == 2)


def test_a_damaged_silence_file_leaves_the_last_silences_in_force(tmp_path: Path) -> None:
    file = SilenceFiles(tmp_path)
    file.add('group="orders"', 2_000, "me", "", 1_000)
    silences = Silences(file)
    silences.refresh()
    (tmp_path / "silences" / "1a2b3c4d-5000.json").write_text("{")
    (said,) = silences.refresh()
    assert "correct it, or move it away" in said
    assert silences.holds({"group": "orders"}, 1_500)
    assert not silences.holds({"group": "orders"}, 2_000)
    assert not silences.holds({"group": "other"}, 1_500)


@pytest.mark.parametrize("matchers", ['team!="x"', 'group=~".*"', "group", 'group="a" x'])
def test_a_silence_that_cannot_be_meant_is_refused(tmp_path: Path, matchers: str) -> None:
    with pytest.raises(SilenceError):
        SilenceFiles(tmp_path).add(matchers, 2_000, "me", "", 1_000)


def test_silences_of_many_processes_are_all_kept(tmp_path: Path) -> None:
    def add(number: int) -> None:
        SilenceFiles(tmp_path).add(f'group="g{number}"', 2_000, "me", "", 1_000)

    threads = [threading.Thread(target=add, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(SilenceFiles(tmp_path).read()[0]) == 20


def test_a_file_that_is_no_silence_stops_no_other_no_start_and_is_said_once(tmp_path: Path) -> None:
    file = SilenceFiles(tmp_path)
    file.add('group="orders"', 2_000, "me", "", 1_000)
    (tmp_path / "silences" / "abcd1234-9999.json").mkdir()
    now = [0.0]
    silences = Silences(file, lambda: now[0])
    assert len(silences.refresh()) == 1
    file.add('group="payments"', 2_000, "me", "", 1_000)
    for _ in range(40):
        now[0] += 1
        assert silences.refresh() == []
    assert silences.holds({"group": "orders"}, 1_500)
    assert silences.holds({"group": "payments"}, 1_500)
    with dispatching(tmp_path, Memo()):
        pass


def test_a_silence_that_cannot_be_read_any_more_holds_as_it_was(tmp_path: Path) -> None:
    file = SilenceFiles(tmp_path)
    file.add('group="orders"', 2_000, "me", "", 1_000)
    now = [0.0]
    silences = Silences(file, lambda: now[0])
    silences.refresh()
    (path,) = file.folder.iterdir()
    text = path.read_text()
    path.write_text("")
    file.add('group="payments"', 2_000, "me", "", 1_000)
    now[0] += 1
    assert len(silences.refresh()) == 1
    assert silences.holds({"group": "orders"}, 1_500)
    path.write_text(text)
    now[0] += 10
    assert silences.refresh() == []
    assert silences.holds({"group": "orders"}, 1_500)
    assert silences.holds({"group": "payments"}, 1_500)


def test_what_an_alertmanager_is_told_again_costs_no_save(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saves: list[int] = []
    save = MemoryFile.save
    monkeypatch.setattr(MemoryFile, "save", lambda file, memory: (saves.append(1), save(file, memory)))
    manager = {"urls": ["http://127.0.0.1:9"], "resend_interval": "50ms", "per_minute": 60_000}
    route = {"receiver": "am", "group_wait": "0s"}
    section = {"receivers": [{"name": "am", "alertmanager": manager}], "route": route}
    sink, plan = Memo(), partial(plan_of, Settings(alerts=section), "prod")
    with Dispatcher(tmp_path, plan, {"am/alertmanager": sink}) as dispatcher:
        dispatcher.open({})
        dispatcher.put(("q", 0), [storm("opened")])
        dispatcher.committed(("q", 0))
        assert eventually(lambda: bool(sink.told))
        time.sleep(0.1)
        before = len(saves)
        assert eventually(lambda: len(sink.told) > 8)
        assert len(saves) == before


def test_the_journal_is_bounded(tmp_path: Path) -> None:
    from rebalance_monitor.alerts.rehearsal import rehearse

    plan = plan_of(Settings(alerts=SECTION), "prod")
    ((_, outgoing),) = rehearse(plan, [storm("opened")], after_ms=1_000)
    journal = Journal(tmp_path, max_bytes=2_000)
    for number in range(50):
        journal.write(outgoing, number)
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 2 * (2_000 + 1_000)
    assert '"at": 49' in (tmp_path / "notifications.jsonl").read_text()


def test_the_batch_writers_sink_hands_over_and_keeps_its_own_failures_out(tmp_path: Path) -> None:
    failing: list[str] = []
    alerting = Alerting(Settings(alerts=SECTION), Storage(tmp_path), "c1", lambda *_: None, failing.append)
    own = finding(Kind.MONITOR_DEGRADED, details={"cause": Cause.SINK_FAILING.value})
    alerting.start(Snapshot())
    key = BatchKey("q", 0)
    alerting.write(key, Telling([own], Batch(), wall_ms()))
    assert list((tmp_path / "alerts" / "inbox").iterdir()) == []
    alerting.write(key, Telling([own, storm("opened")], Batch(), wall_ms()))
    alerting.committed(key)
    assert len((tmp_path / "alerts" / "inbox" / "q-0.jsonl").read_text().splitlines()) == 1
    assert failing == [""]


def test_a_configuration_without_receivers_costs_nothing(tmp_path: Path) -> None:
    with Alerting(Settings(), Storage(tmp_path), "c1", lambda *_: None, lambda _: None) as alerting:
        alerting.start(Snapshot())
        alerting.write(BatchKey("q", 0), Telling([storm("opened")], Batch(), wall_ms()))
        alerting.committed(BatchKey("q", 0))
    assert list(tmp_path.iterdir()) == []


def test_a_wrong_configuration_stops_the_job_at_its_start(tmp_path: Path) -> None:
    wrong = Settings(alerts={**SECTION, "route": {"receiver": "nobody"}})
    with pytest.raises(ConfigError, match="nobody"):
        Alerting(wrong, Storage(tmp_path), "c1", lambda *_: None, lambda _: None)


def test_the_watchdog_beats_on_a_real_clock_while_batches_end_and_stays_away_after(tmp_path: Path) -> None:
    dog = {**SECTION, "watchdog": {"to": ["sre"], "interval": "400ms", "silent_after": "1s"}}
    sink, plan = Memo(), partial(plan_of, Settings(alerts=dog, trigger_seconds=0.1), "prod")
    with Dispatcher(tmp_path, plan, {"sre/slack": sink}) as dispatcher:
        dispatcher.open({})
        time.sleep(0.6)
        assert sink.told == []
        began, number = time.monotonic(), 0
        while len(sink.told) < 4 and number < 600:
            dispatcher.committed(("q", number))
            dispatcher.committed(("monitor", number), lives=False)
            number += 1
            time.sleep(0.1)
        beats = len(sink.told)
        assert 4 <= beats <= 2 + (time.monotonic() - began) / 0.4
        assert {told.labels["alertname"] for told in sink.told} == {"Watchdog"}
        assert len({told.thread for told in sink.told}) == 1
        for number in range(20):
            # What the monitor says of itself is no proof that the query lives.
            dispatcher.committed(("monitor", 1_000 + number), lives=False)
            time.sleep(0.1)
        late = len(sink.told)
        assert late - beats <= 3
        time.sleep(1.0)
        assert len(sink.told) == late


def test_whatever_keeps_the_memory_from_being_saved_sends_nothing_and_goes_on_when_it_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rebalance_monitor.alerts import dispatcher as module
    from rebalance_monitor.alerts import memory_file

    broken, real = threading.Event(), memory_file.replace_file
    broken.set()

    def replace_file(path: Path, content: bytes) -> None:
        if broken.is_set():
            raise ConfigError("somebody else has the folder")
        real(path, content)

    monkeypatch.setattr(memory_file, "replace_file", replace_file)
    monkeypatch.setattr(module, "TROUBLE_S", 0.05)
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


def test_a_machine_without_threads_for_a_while_delays_what_is_told(
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
