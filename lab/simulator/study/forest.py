"""Extremely randomised trees (Geurts, Ernst, Wehenkel 2006): the posterior of a class, learned from examples.

Written here because the lab needs no other learner: a few dozen trees, each grown on all examples. A node
tries a random place of each of a few features, and splits at the purest. A leaf answers with the shares of
its classes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]
    Ints = npt.NDArray[np.int64]

_LEAF = 12
_DEPTH = 18


@dataclass(slots=True)
class _Node:
    shares: Floats
    feature: int = 0
    at: float = 0.0
    low: _Node | None = None
    high: _Node | None = None


class Forest:
    """Trees grown on `features` (rows of numbers) and `labels` (0..classes-1)."""

    def __init__(
        self, features: Floats, labels: Ints, classes: int, *, trees: int = 40, seed: int = 0
    ) -> None:
        self._chance = np.random.default_rng(seed)
        self._features, self._classes = features, classes
        self._answers = np.eye(classes)[labels]
        self._trees = [self._grown(np.arange(len(labels)), 0) for _ in range(trees)]

    def posterior(self, features: Floats) -> Floats:
        """Give the share of each class (columns) for rows of features."""
        found = np.zeros((len(features), self._classes))
        for tree in self._trees:
            _descend(tree, features, np.arange(len(features)), found)
        shares: Floats = found / len(self._trees)
        return shares

    def _grown(self, rows: Ints, depth: int) -> _Node:
        answers = self._answers[rows]
        shares = answers.mean(axis=0)
        split = (
            None
            if len(rows) < 2 * _LEAF or depth >= _DEPTH or shares.max() == 1.0
            else self._split(rows, answers)
        )
        if split is None:
            return _Node(shares)
        feature, at = split
        low = self._features[rows, feature] < at
        return _Node(
            shares, feature, at, self._grown(rows[low], depth + 1), self._grown(rows[~low], depth + 1)
        )

    def _split(self, rows: Ints, answers: Floats) -> tuple[int, float] | None:
        """Choose the purest of a few random splits."""
        best, split = -1.0, None
        width = self._features.shape[1]
        for feature in self._chance.permutation(width)[: max(width // 2, 1)]:
            values = self._features[rows, feature]
            least, most = values.min(), values.max()
            if least == most:
                continue
            at = self._place(values, least, most)
            low = values < at
            count = int(low.sum())
            if min(count, len(rows) - count) < _LEAF // 2:
                continue
            purity = _purity(answers[low]) + _purity(answers[~low])
            if purity > best:
                best, split = purity, (int(feature), float(at))
        return split

    def _place(self, values: Floats, least: float, most: float) -> float:
        """Draw a place to split: among the values, or anywhere between the least and the most."""
        if self._chance.random() < 0.5:  # noqa: PLR2004 - a coin
            one, two = self._chance.choice(values, 2)
            return float((one + two) / 2) or float(np.nextafter(0, 1))
        return float(self._chance.uniform(least, most))


def _purity(answers: Floats) -> float:
    sums = answers.sum(axis=0)
    return float((sums * sums).sum() / max(len(answers), 1))


def _descend(node: _Node, features: Floats, rows: Ints, found: Floats) -> None:
    if node.low is None or node.high is None:
        found[rows] += node.shares
        return
    low = features[rows, node.feature] < node.at
    for side, part in ((node.low, rows[low]), (node.high, rows[~low])):
        if len(part):
            _descend(side, features, part, found)
