"""Publishes notices between batches: no batch has completed for too long, or the brokers are unreachable.

If the storage is unreachable too, or a batch is being published, the notice waits for a later turn. While a
query runs, a thread takes the turns, because the main loop asks the JVM, and the JVM may stand still.
"""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import structlog

from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.engine.health.notices import ERROR

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rebalance_monitor.engine.driver.writer import BatchWriter
    from rebalance_monitor.engine.health.notices import Notices

log = structlog.get_logger()
FIRST_BATCH = 10
AGAIN_S = 5.0
"""After which it is tried again where the storage failed: a try costs a full round of the sinks."""
TURN_S = 1.0


class Speaking:
    """`patience_ms`: how long without a batch until a notice; before the first batch ten times as long."""

    def __init__(
        self,
        notices: Notices,
        writer: BatchWriter,
        patience_ms: int,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._notices, self._writer = notices, writer
        self._patience_ms = patience_ms
        self._now = now
        self._is_owed, self._again_at = False, float("-inf")
        self._judging = threading.Lock()
        self._failed: Exception | None = None
        self.begin()

    @contextmanager
    def listening(self, stop: threading.Event, turn_s: float = TURN_S) -> Iterator[None]:
        """Take a turn every `turn_s` seconds in a thread of its own, until `stop` is set.

        A job that was asked to stop waits for its last batch, and needs no notice for that. `require` raises
        the error of a turn.
        """
        done = threading.Event()

        def listen() -> None:
            while not done.wait(turn_s) and not stop.is_set():
                try:
                    self.turn()
                except Exception as error:  # noqa: BLE001 - raised by require, in the main loop
                    self._failed = error
                    return

        thread = threading.Thread(target=listen, name="rebalance-monitor-speaking", daemon=True)
        self.begin()
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()

    def require(self) -> None:
        """Raise what a turn of the thread raised."""
        if self._failed is not None:
            raise self._failed

    def begin(self) -> None:
        """Count the time without a batch from now on."""
        self._progressed = self._now()

    def progressed(self) -> None:
        """Take a batch as finished."""
        with self._judging:
            self.begin()
            self._notices.hold(Cause.BEHIND, "")

    def turn(self) -> None:
        """Say that there has been no batch for too long, again once the lag has doubled; called often."""
        with self._judging:
            silent_s = self._now() - self._progressed
            # The first batch reads all history, which takes what it takes.
            patience_ms = self._patience_ms * (1 if self._writer.published.batches else FIRST_BATCH)
            is_news = not self._notices.condition(Cause.BEHIND) or self._notices.is_lag_due()
            if silent_s * 1000 > patience_ms and is_news:
                self._notices.hold(Cause.BEHIND, f"no batch was finished for {silent_s:.0f} s")
                self._is_owed = True
        self.speak()

    def say(self, cause: Cause, why: str) -> None:
        """Publish, now or at a later turn, that a condition holds; there may be no later turn."""
        self._notices.hold(cause, why)
        self._is_owed, self._again_at = True, float("-inf")
        self.speak()

    def speak(self) -> None:
        """Publish the notices that wait, if nothing is in the way."""
        if not self._is_owed or self._now() < self._again_at:
            return
        try:
            self._is_owed = not self._writer.speak()
        except OSError as error:
            self._again_at = self._now() + AGAIN_S
            log.warning("notices of the monitor cannot be published yet", why=str(error)[:ERROR])
