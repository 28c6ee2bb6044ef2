"""What the departure model knows of a part of the world that its fit has not seen.

`python -m rebalance_monitor.lab.suite.left_out PART...` takes parts such as `family=kafka-python`,
`session=30` (seconds) and `version=3.9.1`. For each it fits the constants without that part (resumed from
where it was stopped), and judges them on that part alone: on simulations that no fit has seen, and on
recordings (`--real`). Beside them stand constants that were fitted alike on everything, and the first values.
These fits are short: one pass, on every third group.
"""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from rebalance_monitor.coordinator.departure.hypotheses import Way
from rebalance_monitor.lab.suite import fit
from rebalance_monitor.lab.suite.corpus import START, VERSION, Corpus, corpus
from rebalance_monitor.lab.suite.departures import (
    FIRST_UNSEEN,
    LEAST_SHARE,
    answers,
    is_of,
    recorded,
    simulated,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rebalance_monitor.coordinator.departure.fitted import Fitted
    from rebalance_monitor.lab.suite.departures import Life

SURE = 0.8
_EVERY = 3
_SHOWN = (Way.DIED, Way.STALLED)
_HEAD = (
    "| left out | judged on | truths | constants fitted on | surprise each "
    "| session timeouts: recall | poll breaches: recall | claims at 0.8: right |"
)


class Judged(NamedTuple):
    """Of a part: departures with a known truth, what they surprise, and claims at `SURE` by way."""

    truths: Counter[Way]
    surprise: float
    right: Counter[Way]
    claims: int

    def recall(self, way: Way) -> str:
        """Say which share of the truths of one way was claimed."""
        return (
            f"{self.right[way] / self.truths[way]:.2f} of {self.truths[way]}" if self.truths[way] else "none"
        )

    def precision(self) -> str:
        """Say how many of the claims were right."""
        right = self.right.total()
        return f"{right} of {self.claims} ({right / max(self.claims, 1):.3f})"


def judged(lives: Sequence[Life], by: Fitted) -> Judged:
    """Judge the departures of `lives` by these constants."""
    truths: Counter[Way] = Counter()
    right: Counter[Way] = Counter()
    claims, left = 0, 0.0
    for shares, true in answers(lives, by):
        truths[true] += 1
        left -= math.log(max(shares[true], LEAST_SHARE))
        best = Way(max(range(len(shares)), key=shares.__getitem__))
        if shares[best] >= SURE:
            claims += 1
            right[best] += best is true
    return Judged(truths, left / max(truths.total(), 1), right, claims)


def part_of(
    part: str, unseen: Sequence[Life], real: Sequence[tuple[Path, list[Life]]]
) -> list[tuple[str, list[Life]]]:
    """Return what belongs to a part: of the unseen simulations, and of recordings."""
    kind, _, value = part.partition("=")
    if kind == VERSION:
        return [
            ("recordings", [one for path, lives in real if f"-{value}" in path.as_posix() for one in lives])
        ]
    recordings = [one for _, lives in real for one in lives]
    each = ("simulations", unseen), ("recordings", recordings)
    return [(name, [life for life in lives if is_of(life, kind, value)]) for name, lives in each]


def rows(
    part: str, fitted: Sequence[tuple[str, Fitted]], judged_on: Sequence[tuple[str, list[Life]]]
) -> Iterator[str]:
    """Yield the lines of the table for one part; `fitted`: constants, by what they were fitted on."""
    for name, lives in judged_on:
        for what, constants in fitted:
            one = judged(lives, constants)
            if one.truths:
                cells = (
                    *(part, name, str(one.truths.total()), what, f"{one.surprise:.4f}"),
                    *(one.recall(way) for way in _SHOWN),
                    one.precision(),
                )
                yield f"| {' | '.join(cells)} |"


def fitted_without(part: str, made_from: Mapping[str, str], processes: int | None) -> Fitted:
    """Fit on a third of what is left without a part, in one pass."""
    some = Corpus(*(lives[::_EVERY] for lives in corpus(part)))
    file, digest = Path(f"build/fit-short-{part}.json"), f"{made_from} {part} {_EVERY}"
    return fit.fit(some, file, digest, math.inf, processes, fit.STEPS[:1])[0]


@click.command()
@click.argument("parts", nargs=-1, required=True)
@click.option("--real", "folders", multiple=True, type=click.Path(path_type=Path, exists=True))
@click.option("--groups", default=300, show_default=True, help="Simulated groups that are judged.")
@click.option("--processes", type=int, help="By default as many as there are processors.")
def main(parts: Sequence[str], folders: Sequence[Path], groups: int, processes: int | None) -> None:
    """Fit without each part, and print how that part is judged."""
    unseen = simulated(range(FIRST_UNSEEN, FIRST_UNSEEN + groups))
    real = [(folder, recorded(folder)) for folder in folders]
    made_from = fit.inputs()
    whole = fitted_without("", made_from, processes)
    click.echo(f"{_HEAD}\n|---|---|--:|---|--:|---|---|---|")
    for part in parts:
        by = fitted_without(part, made_from, processes)
        fitted = (("the rest", by), ("everything", whole), ("nothing: the first values", START))
        for line in rows(part, fitted, part_of(part, unseen, real)):
            click.echo(line)


if __name__ == "__main__":
    main()
