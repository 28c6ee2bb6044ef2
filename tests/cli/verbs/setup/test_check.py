"""`config check`: what it warns of and still calls valid."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import yaml

from rebalance_monitor.cli.exit_codes import ExitCode
from rebalance_monitor.cli.main import run

if TYPE_CHECKING:
    from pathlib import Path

ALERTS = {"receivers": [{"name": "sre", "console": {}}], "route": {"receiver": "sre"}}


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"alerts": ALERTS}, "`web.url` is not set"),
        ({"alerts": ALERTS, "web": {"enabled": False}}, "`web.enabled` is false"),
        ({"alerts": ALERTS, "web": {"url": "https://monitor.example"}}, ""),
        ({}, ""),
    ],
)
def test_alerts_that_lead_nowhere_are_warned_of(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], given: dict[str, object], why: str
) -> None:
    path = tmp_path / "monitor.yaml"
    kafka = {"kafka": {"bootstrap_servers": "127.0.0.1:9092"}, "engine": "embedded"}
    path.write_text(yaml.safe_dump({**kafka, **given}), encoding="utf-8")
    assert run(["config", "check", "-c", str(path)]) == ExitCode.FINE
    said = capsys.readouterr().err
    assert said == (f"warning: alerts have no links to the page and its runbooks: {why}\n" if why else "")
