"""A sink connector of Kafka Connect: healthy it is silent, paused it has stopped unless that is declared."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import NewTopic

from rebalance_monitor.coordinator.findings.finding import Finding
from rebalance_monitor.coordinator.findings.kinds import Kind
from rebalance_monitor.coordinator.settings import DetectionSettings
from rebalance_monitor.lab.cluster.broker import LabBroker
from rebalance_monitor.lab.cluster.node import wait_until
from rebalance_monitor.lab.scenario.processes import WorkerProcess
from rebalance_monitor.lab.workers.families import FAMILIES
from rebalance_monitor.lab.workers.flags import Flags, typed
from tests.coordinator.lag.real import Monitor, create, produce

pytestmark = [pytest.mark.broker, pytest.mark.slow, pytest.mark.timeout(900)]
GROUP, PATIENCE_S = "connect-files", 180.0
PLAIN = DetectionSettings(lag_window_ms=5_000)
DECLARED = DetectionSettings(lag_window_ms=5_000, expected_pause=("connect-*",))


class Sink:
    """A worker with one sink, whose topic gets records all the time, and two monitors that follow it."""

    def __init__(self, broker: LabBroker, folder: Path) -> None:
        self._broker, self._journal, family = broker, folder / "a.jsonl", FAMILIES["connect"]
        flags = Flags(broker.bootstrap, "workers", "sinks", client_id="a", **typed(family.flags))
        self.worker = WorkerProcess("a", family, flags, folder)
        self.plain, self.declared = (Monitor(broker.bootstrap, one, turn_ms=0) for one in (PLAIN, DECLARED))

    def tell(self, text: str) -> None:
        """Give the worker an order, again until it has accepted it."""

        def answers() -> list[str]:
            lines = self._journal.read_text("utf-8").splitlines() if self._journal.exists() else []
            return [line for line in lines if '"connector"' in line]

        def accepted() -> bool:
            before = len(answers())
            self.worker.tell(text)
            wait_until(lambda: len(answers()) > before, 100, 0.2)
            return any(f'"{status}"' in line for status in (200, 201, 202) for line in answers()[before:])

        assert wait_until(accepted, PATIENCE_S, 2), answers()

    def goes_on(self, until: Callable[[], bool], seconds: float) -> bool:
        """Produce and look, every second, until that is so; return whether it is."""
        end = time.monotonic() + seconds
        while not until() and time.monotonic() < end:
            produce(self._broker, "sinks", {0: 20, 1: 20})
            self.plain.look()
            self.declared.look()
            time.sleep(1)
        return until()

    def of(self, monitor: Monitor) -> list[Finding]:
        return [one for one in monitor.found if one.group == GROUP]

    def measured(self) -> bool:
        """Whether the sink commits, and both monitors know how much waits."""
        boards = [one.lag.board.groups.get(GROUP) for one in (self.plain, self.declared)]
        return all(one is not None and len(one.totals) > 1 and len(one.places) > 1 for one in boards)


@pytest.fixture
def sink(tmp_path: Path) -> Iterator[Sink]:
    with LabBroker() as broker:
        create(broker, NewTopic("sinks", 2, 1))
        made = Sink(broker, tmp_path)
        try:
            yield made
        finally:
            made.worker.finish()


def test_a_sink_is_silent_while_it_writes_and_a_declared_one_while_it_is_paused(sink: Sink) -> None:
    sink.tell("connector files 1")
    assert sink.goes_on(sink.measured, PATIENCE_S)
    sink.goes_on(lambda: False, 20)
    assert sink.of(sink.plain) == sink.of(sink.declared) == []
    sink.tell("pause files")
    assert sink.goes_on(lambda: bool(sink.of(sink.plain)), PATIENCE_S)
    (opened,) = sink.of(sink.plain)
    assert (opened.kind, opened.phase) == (Kind.CONSUMPTION_STOPPED, "opened")
    assert opened.partitions_affected
    sink.tell("resume files")
    assert sink.goes_on(lambda: sink.of(sink.plain)[-1].phase == "resolved", PATIENCE_S)
    assert sink.of(sink.declared) == []
