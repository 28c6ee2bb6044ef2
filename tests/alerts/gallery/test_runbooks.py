"""The runbooks that alerts link to."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.kinds import Kind

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "runbooks.md").read_text(encoding="utf-8")
RULES = ROOT / "deploy" / "prometheus" / "alerting.rules.yml"


def test_every_kind_of_finding_has_its_section_and_no_section_is_of_no_kind() -> None:
    assert re.findall(r"^## (\S+)$", PAGE, re.MULTILINE) == [kind.value for kind in _in_page_order()]
    assert set(_in_page_order()) == set(Kind)


@pytest.mark.parametrize("kind", Kind)
def test_every_section_says_what_to_check_first_and_what_would_prove_it_wrong(kind: Kind) -> None:
    section = PAGE.partition(f"## {kind.value}\n")[2].partition("\n## ")[0]
    first, found, wrong = section.partition("- **First:** ")[2].partition("- **Wrong if:** ")
    assert len(first) > 20
    assert found
    assert len(wrong) > 20


def test_every_cause_of_a_degraded_monitor_has_its_row() -> None:
    rows = re.findall(r"^\| `(\w+)`", PAGE, re.MULTILINE)
    causes = list(Cause)
    assert rows == [cause.value for cause in causes[causes.index(Cause.BLIND) :]]


def test_every_alert_of_prometheus_leads_to_a_section_or_has_its_row() -> None:
    groups = yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
    leads = {
        r["alert"]: r["annotations"]["runbook_url"].partition("#")[2] for g in groups for r in g["rules"]
    }
    assert set(leads.values()) <= {kind.value for kind in Kind}
    assert re.findall(r"^\| ([A-Z]\w+) \|", PAGE, re.MULTILINE) == [
        alert for alert, section in leads.items() if section == Kind.MONITOR_DEGRADED
    ]


def _in_page_order() -> list[Kind]:
    return sorted(Kind, key=lambda kind: PAGE.find(f"## {kind.value}\n"))
