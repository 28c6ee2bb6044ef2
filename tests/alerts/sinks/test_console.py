"""The console."""

from __future__ import annotations

import io

import pytest

from rebalance_monitor.alerts.messages.notification import Phase
from rebalance_monitor.alerts.sinks.console import ConsoleSink
from tests.alerts.sinks.contract import SinkContract, Trouble
from tests.alerts.sinks.notes import HOSTILE, NOW, note


class ConsoleHarness:
    secrets: tuple[str, ...] = ()
    troubles = (Trouble.PERMANENT,)

    def __init__(self) -> None:
        self.stream = io.StringIO("\n\n")
        self.stream.seek(2)
        self.sink = ConsoleSink("console", self.stream)

    def received(self) -> list[str]:
        return self.stream.getvalue().split("\n\n(")[1:]

    def goes_wrong(self, trouble: Trouble) -> None:
        del trouble
        self.stream.close()


class TestConsole(SinkContract):
    @pytest.fixture
    def harness(self) -> ConsoleHarness:
        return ConsoleHarness()


def test_a_stream_of_few_letters_gets_escapes() -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    ConsoleSink("console", stream).send(note(Phase.OPENED, group=HOSTILE), NOW)
    stream.seek(0)
    assert "\\xe9\\U0001f600" in stream.read()
