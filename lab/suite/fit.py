"""`make fit`: the constants of the departure model that no protocol and no client's source gives.

Deterministic: simulations of fixed seeds and the checked-in recordings of real brokers, from fixed first
values (`START`), by coordinate steps that each must lower the surprise of the truth. A constant of which the
corpus says nothing stays near its first value. Writes `coordinator/departure/fitted.py`, with its origin.
"""

from __future__ import annotations

import math
import os
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rebalance_monitor.coordinator.departure import fitted
from rebalance_monitor.coordinator.departure.fitted import Fitted
from rebalance_monitor.lab.suite.departures import Life, answers, recorded, simulated, surprise

if TYPE_CHECKING:
    from collections.abc import Sequence

START = Fitted()
"""The first values: the defaults of the type."""

_PRODUCTION, _FAST = range(260), range(500_000, 500_080)
_STEPS = (0.9, 0.4)
# However many processors there are: sums are made in the same order.
_PARTS = 8
_MOST_STEPS = 4
# How far, in log (odds), a constant may wander before it must be worth it.
_WIDTH = 0.8
_LEAST_GAIN = 0.05
_SHARED = (
    ("deaf_before", "deaf_commits", "deaf_long"),
    ("beat_default", "beat_third"),
    ("late_poll", "busy_poll"),
    ("holds_at_once", "holds_amid"),
)
_ABOUT = "# `make fit`: "
_RECORDINGS = Path("tests/fixtures/scenarios")


def corpus() -> list[Life]:
    """Return the departures that are fitted on."""
    found = simulated(_PRODUCTION) + simulated(_FAST, "fast")
    for folder in sorted(_RECORDINGS.iterdir()):
        found += recorded(folder)
    return found


class Judges:
    """Processes that judge the corpus, each some parts of it; the sum is that of the parts in their order."""

    def __init__(self, lives: Sequence[Life]) -> None:
        self._parts = [lives[number::_PARTS] for number in range(_PARTS)]
        self._pool = get_context("fork").Pool(os.cpu_count(), _keep, (self._parts,))

    def loss(self, by: Fitted) -> float:
        """Return the surprise of the truth, and what it costs to be far from the first values."""
        far = (_place(getattr(by, name)) - _place(getattr(START, name)) for name in Fitted._fields)
        found = self._pool.map(_surprise, [(number, by) for number in range(_PARTS)], chunksize=1)
        return sum(found) + sum((one / _WIDTH) ** 2 / 2 for one in far)


_kept: list[Sequence[Life]] = []


def _keep(parts: list[Sequence[Life]]) -> None:
    _kept[:] = parts


def _surprise(asked: tuple[int, Fitted]) -> float:
    number, by = asked
    return surprise(_kept[number], by)


def fit(lives: list[Life]) -> tuple[Fitted, float]:
    """Return the constants, and the surprise per departure that is left."""
    judges = Judges(lives)
    best, least = START, judges.loss(START)
    for step in _STEPS:
        for name in Fitted._fields:
            best, least = _along(judges, name, step, best, least)
        click.echo(f"steps of {step}: {least:.2f}", err=True)
    count = sum(1 for _ in answers(lives, best))
    return best, surprise(lives, best) / count


def _along(judges: Judges, name: str, step: float, best: Fitted, least: float) -> tuple[Fitted, float]:
    """Move one constant as long as that helps, up or else down."""
    for sign in (1, -1):
        moved = False
        for _ in range(_MOST_STEPS):
            tried = best._replace(**{name: _shifted(getattr(best, name), sign * step)})
            loss = judges.loss(tried) if _is_possible(tried) else math.inf
            if loss >= least - _LEAST_GAIN:
                break
            best, least, moved = tried, loss, True
        if moved:
            break
    return best, least


def _place(value: float) -> float:
    """Return where a constant lies: the log of a time, the log odds of a share."""
    return math.log(value) if value > 1 else math.log(value / (1 - value))


def _shifted(value: float, by: float) -> float:
    found = _place(value) + by
    return math.exp(found) if value > 1 else 1 / (1 + math.exp(-found))


def _is_possible(by: Fitted) -> bool:
    return all(sum(getattr(by, name) for name in names) < 1 for names in _SHARED)


def written(by: Fitted, left: float, count: int) -> str:
    """Return the module with these constants."""
    lines = Path(fitted.__file__).read_text(encoding="utf-8").split(_ABOUT)[0].rstrip().splitlines()
    values = [f"    {name}={float(f'{getattr(by, name):.3g}')!r}," for name in Fitted._fields]
    about = f"{_ABOUT}{count} departures of simulations and recordings; surprise {left:.4f} each."
    return "\n".join([*lines, "", "", about, "FITTED = Fitted(", *values, ")", ""])


@click.command()
@click.option("--write/--no-write", default=True, show_default=True, help="Write the module again.")
def main(*, write: bool) -> None:
    """Fit the constants of the departure model."""
    lives = corpus()
    by, left = fit(lives)
    text = written(by, left, sum(1 for _ in answers(lives, by)))
    click.echo(text)
    if write:
        Path(fitted.__file__).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
