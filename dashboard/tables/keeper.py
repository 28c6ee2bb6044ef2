"""Upkeep beside the job: chores that run now and then in one thread of their own, at a low pace.

A chore rests for ten times as long as it took: what grows with the groups must not take a core from the job.
One that fails is logged and tried again at its next turn: nothing here may stop the monitor.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import structlog

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

log = structlog.get_logger()

REST = 10
"""Least time between two turns of a chore, as a multiple of what the first of them took."""


@dataclass(slots=True)
class Chore:
    """Something to do every `every_s` seconds, more rarely if it takes long; once more `at_end` where set."""

    name: str
    every_s: float
    run: Callable[[], None]
    at_end: bool = False
    due: float = 0.0


class Keeper:
    """Runs chores until it is left; use as a context manager."""

    def __init__(self, chores: Sequence[Chore], clock: Callable[[], float] = time.monotonic) -> None:
        self._chores = [chore for chore in chores if chore.every_s > 0]
        self._clock = clock
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="rebalance-monitor-keeper", daemon=True)

    def __enter__(self) -> Self:
        now = self._clock()
        for chore in self._chores:
            chore.due = now + chore.every_s
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Wait for the chore under way, then do the chores of the end."""
        self._stop.set()
        self._thread.join()
        for chore in self._chores:
            if chore.at_end:
                _try(chore)

    def _loop(self) -> None:
        while self._chores:
            first = min(self._chores, key=lambda chore: chore.due)
            if self._stop.wait(max(first.due - self._clock(), 0.0)):
                return
            began = self._clock()
            _try(first)
            ended = self._clock()
            first.due = ended + max(first.every_s, REST * (ended - began))


def _try(chore: Chore) -> None:
    try:
        chore.run()
    except Exception as error:  # noqa: BLE001 - upkeep must not stop the monitor
        log.warning("upkeep failed", chore=chore.name, why=f"{type(error).__name__}: {error}"[:500])
