"""Logs off a terminal: JSON, a line a batch at most, with the batch and the incidents that it belongs to."""

from __future__ import annotations

import io
import json
import sys
from typing import TYPE_CHECKING, NoReturn

import pytest
import structlog

from rebalance_monitor.cli.logs import configure
from rebalance_monitor.engine.batch.batches import BatchKey
from rebalance_monitor.engine.storage import Storage
from tests.streaming.support.batches import BATCHES, QUERY, writer_at

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(autouse=True)
def usual_logs() -> Iterator[None]:
    configure("debug")
    yield
    structlog.reset_defaults()


def test_each_batch_is_one_line_with_its_id_and_its_incidents(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    writer = writer_at(Storage(tmp_path))
    capsys.readouterr()
    told: list[list[str]] = []
    for number, batch in enumerate(BATCHES):
        writer.apply(BatchKey(QUERY, number), batch)
        lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
        assert [line["batch"] for line in lines] == [number]
        assert {"event", "level", "timestamp"} <= set(lines[0])
        told.append(lines[0]["incidents"] or [])
    opened = [f.incident for batch in BATCHES for f in batch.findings if f.incident and not f.history]
    assert set(opened) <= {incident for incidents in told for incident in incidents}
    assert opened


@pytest.mark.parametrize("broken", [OSError(28, "No space left on device"), ValueError("closed file")])
def test_a_line_that_stderr_does_not_take_ends_nothing(
    monkeypatch: pytest.MonkeyPatch, broken: Exception
) -> None:
    class Full(io.StringIO):
        def write(self, _: str) -> NoReturn:
            raise broken

    log = structlog.get_logger()
    with monkeypatch.context() as full:
        full.setattr(sys, "stderr", Full())
        for say in (log.debug, log.info, log.warning, log.error, log.critical):
            say("nobody hears this")
        log.error("nor this", exc_info=RuntimeError("a step failed"))


def test_what_a_sink_logs_within_a_batch_names_the_batch(capsys: pytest.CaptureFixture[str]) -> None:
    with structlog.contextvars.bound_contextvars(batch=7):
        structlog.get_logger().warning("a sink is slow")
    assert json.loads(capsys.readouterr().err)["batch"] == 7
