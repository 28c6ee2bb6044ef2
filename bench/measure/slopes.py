"""How a figure grows with time, and how sure that is."""

from itertools import combinations, pairwise
from statistics import median

# Fewer samples than this have no error.
LEAST = 3


def slope(hours: list[float], values: list[float]) -> tuple[float, float]:
    """Least squares, and the standard error of the slope, in per cent of the mean an hour.

    A sample that lies where the one before it lay says little that is new: of samples whose distances from
    the line correlate by r with the next one's, only (1 - r) / (1 + r) count.
    """
    if len(values) < LEAST or not sum(values):
        return 0.0, 0.0
    x, y = sum(hours) / len(hours), sum(values) / len(values)
    over = sum((a - x) ** 2 for a in hours)
    rise = sum((a - x) * (b - y) for a, b in zip(hours, values, strict=True)) / over
    left = [b - y - rise * (a - x) for a, b in zip(hours, values, strict=True)]
    squares = sum(one**2 for one in left)
    together = max(0.0, sum(a * b for a, b in pairwise(left)) / squares) if squares else 0.0
    few = (1 + together) / max(1 - together, 1 / len(left))
    return 100 * rise / y, 100 * (few * squares / (len(values) - 2) / over) ** 0.5 / y


def slope_of_pairs(hours: list[float], values: list[float]) -> float:
    """Give the median of the slopes between any two samples (Theil and Sen), in per cent of the mean an hour.

    Single samples that lie far off move a line, not this.
    """
    if len(values) < LEAST or not sum(values):
        return 0.0
    samples = sorted(zip(hours, values, strict=True))
    rises = [(y - x) / (b - a) for (a, x), (b, y) in combinations(samples, 2) if b > a]
    return 100 * median(rises) * len(values) / sum(values) if rises else 0.0
