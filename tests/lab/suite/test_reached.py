"""The ceiling and the model are judged on the same departures: those that the bars are about."""

import numpy as np
import pytest

from rebalance_monitor.coordinator.departure.hypotheses import Way
from rebalance_monitor.lab.simulator.plans.plan import Mode
from rebalance_monitor.lab.suite.departures import FIRST_UNSEEN
from rebalance_monitor.lab.suite.reached import Case, cases, table


@pytest.fixture(scope="module")
def found() -> list[Case]:
    return list(cases(range(FIRST_UNSEEN, FIRST_UNSEEN + 40)))


def test_who_never_commits_or_commits_more_seldom_than_its_session_lasts_is_no_matter_of_the_bars(
    found: list[Case],
) -> None:
    plans = [case.removal.plan for case in found if case.works]
    assert plans
    assert all(plan.mode is not Mode.NEVER for plan in plans)
    timed = [plan for plan in plans if plan.mode in {Mode.IN_POLL, Mode.BACKGROUND, Mode.OWN_TIMER}]
    assert all(plan.interval <= plan.session for plan in timed)
    assert any(not case.works for case in found)


def test_the_model_is_judged_by_what_it_says_of_the_departure(found: list[Case]) -> None:
    right = [case.answer[case.way] >= max(case.answer) for case in found if case.works]
    assert sum(right) >= 0.9 * len(right)


def test_both_columns_count_the_same_truths(found: list[Case]) -> None:
    """An observer who knows all finds all, and one who knows nothing claims nothing."""
    known = np.eye(len(Way))[[case.way for case in found]]
    left = next(line for line in table(found, known) if line.startswith("| left | all"))
    assert f"1.00 (1.000 of {sum(case.way is Way.LEFT for case in found)})" in left
    blind = next(line for line in table(found, known * 0.5) if line.startswith("| left | all"))
    assert "0.00 (0.000 of 0)" in blind
