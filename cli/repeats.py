"""Libraries that repeat themselves: while brokers are away, kafka-python logs dozens of lines a second.

A library's call site may log `MOST` lines in `PERIOD_S`. Further lines are counted, and the first line after
that time says how many were left out. The job's own lines are not limited.
"""

import logging
import time
from dataclasses import dataclass

MOST, PERIOD_S = 5, 60.0
SITES = 1_000
"""Call sites that are remembered."""


@dataclass(slots=True)
class Site:
    """What one call site logged. began: of its current period, s."""

    began: float
    passed: int = 0
    left_out: int = 0

    def passes(self, now: float) -> int | None:
        """Count a line; return how many were left out before it, None where it is left out as well."""
        if now - self.began >= PERIOD_S:
            self.began, self.passed = now, 0
        if self.passed >= MOST:
            self.left_out += 1
            return None
        self.passed += 1
        before, self.left_out = self.left_out, 0
        return before


class Repeats(logging.Filter):
    """Limits the lines of every logger but `own` and those below it."""

    def __init__(self, own: str) -> None:
        super().__init__()
        self._own = own
        self._sites: dict[tuple[str, int], Site] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Decide whether the line is logged, and add to it how many before it were not."""
        if record.name.partition(".")[0] == self._own:
            return True
        now, key = time.monotonic(), (record.pathname, record.lineno)
        if key not in self._sites and len(self._sites) >= SITES:
            self._sites.clear()
        before = self._sites.setdefault(key, Site(now)).passes(now)
        if before:
            record.msg, record.args = (
                f"{record.getMessage()} ({before:,} more lines like it were left out)",
                None,
            )
        return before is not None
