"""The fitted constants belong to the corpus, the likelihoods and the settings that they were judged on."""

from rebalance_monitor.coordinator.departure import fitted
from rebalance_monitor.lab.suite import fit


def test_the_fitted_constants_were_judged_on_the_corpus_and_the_likelihoods_that_there_are() -> None:
    now = fit.inputs()
    changed = {name for name in now if now[name] != fitted.INPUTS.get(name)}
    assert not changed, (
        f"out of date: {', '.join(sorted(changed))} changed since coordinator/departure/fitted.py was made. "
        "Run `make fit`, or `make fit ARGS=--keep`, which judges the same constants again in two minutes."
    )
