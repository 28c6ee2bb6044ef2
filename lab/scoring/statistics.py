"""The little statistics of the accuracy page."""

from __future__ import annotations

from math import sqrt
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def wilson(hits: int, total: int, z: float = 1.96) -> tuple[float, float]:
    """Give the 95 % Wilson interval of a proportion; (0, 1) of nothing."""
    if total == 0:
        return 0.0, 1.0
    share, square = hits / total, z * z / total
    middle = (share + square / 2) / (1 + square)
    spread = z * sqrt(share * (1 - share) / total + square / (4 * total)) / (1 + square)
    return max(0.0, middle - spread), min(1.0, middle + spread)


def percentile(ordered: Sequence[float], share: float) -> float:
    """Give the value at `share` of an ordered, not empty sequence."""
    return ordered[min(len(ordered) - 1, round(share * (len(ordered) - 1)))]


def share(hits: int, total: int) -> str:
    """Give `0.95 (0.87-0.98)`; an en dash for nothing of nothing."""
    if total == 0:
        return "–"  # noqa: RUF001 - an empty cell of a table
    low, high = wilson(hits, total)
    return f"{hits / total:.2f} ({low:.2f}-{high:.2f})"
