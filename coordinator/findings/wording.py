"""Numbers and causes in sentences: durations, counts with their noun, a cause with its confidence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rebalance_monitor.coordinator.findings.causes import Cause

if TYPE_CHECKING:
    from collections.abc import Iterable

ASSUMED = " (assumed)"
"""What follows a value of the brokers that nobody gave the monitor: no record holds it."""

_MINUTE, _HOUR, _DAY = 60_000, 3_600_000, 86_400_000


def seconds(ms: int) -> str:
    """Return a duration for a sentence: in seconds below ten minutes, above in its two largest units.

    Timestamps of records may go back, with a broker's clock: what then lasted less than nothing lasted 0.0 s.
    """
    ms = max(0, ms)
    if ms < 10 * _MINUTE:
        return f"{ms / 1000:.1f} s"
    if ms < _HOUR:
        return _units(ms, _MINUTE, "min", 1_000, "s")
    return _units(ms, _HOUR, "h", _MINUTE, "min") if ms < 2 * _DAY else _units(ms, _DAY, "d", _HOUR, "h")


def _units(ms: int, large: int, name: str, small: int, small_name: str) -> str:
    rest = ms % large // small
    return f"{ms // large} {name}" + (f" {rest} {small_name}" if rest else "")


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, which takes an s but for one."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def ranges(numbers: Iterable[int]) -> str:
    """Return ascending numbers as `0-3,7`."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1][1:] = [number]
        else:
            runs.append([number])
    return ",".join("-".join(map(str, run)) for run in runs)


def likely(cause: str, confidence: float) -> str:
    """Return a cause with how sure it is; how sure it is that none is known is no confidence in a cause."""
    return cause if cause == Cause.UNKNOWN else f"{cause} {confidence:.0%}"
