"""`config thresholds GROUP` says what the job uses for the group, and which layer said so."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from rebalance_monitor.cli.main import run
from rebalance_monitor.config.durations import Duration
from rebalance_monitor.config.load import load
from rebalance_monitor.engine.settings import detection_settings, key_of

if TYPE_CHECKING:
    from pathlib import Path

CONFIG = """
cluster_name: prod
detection:
  storm_quiet: 10m
  always_on: ["pay-*"]
  groups:
    - {pattern: "batch-*", storm_threshold: 20}
    - {pattern: "pay-*", team: payments}
    - {pattern: "pay-*", storm_window: 2m, session_timeout: 9s}
    - {pattern: "*", storm_window: 9m, slow_sync: 8s, team: others}
  severity_overrides: [{kind: storm, severity: warning, pattern: "pay-*"}]
alerts:
  receivers: [{name: sre, console: {}}, {name: pager, console: {}}]
  route:
    receiver: sre
    routes:
      - {matchers: ['team="payments"', 'severity="critical"'], receiver: pager}
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    (path := tmp_path / "monitor.yaml").write_text(CONFIG)
    return path


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, dict[str, Any]]:
    assert run(["config", "thresholds", *arguments, "-o", "json"]) == 0
    return {row["setting"]: row for row in json.loads(capsys.readouterr().out)}


@pytest.mark.parametrize("group", ["pay-7", "batch-1", "other"])
def test_every_threshold_is_the_one_that_the_job_uses(
    config: Path, capsys: pytest.CaptureFixture[str], group: str
) -> None:
    rows = told(capsys, group, "-c", str(config))
    used = detection_settings(load(config).detection).for_group(group)
    for name in used.__dataclass_fields__:
        row = rows.get(key_of(name))
        if row is None or isinstance(getattr(used, name), (tuple, bool)):
            continue
        value = (
            Duration(row["value"]).ms if name.endswith("_ms") and row["value"] != "not set" else row["value"]
        )
        assert value == (getattr(used, name) if getattr(used, name) is not None else "not set"), name


def test_each_value_names_the_layer_that_set_it(
    config: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REBALANCE_MONITOR_DETECTION__STUCK_AFTER", "3m")
    rows = told(capsys, "pay-7", "-c", str(config), "--set", "detection.grace=2s")
    file = f"in the file {config}"
    assert {
        name: rows[name]["set by"] for name in ("grace", "stuck_after", "storm_quiet", "failed_repeated")
    } == {
        "grace": "detection.grace on the command line",
        "stuck_after": "detection.stuck_after in the environment",
        "storm_quiet": f"detection.storm_quiet {file}",
        "failed_repeated": "the default",
    }
    assert rows["storm_window"]["set by"] == f"detection.groups[2] (pay-*) {file}"
    assert rows["slow_sync"]["set by"] == f"detection.groups[3] (*) {file}"
    assert rows["session_timeout"]["value"] == "9s"
    assert (rows["team"]["value"], rows["always_on"]["value"]) == ("payments", "yes")
    assert rows["offsets_retention"]["set by"] == "the default; the brokers' own wins"
    # A storm is a warning here, so it does not page; an empty group of `always_on` does.
    assert rows["alert storm"]["value"] == "sre/console"
    assert rows["alert group_empty"]["value"] == "pager/console"
    assert rows["alert rebalance"]["value"] == "nobody"
