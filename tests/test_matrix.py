"""The matrix of versions: what was asked for, and when its outcome is a failure."""

from dataclasses import replace

import pytest

from tools import matrix

PASSED = matrix.Outcome(
    "4.0.5", "4.1.1", "3.11", passed=True, digest="abc (3)", seconds=80, date="2026-01-01"
)


def test_a_version_is_asked_for_by_how_it_begins() -> None:
    assert matrix.wanted("4.0.5", [])
    assert matrix.wanted("4.0.5", ["3.5", "4.0"])
    assert matrix.wanted("3.11", ["3.11"])
    assert not matrix.wanted("4.10.0", ["4.1"])
    assert not matrix.wanted("3.11", ["3.1"])


def test_cells_must_pass_and_show_the_same_ids(capsys: pytest.CaptureFixture[str]) -> None:
    other = replace(PASSED, spark="3.5.9")
    assert matrix.closing([PASSED, other]) == 0
    assert "| 3.5.9 | 3.11 | 4.1.1 | passed | abc (3) | 80 | 2026-01-01 |" in capsys.readouterr().out
    assert matrix.closing([PASSED, replace(other, digest="def (3)")]) == 1
    assert "do not tell the same ids" in capsys.readouterr().out
    assert matrix.closing([PASSED, replace(other, passed=False)]) == 1


def test_a_spark_is_paired_with_the_pythons_it_is_made_for() -> None:
    names = {pair.name for pair in matrix.PAIRS}
    assert {"python3.11-spark3.5.9", "python3.13-spark4.2.0"} <= names
    assert "python3.12-spark3.5.9" not in names
    assert all((matrix.ROOT / "requirements" / f"{s.extra}.txt").exists() for s in matrix.SPARKS if s.extra)
