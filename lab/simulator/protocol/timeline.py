"""Virtual time: a queue of callbacks, run in the order in which they are due."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


class Timeline:
    """Calls due at a time, in order of time and then of entry; `now` is the time of the one that runs."""

    __slots__ = ("_count", "_due", "now")

    def __init__(self) -> None:
        self._due: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._count = 0
        self.now = 0.0

    def at(self, when: float, call: Callable[..., None], *arguments: Any) -> None:  # noqa: ANN401 - the call's
        """Let `call` run at `when`, or now where that is past."""
        self._count += 1
        heapq.heappush(self._due, (max(when, self.now), self._count, call, arguments))

    def run(self, until: float) -> None:
        """Run everything due up to `until`."""
        due = self._due
        while due and due[0][0] <= until:
            self.now, _, call, arguments = heapq.heappop(due)
            call(*arguments)
        self.now = until
