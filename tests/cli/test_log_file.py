"""A log file: every line of the process, ours and the libraries', in files that roll and stay few."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any

import pytest
import structlog

from rebalance_monitor.cli import logs, repeats
from rebalance_monitor.cli.exit_codes import ExitCode
from rebalance_monitor.cli.main import run

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LIMIT = 2_000


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A log at `info` that rolls soon."""
    monkeypatch.setattr(logs, "FILE_BYTES", LIMIT)
    logs.configure("info", path := tmp_path / "monitor.log")
    yield path
    logs.configure("info")
    structlog.reset_defaults()


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_a_file_takes_the_place_of_stderr(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    structlog.get_logger().info("batch", batch=7)
    structlog.get_logger().debug("too small to tell")
    logging.getLogger("a.library").warning("slow %s", "disk")
    try:
        int("no room")
    except ValueError:
        structlog.get_logger().exception("failed")
    ours, theirs, failed = lines(file)
    assert (ours["event"], ours["batch"], ours["level"]) == ("batch", 7, "info")
    assert (theirs["event"], theirs["level"]) == ("slow disk", "warning")
    assert "'no room'" in failed["exception"]
    assert all(line["timestamp"].endswith("Z") for line in (ours, theirs, failed))
    assert capsys.readouterr() == ("", "")


def test_months_of_lines_leave_six_files_of_the_limit_with_the_newest(file: Path) -> None:
    for number in range(500):
        structlog.get_logger().info("batch", batch=number)
        logging.getLogger("rebalance_monitor.library").warning("library %d", number)
    kept = sorted(file.parent.iterdir())
    assert [path.name for path in kept] == ["monitor.log", *(f"monitor.log.{n}" for n in range(1, 6))]
    assert all(path.stat().st_size <= LIMIT for path in kept)
    read = [line for n in (".5", ".4", ".3", ".2", ".1", "") for line in lines(file.with_name(file.name + n))]
    assert read[-1]["event"] == "library 499"
    batches = [line["batch"] for line in read if line["event"] == "batch"]
    assert batches == [*range(batches[0], 500)]


def test_what_a_library_repeats_is_said_some_times_and_then_counted(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "FILE_BYTES", 1_000_000)
    logs.configure("info", file)
    now = 1_000.0
    monkeypatch.setattr(repeats.time, "monotonic", lambda: now)
    for number in range(20_000):
        logging.getLogger("kafka.cluster").error("refresh failed: node %d", number % 3)
        # A sum without error.
        now += 1 / 64
    logging.getLogger("kafka.cluster").error("another cause")
    said = [line["event"] for line in lines(file)]
    assert said[:6] == [
        *(f"refresh failed: node {n}" for n in (0, 1, 2, 0, 1)),
        "refresh failed: node 0 (3,835 more lines like it were left out)",
    ]
    assert len(said) == 6 * repeats.MOST + 1
    assert said[-1] == "another cause"


def test_of_many_call_sites_few_are_remembered() -> None:
    filters = repeats.Repeats("rebalance_monitor")
    made = [logging.LogRecord("a", logging.ERROR, "a.py", n, "x", None, None) for n in range(3_000)]
    assert all(filters.filter(record) for record in made)
    assert len(filters._sites) <= repeats.SITES


def test_the_command_line_names_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "log"
    try:
        verb = ["config", "show", "--config", str(tmp_path / "none.yaml")]
        assert run(["--log-level", "debug", "--log-file", str(path), *verb]) == ExitCode.USAGE
        assert [line["event"] for line in lines(path)] == ["where it came from"]
        # What somebody must do is said where whoever started it looks.
        assert "none.yaml" in capsys.readouterr().err
        assert run(["--log-file", str(path / "log"), *verb]) == ExitCode.USAGE
        assert "cannot be used" in capsys.readouterr().err
    finally:
        logs.configure("info")
        structlog.reset_defaults()
