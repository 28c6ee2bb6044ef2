"""False alarms about healthy groups of a real recording are counted, by group-hours."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from rebalance_monitor.coordinator.findings.finding import Finding
from rebalance_monitor.lab.scoring.results import replayed
from rebalance_monitor.lab.suite.healthy import Counted, counted, table
from rebalance_monitor.lab.truth.recorded_suite import Suite, read_suite

FAULTS = Path(__file__).parents[2] / "fixtures" / "scenarios" / "faults-4.1.1"


@pytest.fixture(scope="module")
def suite() -> Suite:
    return read_suite(FAULTS)


@pytest.fixture(scope="module")
def findings(suite: Suite) -> list[Finding]:
    return replayed(suite)


@pytest.mark.slow
def test_nothing_is_said_of_the_healthy_groups_of_a_recording(suite: Suite, findings: list[Finding]) -> None:
    found = counted(suite, "faults", findings)
    assert found.groups > 200
    assert found.hours > 2
    assert not found.false


@pytest.mark.slow
def test_the_same_count_finds_groups_with_faults_unless_the_brokers_log_confirms_them(
    suite: Suite, findings: list[Finding]
) -> None:
    begin, end = next(iter(suite.quiet.values()))
    faulty = {group: (begin - 60_000, end) for group in suite.families if group not in suite.quiet}
    unknown = counted(replace(suite, quiet=faulty, facts=[]), "faults", findings).false
    assert unknown["session_timeout"] > 0
    assert counted(replace(suite, quiet=faulty), "faults", findings).false.total() < unknown.total()


def test_the_table_adds_up_and_bounds_what_may_be_expected() -> None:
    rows = table([Counted("a", 10, 12.0, Counter()), Counted("b", 5, 12.0, Counter(storm=2))]).splitlines()
    assert rows[2:] == [
        "| a | 10 | 12.0 | none | 0, at most 6000 |",
        "| b | 5 | 12.0 | storm 2 | 4000, at most 12600 |",
        "| all | 15 | 24.0 | storm 2 | 2000, at most 6300 |",
    ]
