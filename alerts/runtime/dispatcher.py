"""The dispatcher: a thread that owns the memory, the inbox and the sinks, around the pure `Dispatch`.

A batch calls only `put` (writes one file) and `committed` (sets an event), so sending neither blocks nor
fails a batch. Each sink has a thread of its own while it sends, so a sink that hangs delays no other.

Each round takes committed findings, evaluates, saves, hands over, and saves the results. An attempt is in the
saved memory before a sink gets it, so after a crash it is known that it may have arrived. Repeats by the
clock alone are not saved: receivers that forget alerts without a repeat accept them twice.
"""

from __future__ import annotations

import queue
import random
import threading
import time
import traceback
from collections import deque
from typing import TYPE_CHECKING, Self

import structlog

from rebalance_monitor.alerts.dispatch.dispatch import Dispatch
from rebalance_monitor.alerts.engine.decision import Reason
from rebalance_monitor.alerts.messages.notification import SinkError
from rebalance_monitor.alerts.runtime.files import Files
from rebalance_monitor.alerts.runtime.inbox import relevant
from rebalance_monitor.alerts.runtime.journal import incidents_of
from rebalance_monitor.alerts.runtime.silences import SilenceFiles, Silences
from rebalance_monitor.alerts.runtime.status import Status, status_of
from rebalance_monitor.checkpoints.errors import StoreError, first_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from rebalance_monitor.alerts.dispatch.plan import Outgoing, Plan
    from rebalance_monitor.alerts.messages.notification import Sent, Sink
    from rebalance_monitor.alerts.routing.labels import Labels
    from rebalance_monitor.alerts.runtime.inbox import BatchName
    from rebalance_monitor.checkpoints.storage.places import Place
    from rebalance_monitor.coordinator.findings.finding import Finding

log = structlog.get_logger()
LOOK_S = 0.25
"""Longest pause between two rounds: silences of other processes and the time itself are looked at."""
TROUBLE_S = 5.0
TRIES = 5
"""After so many an inbox file that cannot be read is passed over, if the storage is there otherwise."""
GRACE_S = 5.0
HELD_UP_S = 60.0
HELD_UP = "no notification can be sent: the dispatcher is held up; the log says why"
SAVE_S = 30.0
"""How long a memory that changed only by looking at groups may wait for its save."""

ROUTINE = frozenset({Reason.WATCHDOG, Reason.RESEND})
"""What is sent by the clock and says nothing new: the journal would hold little else."""

Outcome = tuple["Outgoing", "Sent | SinkError"]


def wall_ms() -> int:
    """Return the wall clock in ms since epoch."""
    return time.time_ns() // 1_000_000


