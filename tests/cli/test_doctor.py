"""Doctor: what is wrong is one line with a remedy, and the exit code says so."""

import json
from pathlib import Path

import pytest

from rebalance_monitor.cli.checks import BLIND_TRAP, blind_trap, numbers, packages, storage
from rebalance_monitor.cli.main import run
from rebalance_monitor.config.load import load


def test_switching_off_the_setting_that_lets_spark_see_is_a_problem() -> None:
    bad = blind_trap(load(flags={f"spark.{BLIND_TRAP}": "false"}))
    assert not bad.ok
    assert BLIND_TRAP in bad.remedy
    assert blind_trap(load()).ok
    assert blind_trap(load(flags={f"spark.{BLIND_TRAP}": "TRUE"})).ok


def test_a_folder_that_cannot_be_made_is_a_problem(tmp_path: Path) -> None:
    taken = tmp_path / "file"
    taken.write_text("x")
    assert not storage(load(flags={"storage.path": str(taken / "data")})).ok
    assert storage(load(flags={"storage.path": str(tmp_path / "a" / "b")})).ok


def test_the_pinned_environment_of_the_tests_is_fine() -> None:
    assert packages(load()).ok


@pytest.mark.parametrize(("text", "parts"), [("4.1", (4, 1)), ("2.3.3+x", (2, 3, 3)), ("25.0.1", (25, 0, 1))])
def test_versions_are_compared_as_numbers(text: str, parts: tuple[int, ...]) -> None:
    assert numbers(text) == parts


def test_a_broker_that_is_away_is_one_problem_with_a_remedy(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "a.jar").touch()
    jars = f"jars=[{tmp_path / 'a.jar'}]"
    assert run(["doctor", "--bootstrap", "127.0.0.1:1", "--set", jars, "-o", "json"]) == 1
    lines = {line["check"]: line for line in json.loads(capsys.readouterr().out)}
    assert lines["broker"]["verdict"] == "problem"
    assert "kafka.bootstrap_servers" in lines["broker"]["remedy"]
    assert lines["blind trap"] == {
        "check": "blind trap",
        "verdict": "ok",
        "found": f"{BLIND_TRAP} is true",
        "remedy": None,
    }
    assert "topic" not in lines
    assert run(["doctor", "--bootstrap", "127.0.0.1:1", "--set", jars]) == 1
    text = capsys.readouterr().out
    assert "FIX   broker: No Kafka broker answers at 127.0.0.1:1" in text
    assert "→ Check `kafka.bootstrap_servers`" in text
