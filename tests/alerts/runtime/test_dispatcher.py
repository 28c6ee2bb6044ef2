"""The dispatcher with its thread, files and real clock: what is committed is notified once, and cheaply."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

import pytest

from rebalance_monitor.alerts.messages.notification import SinkError
from rebalance_monitor.alerts.runtime.dispatcher import Dispatcher, wall_ms
from rebalance_monitor.alerts.runtime.inbox import Inbox
from rebalance_monitor.alerts.runtime.journal import Journal
from rebalance_monitor.alerts.runtime.memory_file import MemoryFile
from rebalance_monitor.alerts.setup.receivers import plan_of
from rebalance_monitor.checkpoints.ledger import Snapshot
from rebalance_monitor.config.errors import ConfigError
from rebalance_monitor.config.model import Settings
from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.degraded import degraded
from rebalance_monitor.coordinator.findings.kinds import Kind
from rebalance_monitor.engine.batch.batches import Batch, BatchKey
from rebalance_monitor.engine.outputs.alerting import Alerting
from rebalance_monitor.engine.outputs.sinks import Publication
from rebalance_monitor.engine.storage import Storage
from tests.alerts.support.findings import finding
from tests.alerts.support.memo import SECTION, Memo, dispatching, eventually, storm

if TYPE_CHECKING:
    from pathlib import Path


def test_a_committed_batch_is_notified_and_its_file_is_gone(tmp_path: Path) -> None:
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


def test_what_was_never_committed_is_never_notified(tmp_path: Path) -> None:
    sink = Memo()
    with dispatching(tmp_path, sink) as dispatcher:
        dispatcher.put(("q", 0), [storm("opened")])
        time.sleep(0.4)
    assert sink.told == []
    with dispatching(tmp_path, sink, {"q": -1}):
        time.sleep(0.3)
    assert sink.told == []
    assert list((tmp_path / "inbox").iterdir()) == []


def test_what_was_committed_but_not_taken_is_notified_by_the_next_process(tmp_path: Path) -> None:
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


def test_every_attempt_is_reported_for_metrics(tmp_path: Path) -> None:
    sink, heard = Memo(), []
    sink.answers.append(SinkError("no"))
    plan = partial(plan_of, Settings(alerts=SECTION), "prod")
    with Dispatcher(
        tmp_path, plan, {"sre/slack": sink}, on_attempt=lambda *one: heard.append(one)
    ) as dispatcher:
        dispatcher.open({})
        dispatcher.put(("q", 0), [storm("opened")])
        dispatcher.committed(("q", 0))
        assert eventually(lambda: sink.phases() == ["opened"])
        assert eventually(lambda: heard == [("sre/slack", False), ("sre/slack", True)])
        (way,) = dispatcher.status.ways
        assert eventually(lambda: dispatcher.status.ways[0].sent == 1)
        assert way.kind == "slack"


def test_a_repeat_to_an_alertmanager_costs_no_save(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
    from rebalance_monitor.alerts.dispatch.rehearsal import rehearse

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
    alerting.write(key, Publication([own], Batch(), wall_ms()))
    assert list((tmp_path / "alerts" / "inbox").iterdir()) == []
    alerting.write(key, Publication([own, storm("opened")], Batch(), wall_ms()))
    alerting.committed(key)
    assert len((tmp_path / "alerts" / "inbox" / "q-0.jsonl").read_text().splitlines()) == 1
    assert failing == [""]


def test_a_configuration_without_receivers_costs_nothing(tmp_path: Path) -> None:
    with Alerting(Settings(), Storage(tmp_path), "c1", lambda *_: None, lambda _: None) as alerting:
        alerting.start(Snapshot())
        alerting.write(BatchKey("q", 0), Publication([storm("opened")], Batch(), wall_ms()))
        alerting.committed(BatchKey("q", 0))
    assert list(tmp_path.iterdir()) == []


def test_a_wrong_configuration_stops_the_job_at_its_start(tmp_path: Path) -> None:
    wrong = Settings(alerts={**SECTION, "route": {"receiver": "nobody"}})
    with pytest.raises(ConfigError, match="nobody"):
        Alerting(wrong, Storage(tmp_path), "c1", lambda *_: None, lambda _: None)
