"""How often one way out is tried: a token bucket, and after a failure one attempt at a time. Pure.

A failing integration gets one notification at a time, after a growing, jittered pause, and not before the
service's Retry-After unless that is more than five minutes away. The others wait without an attempt (for
refusals see alerts/dispatch/failing.py). A notification without an attempt has certainly not arrived. So an
incident that opened and resolved meanwhile is not sent: the integration catches up with the present.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rebalance_monitor.alerts.messages.notification import SinkError

FIRST_PAUSE_MS = 1_000
LONGEST_PAUSE_MS = 300_000
"""Neither failures nor a service's Retry-After make a pause longer: a wrong date must not silence alerts."""
BURST = 10
MINUTE_MS = 60_000


@dataclass(slots=True)
class Pace:
    """One way out. Times in ms.

    `sent` and `failed` count attempts since the first start. `failing_since` is -1 while all is well;
    `alarmed`: the failure has been made an alert of its own, which opened then.
    """

    tokens: float = BURST
    refilled_at: int = -1
    failures: int = 0
    next_try: int = -1
    failing_since: int = -1
    permanent: bool = False
    why: str = ""
    alarmed: int = -1
    sent: int = 0
    failed: int = 0

    def may_send(self, now: int, per_minute: int) -> bool:
        """Whether an attempt may be made at `now`."""
        self._refill(now, per_minute)
        return now >= self.next_try and self.tokens >= 1

    def wake(self, now: int, per_minute: int) -> int:
        """Return the earliest time at which an attempt may be made."""
        self._refill(now, per_minute)
        missing = max(0.0, 1 - self.tokens)
        return max(now, self.next_try, now + round(missing * MINUTE_MS / per_minute))

    def take(self) -> None:
        """Count an attempt."""
        self.tokens -= 1

    def succeed(self) -> None:
        """Take an attempt as arrived."""
        self.sent += 1
        self.rest()

    def rest(self) -> None:
        """Take it as working until an attempt says otherwise."""
        self.failures, self.next_try, self.failing_since = 0, -1, -1
        self.permanent, self.why = False, ""

    def fail(self, error: SinkError, now: int, draw: float) -> None:
        """Take an attempt as failed; `draw` in [0, 1) is the jitter."""
        self.failed += 1
        self.failures += 1
        self.failing_since = now if self.failing_since < 0 else self.failing_since
        self.permanent, self.why = error.permanent, error.why
        pause = min(FIRST_PAUSE_MS * 2 ** min(self.failures - 1, 20), LONGEST_PAUSE_MS)
        asked = min((error.retry_after_s or 0) * 1_000, LONGEST_PAUSE_MS)
        self.next_try = now + round(max(pause * (0.5 + draw / 2), asked))

    def hang(self, since: int) -> None:
        """Count an attempt without an answer since (ms) as a failure that goes on."""
        if self.failing_since < 0:
            self.failing_since, self.why = since, "it accepted a notification and has not answered"

    def is_failing(self, now: int, after_ms: int) -> bool:
        """Whether it has failed for good, or for long enough to be an alert of its own."""
        return self.failing_since >= 0 and (self.permanent or now - self.failing_since >= after_ms)

    def _set_back(self, by: int) -> None:
        """Move what lies ahead with a clock that was set back by so many ms: no pause may grow."""
        if self.next_try >= 0:
            self.next_try = max(0, self.next_try - by)
        if self.failing_since >= 0:
            self.failing_since = max(0, self.failing_since - by)

    def _refill(self, now: int, per_minute: int) -> None:
        passed = now - self.refilled_at if self.refilled_at >= 0 else 0
        if passed < 0:
            self._set_back(-passed)
            passed = 0
        self.tokens = min(float(min(BURST, per_minute)), self.tokens + passed * per_minute / MINUTE_MS)
        self.refilled_at = now
