"""The learner comes near to the true posterior, and the ceiling is reached where a timer decides."""

import numpy as np

from rebalance_monitor.lab.simulator.plans.plan import Mode
from rebalance_monitor.lab.simulator.plans.setup import Timing
from rebalance_monitor.lab.simulator.study.agreement import concentration, distance, noise
from rebalance_monitor.lab.simulator.study.ceiling import Cell, ceiling
from rebalance_monitor.lab.simulator.study.forest import Forest
from rebalance_monitor.lab.simulator.truth import Removed


def test_the_forest_learns_a_posterior_that_overlapping_classes_have() -> None:
    chance = np.random.default_rng(1)
    labels = chance.integers(0, 2, 4_000)
    # Class 0 between 0 and 3, class 1 between 2 and 5: in between each is as likely.
    features = np.column_stack((chance.uniform(0, 3, 4_000) + 2 * labels, chance.uniform(0, 1, 4_000)))
    posterior = Forest(features, labels, 2).posterior(np.array([[1.0, 0.5], [2.5, 0.5], [4.0, 0.5]]))
    assert posterior[0, 0] > 0.95
    assert 0.3 < posterior[1, 0] < 0.7
    assert posterior[2, 1] > 0.95


def test_a_client_that_commits_when_idle_leaves_little_doubt() -> None:
    cell = Cell("kafka-python", Mode.IN_POLL, Timing(10_000, 60_000, 3_000, 5_000))
    found = ceiling(cell, 600)
    assert found[Removed.EXPIRED].recall(0.8) > 0.7
    assert found[Removed.EXPIRED].precision(0.8) > 0.95


def test_distances_of_samples_are_those_of_their_distributions() -> None:
    chance = np.random.default_rng(2)
    one, two = chance.uniform(0, 1, 900), chance.uniform(0, 1, 900)
    assert distance(list(one), list(two)) < 1.3 * noise(900, 900)
    assert abs(distance(list(one), list(two + 0.5)) - 0.5) < 0.1
    assert concentration([0.1, 0.1, 1.1]) > 0.999
    assert concentration([number / 100 for number in range(100)]) < 0.001
