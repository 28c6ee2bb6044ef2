"""The runbooks that alerts link to."""

from __future__ import annotations

import re
from pathlib import Path

from rebalance_monitor.coordinator.causes import Cause
from rebalance_monitor.coordinator.kinds import Kind

PAGE = (Path(__file__).parents[2] / "docs" / "runbooks.md").read_text(encoding="utf-8")


def test_every_kind_of_finding_has_its_section_and_no_section_is_of_no_kind() -> None:
    assert re.findall(r"^## (\S+)$", PAGE, re.MULTILINE) == [kind.value for kind in _in_page_order()]
    assert set(_in_page_order()) == set(Kind)


def test_every_cause_of_a_degraded_monitor_has_its_row() -> None:
    rows = re.findall(r"^\| `(\w+)`", PAGE, re.MULTILINE)
    causes = list(Cause)
    assert rows == [cause.value for cause in causes[causes.index(Cause.BLIND) :]]


def _in_page_order() -> list[Kind]:
    return sorted(Kind, key=lambda kind: PAGE.find(f"## {kind.value}\n"))
