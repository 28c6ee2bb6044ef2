"""`make fit`: the constants of the departure model that no protocol and no client's source gives.

Deterministic: simulations of fixed seeds and the checked-in recordings of real brokers, from fixed first
values (`START`), by coordinate steps that each must lower the surprise of the truth. A constant of which the
corpus says little stays near its first value; those of `HELD` stay there. What was reached is kept after each
constant, so that a fit that was stopped goes on. Writes `coordinator/departure/fitted.py`, with its origin.

`--without family=kafka-python` (or `session=30`, `version=3.9.1`) leaves a part of the corpus out, and keeps
the constants in a file of their own: `python -m rebalance_monitor.lab.suite.departures` judges them apart.
"""

from __future__ import annotations

import hashlib
import math
import os
import time
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Self

import click
import msgspec

from rebalance_monitor.coordinator.departure import fitted
from rebalance_monitor.coordinator.departure.fitted import Fitted
from rebalance_monitor.lab.suite.departures import Life, answers, is_of, recorded, simulated, surprise

if TYPE_CHECKING:
    from collections.abc import Sequence

START = Fitted()
"""The first values: the defaults of the type."""

HELD = frozenset({"left", "died", "stalled", "unjoined", "unsynced", "unknown"})
"""Shares of what befalls members: those of the simulations are drawn by hand and say nothing of life."""

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
_VERSION = "version"


class Progress(msgspec.Struct):
    """How far a fit has come: `done` steps of all, with these constants."""

    inputs: str
    done: int
    best: list[float]


def corpus(without: str = "") -> list[Life]:
    """Return the departures that are fitted on."""
    found = simulated(_PRODUCTION) + simulated(_FAST, "fast")
    kind, _, value = without.partition("=")
    for folder in sorted(_RECORDINGS.iterdir()):
        if not (kind == _VERSION and folder.name.endswith(f"-{value}")):
            found += recorded(folder)
    return [life for life in found if kind in {"", _VERSION} or not is_of(life, kind, value)]


def inputs(without: str = "") -> str:
    """Return a digest of what a fit is made from: first values, seeds, recordings and steps."""
    recordings = sorted(path.name for path in _RECORDINGS.iterdir())
    drawn = (_PRODUCTION, _FAST, recordings, without)
    made = (START._asdict(), sorted(HELD), drawn, _STEPS, _WIDTH, _LEAST_GAIN)
    return hashlib.sha256(repr(made).encode()).hexdigest()[:12]


class Judges:
    """Processes that judge the corpus, each some parts of it; the sum is that of the parts in their order."""

    def __init__(self, lives: Sequence[Life], processes: int | None) -> None:
        self._parts = [lives[number::_PARTS] for number in range(_PARTS)]
        self._pool = get_context("fork").Pool(processes or os.cpu_count(), _keep, (self._parts,))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.terminate()
        self._pool.join()

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


def fit(judges: Judges, file: Path, digest: str, until: float) -> tuple[Fitted, bool]:
    """Return the constants, and whether the fit has come to its end by `until` (monotonic seconds)."""
    kept = msgspec.json.decode(file.read_bytes(), type=Progress) if file.exists() else None
    if kept is None or kept.inputs != digest:
        kept = Progress(digest, 0, list(START))
    best = Fitted(*kept.best)
    # Judged anew: the model may have changed since.
    least = judges.loss(best)
    every = list(product(_STEPS, (name for name in Fitted._fields if name not in HELD)))
    for place, (step, name) in enumerate(every[kept.done :], kept.done):
        if time.monotonic() >= until:
            return best, False
        best, least = _along(judges, name, step, best, least)
        kept.done, kept.best = place + 1, list(best)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(msgspec.json.encode(kept))
        value = getattr(best, name)
        click.echo(f"{place + 1} of {len(every)}: {name} {value:.3g}, loss {least:.2f}", err=True)
    return best, True


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


def rounded(by: Fitted) -> Fitted:
    """Return the constants as the module holds them."""
    return Fitted(*(float(f"{value:.3g}") for value in by))


def written(by: Fitted, about: str) -> str:
    """Return the module with these constants, and what it says about them."""
    lines = Path(fitted.__file__).read_text(encoding="utf-8").split(_ABOUT)[0].rstrip().splitlines()
    values = [f"    {name}={getattr(by, name)!r}," for name in Fitted._fields]
    return "\n".join([*lines, "", "", f"{_ABOUT}{about}", "FITTED = Fitted(", *values, ")", ""])


def about(lives: list[Life], by: Fitted) -> str:
    """Say what the constants were fitted on, and how much surprise is left."""
    count = sum(1 for _ in answers(lives, by))
    left = surprise(lives, by) / count
    return f"{count} departures of simulations and recordings (inputs {inputs()}); surprise {left:.4f} each."


@click.command()
@click.option("--write/--no-write", default=True, show_default=True, help="Write the module again.")
@click.option("--minutes", default=15.0, show_default=True, help="Stop after so long; the next call goes on.")
@click.option("--processes", type=int, help="By default as many as there are processors.")
@click.option("--without", default="", help="Leave out `family=`, `session=` (seconds) or `version=`.")
def main(*, write: bool, minutes: float, processes: int | None, without: str) -> None:
    """Fit the constants of the departure model."""
    until = time.monotonic() + 60 * minutes
    lives, file = corpus(without), Path(f"build/fit{without and '-' + without}.json")
    with Judges(lives, processes) as judges:
        by, ended = fit(judges, file, inputs(without), until)
    if not ended:
        click.echo(f"stopped: the next call goes on from {file}", err=True)
        return
    by = rounded(by)
    text = written(by, about(lives, by))
    click.echo(text)
    if write and not without:
        Path(fitted.__file__).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
