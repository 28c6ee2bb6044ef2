"""The simulator against recordings of real brokers and clients: the same scenarios, measured the same way."""

from pathlib import Path

from rebalance_monitor.lab.simulator.study.agreement import LATTICE, compare, distance, noise, table

FIXTURES = Path(__file__).parents[3] / "fixtures" / "scenarios"
# Without the one whose coordinator moves: its scenarios are not played.
RECORDED = sorted(path for path in FIXTURES.iterdir() if not path.name.startswith("moved"))
MANY = 40
# Scenarios are few and their steps come at fixed times, so recorded values are not independent.
SLACK = 0.15


def test_simulated_scenarios_give_the_distributions_that_real_clients_gave() -> None:
    real, made = compare(RECORDED, seeds=3)
    judged = {key for key, values in real.items() if len(values) >= MANY and key[1] != LATTICE}
    assert len(judged) >= 9
    apart = {key: distance(real[key], made[key]) - noise(len(real[key]), len(made[key])) for key in judged}
    assert {key: excess for key, excess in apart.items() if excess > SLACK} == {}
    assert len(table(real, made, least=MANY)) == 1 + len([one for one in real.values() if len(one) >= MANY])
