"""A record enters few modules of coordinator: a newcomer can follow what becomes of it (`tools/route.py`)."""

from statistics import median

import pytest

from tools.route import CAPTURES, Route, routes

# What came of a record -> modules entered, and crossings between them, at most; medians over all recordings.
MOST = {"commit run": (4, 8), "rebalance": (15, 40), "rebalance with a departure": (28, 120)}


@pytest.fixture(scope="module")
def found() -> dict[str, list[Route]]:
    """Return the routes of all rows of the recorded scenarios."""
    return routes(CAPTURES)


@pytest.mark.slow
@pytest.mark.parametrize("name", MOST)
def test_a_record_enters_few_modules(found: dict[str, list[Route]], name: str) -> None:
    most, most_crossings = MOST[name]
    assert 0 < median(len(one.entered) for one in found[name]) <= most
    assert median(one.crossings for one in found[name]) <= most_crossings
