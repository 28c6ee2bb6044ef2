"""The page docs/alerts.md agrees with the code."""

from __future__ import annotations

import re
from pathlib import Path

from rebalance_monitor.alerts.engine.decision import Reason
from rebalance_monitor.alerts.routing.labels import KNOWN
from rebalance_monitor.alerts.setup.receivers import sinks_of
from rebalance_monitor.alerts.setup.setup import checked
from rebalance_monitor.config.load import load

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "alerts.md").read_text(encoding="utf-8")


def test_every_example_is_a_valid_configuration_without_oddities(tmp_path: Path) -> None:
    examples = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    assert len(examples) > 1
    for name in ("slack-token", "pagerduty"):
        (tmp_path / name).write_text("secret", encoding="utf-8")
    for example in examples:
        path = tmp_path / "monitor.yaml"
        path.write_text(example.replace("/run/secrets", str(tmp_path)), encoding="utf-8")
        settings = load(path)
        assert checked(settings.alerts).problems == ()
        assert checked(settings.alerts).warnings == ()
        assert sinks_of(settings)


def test_every_label_and_every_reason_is_explained() -> None:
    said = set(re.findall(r"`([a-z_]+)`", PAGE))
    assert set(KNOWN) <= said
    assert {reason.value for reason in Reason} - {"test"} <= said
