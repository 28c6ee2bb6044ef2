"""What the job's main loop noticed about the monitor itself, for the writer to publish with a batch.

Two sorts: a condition holds until it is cleared (blind, behind), an event happened (data lost, state
rebuilt). Shared between the main loop and Spark's callback thread. A notice is kept until the ledger has it:
the times of events only go up, and the ledger stores the last published one.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from rebalance_monitor.coordinator.findings.causes import Cause

# Spark repeats its plan and the whole stack in an error: this much of it is said.
ERROR = 2_000

KEPT = 100


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened at `at` (ms); `records` is how many it cost, 0 where that means nothing."""

    at: int
    cause: Cause
    why: str
    records: int = 0


class Notices:
    """Conditions and events; every method may be called from any thread, none blocks or raises."""

    def __init__(self, wall_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000) -> None:
        self._wall_ms = wall_ms
        self._lock = threading.Lock()
        self._conditions: dict[Cause, str] = {}
        self._events: deque[Event] = deque(maxlen=KEPT)
        self._last = -1
        self._lag_due_at: int | None = None

    def hold(self, cause: Cause, why: str) -> None:
        """Say that a condition holds, in one sentence; "" says that it does not."""
        with self._lock:
            self._conditions[cause] = why

    def condition(self, cause: Cause) -> str | None:
        """Return why the condition holds, "" where it does not, None where that is unknown."""
        with self._lock:
            return self._conditions.get(cause)

    def await_lag(self, due_at: int | None) -> None:
        """Set when (ms) the job's lag is published again if no batch comes; None: not at all."""
        with self._lock:
            self._lag_due_at = due_at

    def is_lag_due(self) -> bool:
        """Return whether that time has come."""
        with self._lock:
            return self._lag_due_at is not None and self._wall_ms() >= self._lag_due_at

    def happened(self, cause: Cause, why: str, records: int = 0) -> None:
        """Say that something happened."""
        with self._lock:
            self._last = max(self._wall_ms(), self._last + 1)
            self._events.append(Event(self._last, cause, why, records))

    def advance_past(self, at: int) -> None:
        """Give later events a time after `at` (ms), which is published, whatever the clock shows."""
        with self._lock:
            self._last = max(self._last, at)

    def since(self, at: int) -> list[Event]:
        """Return the events after `at` (ms), oldest first."""
        with self._lock:
            return [event for event in self._events if event.at > at]
