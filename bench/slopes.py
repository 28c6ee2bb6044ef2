"""How a figure grows with time, and how sure that is."""

# Fewer samples than this have no error.
LEAST = 3


def slope(hours: list[float], values: list[float]) -> tuple[float, float]:
    """Least squares, and the standard error of the slope, in per cent of the mean an hour."""
    if len(values) < LEAST or not sum(values):
        return 0.0, 0.0
    x, y = sum(hours) / len(hours), sum(values) / len(values)
    over = sum((a - x) ** 2 for a in hours)
    rise = sum((a - x) * (b - y) for a, b in zip(hours, values, strict=True)) / over
    left = sum((b - y - rise * (a - x)) ** 2 for a, b in zip(hours, values, strict=True))
    return 100 * rise / y, 100 * (left / (len(values) - 2) / over) ** 0.5 / y
