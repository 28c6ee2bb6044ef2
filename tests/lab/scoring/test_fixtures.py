"""Detection is held against captures of real clients and the truth of the brokers they ran on.

`expected.json` of each fixture has, per kind or cause and client family, the facts, the least that must be
detected and the most that may be wrong. `python -m rebalance_monitor.lab.suite.accuracy --score FOLDER
--misses` shows what changed: better numbers are written into the file (`tools/fixture.py FOLDER`), worse ones
need a reason.
"""

import json
from pathlib import Path

import pytest

from rebalance_monitor.lab.scoring.results import result_of
from rebalance_monitor.lab.scoring.score import tally, unmatched
from rebalance_monitor.lab.scoring.scored import REPLAY
from rebalance_monitor.lab.truth.recorded_suite import read_suite

FIXTURES = Path(__file__).parents[2] / "fixtures" / "scenarios"
SUITES = sorted(path.name for path in FIXTURES.iterdir() if (path / "suite.json").exists())
LIMIT_BYTES = 6 * 1024 * 1024


@pytest.mark.parametrize("name", SUITES)
def test_detection_on_a_real_capture_is_as_good_as_it_was(name: str) -> None:
    result = result_of(read_suite(FIXTURES / name))
    claims = result.claims[REPLAY]
    found = {"/".join(key): one for key, one in tally(result.facts, claims, result.families).items()}
    expected = json.loads((FIXTURES / name / "expected.json").read_text())
    missed, wrong = unmatched(result.facts, claims)
    for key, (facts, detected, most_wrong) in expected.items():
        one = found[key]
        assert one.facts == facts, key
        assert one.detected >= detected, (key, missed)
        assert one.wrong <= most_wrong, (key, wrong)
    assert all(found[key].wrong == 0 for key in found.keys() - expected.keys())


def test_the_fixtures_stay_small() -> None:
    assert SUITES
    assert sum(path.stat().st_size for path in FIXTURES.rglob("*") if path.is_file()) < LIMIT_BYTES