class Dispatcher:
    """Use as a context manager, `open` first. Raises ConfigError, OSError.

    `plan` gets the function that checks for an active silence. `on_attempt(receiver, arrived)` is called
    after every attempt, for metrics; it must not block.
    """

    def __init__(
        self,
        folder: Place,
        plan: Callable[[Callable[[Labels, int], bool]], Plan],
        sinks: Mapping[str, Sink],
        clock: Callable[[], int] = wall_ms,
        on_attempt: Callable[[str, bool], None] = lambda _receiver, _arrived: None,
    ) -> None:
        self._files = Files(folder)
        self._silences = Silences(SilenceFiles(folder))
        self._refresh()
        self._sinks = sinks
        self._clock = clock
        self._on_attempt = on_attempt
        draw = random.Random().random  # noqa: S311 - jitter is no secret
        self._plan = plan(self._silences.holds)
        self._dispatch = Dispatch(self._plan, self._files.memory.load(), draw, clock())
        for way, incidents in self._dispatch.orphaned.items():
            log.warning(
                "an integration was removed: what is open there cannot be resolved",
                way=way,
                incidents=incidents,
            )
        self._committed: deque[tuple[BatchName, bool | None]] = deque()
        self._outcomes: queue.SimpleQueue[Outcome] = queue.SimpleQueue()
        self._bell = threading.Event()
        self._stop = threading.Event()
        self._sending: dict[str, threading.Thread] = {}
        self._thread = threading.Thread(target=self._run, name="alerts", daemon=True)
        self._saved_at = self._pause = 0.0
        self._taken: list[BatchName] = []
        self._tries, self._aside = 0, ""
        self._rounded_at = time.monotonic()
        self.alerts = self._dispatch.memory.engine.alerts
        self._refused = self._dispatch.memory.engine.refused
        self.status: Status = status_of(self._dispatch, clock())

    def open(self, committed: Mapping[str, int]) -> None:
        """Take what was committed and not yet taken when the process before ended. Blocks for the disk."""
        # Alerts that were notified before this process: the next batch may resolve them.
        self._committed.extend((name, True) for name in self._files.inbox.open(committed))
        self._bell.set()

    def put(self, name: BatchName, findings: Iterable[Finding]) -> None:
        """Keep a batch's findings durably, before the batch is committed. Blocks for the disk; OSError."""
        self._files.inbox.put(name, filter(relevant, findings))

    def committed(self, name: BatchName, *, lives: bool = True, behind: bool | None = None) -> None:
        """Take a batch as final; `lives`: it proves that the job works. Neither blocks nor raises.

        `behind`: whether newer records, long written, have yet to be judged; None for a batch without any.
        """
        if lives:
            self._dispatch.watchdog.batch_at = self._clock()
        self._committed.append((name, behind))
        self._bell.set()

    def stalled_reason(self) -> str:
        """Return in one sentence why no alert is sent, "" while the dispatcher runs."""
        return HELD_UP if time.monotonic() - self._rounded_at > HELD_UP_S else ""

    def failing(self) -> str:
        """Return in one sentence why alerts are not sent, or which receivers fail; "" where all is well."""
        return self.stalled_reason() or "; ".join(filter(None, (self._aside, self.status.failing())))

    def __enter__(self) -> Self:
        self._rounded_at = time.monotonic()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop; attempts under way have some seconds left, else the next process sends them.

        A blind monitor is notified at once: what ended it may keep the next process from starting.
        """
        self._stop.set()
        self._bell.set()
        self._thread.join()
        self._try(self._farewell)
        deadline = time.monotonic() + GRACE_S
        for thread in self._sending.values():
            thread.join(max(0.0, deadline - time.monotonic()))
        self._settle()
        self._try(self._save)
        for name, sink in self._sinks.items():
            if name not in self._sending or not self._sending[name].is_alive():
                sink.close()

    def _run(self) -> None:
        while not self._stop.is_set():
            if self._try(self._round):
                self._bell.wait(self._pause)
                self._bell.clear()
            else:
                self._stop.wait(TROUBLE_S)

    def _try(self, step: Callable[[], None]) -> bool:
        """Do one step; what goes wrong is said and tried again: alerts end with the process alone."""
        try:
            step()
        except Exception:
            log.exception("notifications are delayed and tried again")
            return False
        return True

    def _round(self) -> None:
        now = self._clock()
        self._refresh()
        changed = self._settle()
        self._take(now)
        self._dispatch.advance(now)
        self._say_refused()
        outgoing = self._dispatch.ready(now)
        try:
            tells = any(one.due.reason not in ROUTINE for one in outgoing)
            if tells or changed or self._taken or time.monotonic() - self._saved_at > SAVE_S:
                self._save()
        except Exception:
            # Without its save an attempt must not be made: the next process would not know of it.
            for one in outgoing:
                self._dispatch.withdraw(one)
            raise
        for one in outgoing:
            self._hand_over(one)
        for error in self._dispatch.broken.values():
            # After the others have what is theirs.
            raise error
        self.status = status_of(self._dispatch, now)
        self._rounded_at = time.monotonic()
        wake = self._dispatch.wake(now)
        self._pause = LOOK_S if wake is None else min(max((wake - self._clock()) / 1_000, 0.01), LOOK_S)

    def _say_refused(self) -> None:
        before, self._refused = self._refused, self._dispatch.memory.engine.refused
        if self._refused > before:
            log.error("there are too many open alerts: new ones do not notify", refused=self._refused)

    def _hand_over(self, outgoing: Outgoing) -> None:
        """Let the sink's own thread begin."""
        name = outgoing.way[0]
        # A daemon: a service that hangs must not keep the process from ending.
        thread = threading.Thread(target=self._send, args=(outgoing,), name=f"alerts-{name}", daemon=True)
        try:
            thread.start()
            self._sending[name] = thread
        except RuntimeError:
            self._outcomes.put((outgoing, SinkError("the machine has no thread left for it")))

    def _farewell(self) -> None:
        now = self._clock()
        self._take(now)
        self._dispatch.hurry(now)
        self._round()

    def _refresh(self) -> None:
        for why in self._silences.refresh():
            log.warning("a silence cannot be read", why=why)

    def _take(self, now: int) -> None:
        """Take what is committed; files of what was taken may go once the memory is saved."""
        while self._committed:
            name, behind = self._committed[0]
            if self._take_batch(name, now):
                self._taken.append(name)
            if behind is not None:
                self._dispatch.catch_up(now, is_behind=behind)
            self._committed.popleft()

    def _take_batch(self, name: BatchName, now: int) -> bool:
        """Take one batch unless it was taken before; say whether it left a file. Raises OSError."""
        (query, batch), batches = name, self._dispatch.memory.batches
        try:
            findings = self._read_batch(name)
            if batch > batches.get(query, -1) and findings:
                self._dispatch.take(findings, now)
            self._tries = 0
        except OSError:
            raise
        except Exception:
            # One batch that cannot be taken must not stand before all others for ever.
            log.exception("the alerts of a batch were lost", query=query, batch=batch)
        if self._files.inbox.has(name):
            batches[query] = max(batch, batches.get(query, -1))
            return True
        return False

    def _read_batch(self, name: BatchName) -> list[Finding]:
        """Read the findings of one batch, none of one that is set aside. Raises OSError while that may pass.

        Where the memory cannot be written either the storage is away, not the file. It may have come back
        between the read and the write, so the file is read once more behind the write.
        """
        try:
            return self._files.inbox.read(name)
        except OSError:
            self._tries += 1
            if self._tries < TRIES:
                raise
        try:
            self._files.memory.rewrite(self._dispatch.memory)
        except Exception as error:
            self._tries = TRIES - 1
            raise StoreError(f"the memory cannot be written: {first_line(error)}") from error
        try:
            return self._files.inbox.read(name)
        except OSError as error:
            self._set_aside(name, error)
            return []

    def _set_aside(self, name: BatchName, error: OSError) -> None:
        """Pass over a batch whose file cannot be read, and say so."""
        self._tries = 0
        file = self._files.inbox.set_aside(name)
        self._aside = f"the alerts of batch {name[1]} were not sent, because {file} cannot be read"
        log.error("a batch's alerts cannot be read: set aside", file=str(file), why=first_line(error))

    def _save(self) -> None:
        self._files.memory.save(self._dispatch.memory)
        self._saved_at = time.monotonic()
        while self._taken:
            self._files.inbox.drop(self._taken[-1])
            self._taken.pop()

    def _send(self, outgoing: Outgoing) -> None:
        """Hand one notification to its sink; runs on the sink's own thread."""
        name = outgoing.way[0]
        try:
            outcome: Sent | SinkError = self._sinks[name].send(outgoing.notification, self._clock())
        except SinkError as error:
            outcome = error
        except Exception as error:  # noqa: BLE001 - a sink's bug must not end its thread
            # The error's text may hold secrets, so only its place is logged.
            place = traceback.extract_tb(error.__traceback__)[-1]
            broke = {"what": type(error).__name__, "where": f"{place.name}:{place.lineno}"}
            log.error("a sink broke", receiver=name, **broke)  # noqa: TRY400 - see above
            outcome = SinkError(f"the sink broke: {type(error).__name__}")
        self._outcomes.put((outgoing, outcome))
        self._bell.set()

    def _settle(self) -> bool:
        """Take what the sinks answered; say whether there was anything worth a save."""
        changed = False
        while not self._outcomes.empty():
            outgoing, outcome = self._outcomes.get()
            changed |= isinstance(outcome, SinkError) or outgoing.due.reason not in ROUTINE
            self._on_attempt(outgoing.way[0], not isinstance(outcome, SinkError))
            if isinstance(outcome, SinkError):
                self._dispatch.failed(outgoing, outcome, self._clock())
                about = {"why": outcome.why, "incidents": incidents_of(outgoing.notification)}
                log.warning("a notification did not arrive", receiver=outgoing.way[0], **about)
            else:
                self._dispatch.arrived(outgoing, outcome.state, self._clock())
                self._note(outgoing)
        return changed

    def _note(self, outgoing: Outgoing) -> None:
        notification, reason = outgoing.notification, outgoing.due.reason
        if reason in ROUTINE:
            log.debug("notified again", receiver=notification.receiver, reason=reason)
            return
        about = {"thread": notification.thread, "incidents": incidents_of(notification)}
        log.info("notified", receiver=notification.receiver, phase=notification.phase, reason=reason, **about)
        try:
            self._files.journal.write(outgoing, self._clock())
        except OSError as error:
            log.warning("the journal of notifications cannot be written", why=error.strerror)
