"""The departure model against simulated truth, and what `make fit` may and may not do."""

import re
from pathlib import Path

import msgspec
import pytest

from rebalance_monitor.coordinator.departure import fitted
from rebalance_monitor.coordinator.departure.fitted import FITTED
from rebalance_monitor.coordinator.departure.hypotheses import Way
from rebalance_monitor.lab.suite import fit
from rebalance_monitor.lab.suite.departures import FIRST_UNSEEN, Life, answers, simulated


@pytest.fixture(scope="module")
def lives() -> list[Life]:
    """Groups at production timings, of seeds that nothing is fitted on."""
    return simulated(range(FIRST_UNSEEN, FIRST_UNSEEN + 60))


def test_claims_at_production_timings_are_true(lives: list[Life]) -> None:
    claims = [(max(shares), Way(shares.index(max(shares))) is true) for shares, true in answers(lives)]
    sure = [right for share, right in claims if share >= 0.8]
    assert len(sure) >= 0.7 * len(claims)
    assert sum(sure) >= 0.94 * len(sure)


def test_a_missed_sync_is_never_claimed_of_another_departure(lives: list[Life]) -> None:
    assert not [
        true for shares, true in answers(lives) if shares[Way.UNSYNCED] >= 0.8 and true is not Way.UNSYNCED
    ]


def test_what_was_fitted_explains_the_truth_better_than_the_first_values(lives: list[Life]) -> None:
    assert fit.surprise(lives, FITTED) < fit.surprise(lives, fit.START)


def test_each_constant_is_a_share_or_a_time_and_alternatives_are_at_most_everything() -> None:
    assert all(0 < value < 1 or value > 1 for value in FITTED)
    assert fit._is_possible(FITTED)


def test_a_fit_that_finds_the_same_constants_writes_the_same_module() -> None:
    text = Path(fitted.__file__).read_text(encoding="utf-8")
    found = re.search(r"make fit`: (.* each.*)\n", text)
    assert found
    assert fit.written(fit.rounded(FITTED), found[1]) == text
    assert all(getattr(FITTED, name) == getattr(fit.START, name) for name in fit.HELD)


def test_a_fit_that_was_stopped_goes_on(tmp_path: Path, lives: list[Life]) -> None:
    file, every = tmp_path / "fit.json", len(fit._STEPS) * (len(fit.START) - len(fit.HELD))
    with fit.Judges(lives[:2], 1) as judges:
        assert fit.fit(judges, file, "these", 0.0) == (fit.START, False)
        kept = fit.Progress("these", every - 2, list(FITTED))
        file.write_bytes(msgspec.json.encode(kept))
        ended, whole = fit.fit(judges, file, "these", float("inf"))
        assert whole
        assert fit.fit(judges, file, "others", 0.0) == (fit.START, False)
    assert {name for name in ended._fields if getattr(ended, name) != getattr(FITTED, name)} <= set(
        ended._fields[-2:]
    )
    assert msgspec.json.decode(file.read_bytes(), type=fit.Progress).done == every
