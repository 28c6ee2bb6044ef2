"""Which receivers would have been notified, when: the dispatcher on a simulated clock, all sinks working.

Pure. Time goes from one thing to do to the next, so a week takes as long as what happened in it. Rates and
pauses are those of the plan; the watchdog is left out.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING

from rebalance_monitor.alerts.dispatch.dispatch import Dispatch
from rebalance_monitor.alerts.dispatch.plan import Memory
from rebalance_monitor.alerts.dispatch.watchdog import WatchdogRule

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator

    from rebalance_monitor.alerts.dispatch.plan import Outgoing, Plan
    from rebalance_monitor.coordinator.findings.finding import Finding

Delivered = tuple[int, "Outgoing"]
"""When (ms), and what."""
AFTER_MS = 3_600_000
"""How long after the last finding the clock goes on, so that what ends by itself is seen to end."""


def rehearse(plan: Plan, findings: Iterable[Finding], after_ms: int = AFTER_MS) -> Iterator[Delivered]:
    """Yield every notification of these findings, which come in the order of `detected_at`."""
    plan = replace(plan, watchdog=WatchdogRule())
    dispatch, now = None, 0
    for at, batch in groupby(findings, key=lambda finding: max(finding.detected_at, finding.at)):
        if dispatch is None:
            dispatch, now = Dispatch(plan, Memory(), lambda: 0.5, at), at
        # Findings of other shards and of the probe may be an instant older.
        now = yield from _until(dispatch, now, max(at, now))
        dispatch.take(batch, now)
    if dispatch is not None:
        yield from _until(dispatch, now, now + after_ms)


def _until(dispatch: Dispatch, now: int, end: int) -> Generator[Delivered, None, int]:
    """Advance time to `end`, and notify of what comes due; returns `end`."""
    while now < end:
        yield from _deliver_ready(dispatch, now)
        wake = dispatch.wake(now)
        now = end if wake is None else min(max(wake, now + 1), end)
    yield from _deliver_ready(dispatch, end)
    return end


def _deliver_ready(dispatch: Dispatch, now: int) -> Iterator[Delivered]:
    dispatch.advance(now)
    while outgoing := dispatch.ready(now):
        for one in outgoing:
            dispatch.arrived(one, {}, now)
            yield now, one
