"""Was a run fair? A starved machine fences brokers and expires members that did nothing wrong.

`Pulse` measures how late a thread that only sleeps wakes up; a lateness that eats a good part of a session
timeout spoils whatever ran then. A broker that was fenced says so in its controller's log. Neither is a
client's fault, so such runs are marked and not counted (lab/suite/accuracy.py).
"""

from __future__ import annotations

import re
import threading
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Iterable

BEAT_S = 0.25
LATE_MS = 2_000
# What a fence or a starvation may spoil: sessions that ran meanwhile and end after it.
AFTER_MS = 8_000
_FENCED = re.compile(
    r"^(?P<at>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3})Z .*"
    r"(?:Fencing broker \d+ (?:at epoch \d+ )?because its session has timed out|has been fenced due to)"
)


@dataclass(frozen=True, slots=True)
class Strain:
    """One time span (ms) in which the machine or its broker was not there: `what` is starved or fenced."""

    since: int
    until: int
    what: str

    @property
    def length_ms(self) -> int:
        """How long it was."""
        return self.until - self.since

    def spoils(self, since: int, until: int) -> bool:
        """Return whether something that ran in that time is not to be trusted."""
        return self.since <= until and since <= self.until + AFTER_MS


class Pulse:
    """Beats until left, and remembers when it was late."""

    def __init__(self) -> None:
        self.late: list[Strain] = []
        self.worst_ms = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._beat, daemon=True)

    def _beat(self) -> None:
        before = time.time()
        while not self._ended.wait(BEAT_S):
            now = time.time()
            late = round((now - before - BEAT_S) * 1000)
            self.worst_ms = max(self.worst_ms, late)
            if late >= LATE_MS:
                self.late.append(Strain(round(before * 1000), round(now * 1000), "starved"))
            before = now

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join(timeout=5)


def fences(lines: Iterable[str]) -> list[Strain]:
    """Give when a controller's log says that it fenced a broker whose session ended."""
    found = []
    for line in lines:
        if match := _FENCED.match(line):
            at = int(datetime.fromisoformat(match["at"]).replace(tzinfo=UTC).timestamp() * 1000)
            found.append(Strain(at, at, "fenced"))
    return found
