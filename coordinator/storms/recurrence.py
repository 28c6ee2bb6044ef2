"""When things of a name lately happened: a memory of a window that slides, as state keeps it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


def add_occurrences(
    memory: Mapping[str, Sequence[int]], names: Iterable[str], at: int, window_ms: int, kept: int
) -> dict[str, list[int]]:
    """Return the memory with one more `at` (ms) of each of `names`: name -> times, oldest first.

    Of each the newest `kept` times within the window; names that happened just now come last.
    """
    since = at - window_ms
    within = {name: [one for one in times if since < one <= at] for name, times in memory.items()}
    recent = {name: times for name, times in within.items() if times}
    for name in names:
        recent[name] = [*recent.pop(name, ()), at][-kept:]
    return recent
