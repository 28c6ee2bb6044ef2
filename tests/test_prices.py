"""The prices of contenders: what earlier runs measured is not measured again, and said."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

from bench.rivals import prices

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_passes_that_are_taken_from_earlier_runs_are_named_with_their_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "prices.json"
    known = {"versions": [], "passes": [{"drain": {"cpu_s_per_s": 1.0, "load": 0.0}}] * 2}
    out.write_text(json.dumps({prices.key_of("idle", 30, 30): known}))
    monkeypatch.setattr(prices, "OUT", out)
    monkeypatch.setattr(sys, "argv", ["prices", "idle", "--only", "drain", "--passes", "2"])
    prices.main()
    said = capsys.readouterr().out.splitlines()[0]
    assert said == f"Passes taken from earlier runs ({out}; --afresh measures again): drain 2."


def test_a_run_that_takes_nothing_says_nothing_of_earlier_ones() -> None:
    assert not prices.taken([{}, {}])
