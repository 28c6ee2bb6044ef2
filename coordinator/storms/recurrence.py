"""A sliding window of events by name: when each of them last happened, as state keeps it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


def add_occurrences(
    memory: Mapping[str, Sequence[int]], names: Iterable[str], at: int, window_ms: int, kept: int
) -> dict[str, list[int]]:
    """Return the memory with one more `at` (ms) of each of `names`: name -> times, oldest first.

    Each name keeps its newest `kept` times within the window. The names of this call come last.
    """
    since = at - window_ms
    within = {name: [one for one in times if since < one <= at] for name, times in memory.items()}
    recent = {name: times for name, times in within.items() if times}
    for name in names:
        recent[name] = [*recent.pop(name, ()), at][-kept:]
    return recent
