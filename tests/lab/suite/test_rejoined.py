"""Who has not rejoined: simulated looks have their truth, and the fit finds the weights that made them."""

from random import Random

import pytest

from rebalance_monitor.coordinator.deadlines.rejoining import Sign, odds_of
from rebalance_monitor.coordinator.departure.fitted import REJOINING, Rejoining
from rebalance_monitor.lab.suite import rejoined
from rebalance_monitor.lab.suite.departures import FIRST_UNSEEN
from rebalance_monitor.lab.suite.fit import top_of
from rebalance_monitor.lab.suite.rejoined import Look, looks, surprise


@pytest.fixture(scope="module")
def found() -> list[Look]:
    return list(looks(range(FIRST_UNSEEN, FIRST_UNSEEN + 24)))


def test_in_each_phase_somebody_is_missing_and_mostly_not_all(found: list[Look]) -> None:
    assert all(any(look.missing) for look in found)
    assert any(not all(look.missing) for look in found)
    assert {sign for look in found for sign in look.signs} >= {Sign.REJOINED, Sign.STOPPED}


def test_the_fitted_weights_say_no_less_of_unseen_phases_than_the_first_ones(found: list[Look]) -> None:
    by_fitted, by_first = (sum(surprise(look, by) for look in found) for by in (REJOINING, Rejoining()))
    assert by_fitted <= by_first


def test_the_fit_explains_looks_as_well_as_the_weights_that_made_them() -> None:
    chance = Random(1)  # noqa: S311 - a simulation
    true = Rejoining(odds=0.2, succeeded=4.0, stopped=9.0, rejoined=0.3)
    made = [look for _ in range(600) if any((look := drawn(chance, true)).missing)]
    best = rejoined.fit(made, top_of)
    assert sum(surprise(look, best) for look in made) <= sum(surprise(look, true) for look in made) + 3


def drawn(chance: Random, by: Rejoining) -> Look:
    signs = tuple(chance.choices(list(Sign), k=4))
    succeeded = tuple(chance.choice((0, 0, 1)) for _ in signs)
    odds = odds_of(signs, succeeded, by)
    return Look(signs, succeeded, tuple(chance.random() < one / (1 + one) for one in odds))
