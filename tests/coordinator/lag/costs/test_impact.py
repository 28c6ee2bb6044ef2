"""Severity is mechanism times impact: the table of the code is that of the page, and bounds hold."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.finding import CauseEntry, Finding
from rebalance_monitor.coordinator.findings.kind_table import KINDS
from rebalance_monitor.coordinator.findings.kinds import Kind, Scope, Severity
from rebalance_monitor.coordinator.lag.costs.impact import WEIGHTS, Impact, impact, weigh
from rebalance_monitor.coordinator.settings import DetectionSettings, SeverityOverride

PAGE = (Path(__file__).parents[4] / "docs" / "lag.md").read_text(encoding="utf-8")
RANK = {Severity.INFO: 0, Severity.WARNING: 1, Severity.CRITICAL: 2}


def finding(kind: Kind, severity: Severity, **details: str) -> Finding:
    return Finding(
        id="i", kind=kind, scope=Scope.GROUP, severity=severity, evidence="read", group="g", at=0,
        details={**details},
    )  # fmt: skip


@pytest.mark.parametrize(("kind", "found"), list(WEIGHTS))
def test_the_page_has_each_bound_of_the_table(kind: Kind, found: Impact) -> None:
    row = next(
        line for line in PAGE.splitlines() if line.startswith(f"| `{kind.value}`") and line.count("|") == 6
    )
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    bounds, said = WEIGHTS[kind, found], cells[1 + list(Impact).index(found)]
    if bounds.at_most is not None:
        assert said == f"at most {bounds.at_most.value}"
    if bounds.at_least is not None:
        assert said in {bounds.at_least.value, f"at least {bounds.at_least.value}"}


@given(st.sampled_from(Kind), st.sampled_from(Severity), st.sampled_from(Impact))
def test_a_severity_moves_only_as_far_as_its_bounds(kind: Kind, severity: Severity, found: Impact) -> None:
    made = replace(finding(kind, severity), details={"moving": 0})
    weighed = weigh(made, found, DetectionSettings())
    bounds = WEIGHTS.get((kind, found))
    if bounds is None or found is Impact.UNKNOWN:
        assert weighed is severity
        return
    if bounds.at_least is not None:
        assert RANK[weighed] >= RANK[bounds.at_least]
    if bounds.at_most is not None:
        assert RANK[weighed] == min(RANK[severity], RANK[bounds.at_most])


def test_whoever_configures_a_severity_has_the_last_word() -> None:
    settings = DetectionSettings(severity_overrides=(SeverityOverride(Kind.STORM, Severity.INFO),))
    assert weigh(finding(Kind.STORM, Severity.INFO), Impact.WAITING, settings) is Severity.INFO


def test_a_group_whose_last_member_said_goodbye_is_no_warning_for_what_waits() -> None:
    given_ = KINDS[Kind.GROUP_EMPTY].severity
    left = finding(Kind.GROUP_EMPTY, given_, ended_by="leave")
    lost = finding(Kind.GROUP_EMPTY, given_, ended_by="session")
    settings = DetectionSettings()
    assert weigh(left, Impact.WAITING, settings) is Severity.INFO
    assert weigh(lost, Impact.WAITING, settings) is Severity.WARNING


def test_a_last_member_that_did_not_poll_in_time_is_at_fault_though_it_left() -> None:
    late = replace(
        finding(Kind.GROUP_EMPTY, Severity.INFO, ended_by="leave"),
        causes=(CauseEntry(Cause.POLL_INTERVAL_EXCEEDED, 0.7, ""),),
    )
    assert weigh(late, Impact.WAITING, DetectionSettings()) is Severity.WARNING


totals = st.lists(st.tuples(st.integers(0, 100), st.integers(0, 1_000)), max_size=20).map(sorted)


@given(totals, st.integers(0, 100))
def test_the_impact_of_what_nobody_saw_is_unknown_and_of_no_waiting_record_nothing(
    told: list[tuple[int, int]], since: int
) -> None:
    after = [records for at, records in told if at >= since]
    found = impact(told, since)
    before = [records for at, records in told if at < since]
    # What has just begun is judged by the last sample before it.
    after = after or before[-1:]
    assert (found is Impact.NOTHING) is (bool(after) and not any(after))
    assert (found is Impact.UNKNOWN) is (found is not Impact.NOTHING and not (after and before))
