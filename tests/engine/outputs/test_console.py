"""Findings as lines for people."""

from __future__ import annotations

import io
import os
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalance_monitor.coordinator.findings.finding import from_json
from rebalance_monitor.coordinator.findings.kinds import Kind
from rebalance_monitor.engine.batch.batches import Batch, BatchKey
from rebalance_monitor.engine.outputs.console import line_of, plain, renderer, writer
from rebalance_monitor.engine.outputs.sinks import Lines, Publication
from tests.coordinator.support.timeline import findings
from tests.streaming.support.topics import eventful_topic

FINDINGS = findings(eventful_topic(group="orders"))


def test_a_line_has_time_severity_group_kind_and_cause() -> None:
    rebalance = next(finding for finding in FINDINGS if finding.kind == "rebalance")
    line = line_of(rebalance)
    for part in ("info", "orders", "rebalance", "generation 1", "first_start", rebalance.causes[0].why):
        assert part in line


def test_colours_are_for_terminals_only() -> None:
    assert "\x1b[" not in renderer("table", io.StringIO())(FINDINGS[0])
    assert "\x1b[" in line_of(FINDINGS[0], colour=True)


@pytest.mark.parametrize(("no_colour", "coloured"), [("", True), ("1", False)])
def test_no_color_is_heeded_on_a_terminal(
    no_colour: str,
    coloured: bool,  # noqa: FBT001 - a parameter
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("NO_COLOR", no_colour)
    parent, child = os.openpty()
    with os.fdopen(child, "w", encoding="utf-8") as terminal:
        assert ("\x1b[" in renderer("table", terminal)(FINDINGS[0])) is coloured
    os.close(parent)


def test_json_lines_are_the_finding_itself() -> None:
    assert from_json(renderer("jsonl", io.StringIO())(FINDINGS[0])) == FINDINGS[0]


@given(st.text())
def test_a_clients_name_sends_nothing_to_the_terminal(name: str) -> None:
    assert plain(name).isprintable()
    assert line_of(replace(FINDINGS[0], group=name)).isprintable()


@given(st.integers(-(2**63), 2**63 - 1))
def test_any_time_has_a_line(at: int) -> None:
    assert "orders" in line_of(replace(FINDINGS[0], at=at))


def test_lines_are_written_at_once() -> None:
    stream = io.StringIO()
    writer(stream)("one\n")
    assert stream.getvalue() == "one\n"


def test_a_pipe_whose_reader_went_away_ends_the_printing_and_nothing_else() -> None:
    tried: list[str] = []

    def gone(text: str) -> None:
        tried.append(text)
        raise BrokenPipeError

    sink = Lines(lambda finding: finding.id, gone)
    for batch in range(3):
        sink.write(BatchKey("q", batch), Publication([FINDINGS[0]], Batch(), 0))
    sink.close()
    assert len(tried) == 1


def test_what_the_streams_encoding_lacks_is_escaped() -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    writer(stream)("orders → 7\n")
    assert stream.buffer.getvalue() == b"orders \\u2192 7\n"  # type: ignore[attr-defined]  # a BytesIO


def test_what_has_no_cause_says_what_was_counted() -> None:
    details = {"arrived": 24, "waiting_at_stop": 1, "waiting_peak": 3846, "caught_up_ms": 3_000}
    cost = replace(FINDINGS[0], kind=Kind.REBALANCE_COST, causes=(), details=details)
    assert line_of(cost).endswith(
        "arrived 24 records while consumption stood still, "
        "waiting 3,846 records at the peak, 1 record when it stopped, caught up 3.0 s after the rebalance"
    )
