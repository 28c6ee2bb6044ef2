"""Where findings go on the driver. Sinks write before the ledger commits; the uncommitted is forgotten.

JSON lines and tables are exactly-once across any death of the process. A terminal or pipe cannot take lines
back: there a batch that runs again is printed again, with the same ids.
"""

from __future__ import annotations

import queue
import threading
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import structlog

from rebalance_monitor.checkpoints.storage.lines import lines_at
from rebalance_monitor.coordinator.findings.finding import to_json
from rebalance_monitor.dashboard.tables.files import forget_batch, forget_uncommitted, require_format
from rebalance_monitor.dashboard.tables.findings_table import write_findings
from rebalance_monitor.dashboard.tables.quarantine_table import write_quarantine

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rebalance_monitor.checkpoints.ledger import Snapshot
    from rebalance_monitor.checkpoints.storage.places import Place
    from rebalance_monitor.coordinator.findings.finding import Finding
    from rebalance_monitor.engine.batch.batches import Batch, BatchKey

log = structlog.get_logger()
WAITING = 10_000
CLOSE_S = 5.0


@dataclass(frozen=True, slots=True)
class Publication:
    """What one batch publishes: final, stamped findings; the operator's outputs; driver's clock (ms)."""

    findings: Sequence[Finding]
    batch: Batch
    wall: int


class Sink(Protocol):
    """One destination. `start` and `write` block for the disk; on their OSError the batch runs again."""

    def start(self, committed: Snapshot) -> None:
        """Forget what was written after `committed`; called once, before the first batch."""

    def write(self, key: BatchKey, publication: Publication) -> None:
        """Write one batch durably; called again with the same key when a batch runs again."""

    def committed(self, key: BatchKey) -> None:
        """Take the batch as final: the ledger has it. Neither blocks nor raises."""


class JsonLines:
    """`findings.jsonl`: one finding per line, in the order of detection.

    `written` is the length (bytes) that the ledger is to commit, `length` what it has committed.
    """

    def __init__(self, path: Place) -> None:
        self._lines = lines_at(path)
        self.length = self.written = 0
        self._is_unsure = False

    def start(self, committed: Snapshot) -> None:
        """Cut the file to the committed length; a file that was shortened or moved meanwhile starts anew."""
        self.length = self.written = self._lines.cut(committed.jsonl_bytes)

    def write(self, key: BatchKey, publication: Publication) -> None:  # noqa: ARG002 - a sink takes what it needs
        """Append the findings, from the committed length on: an earlier try may have failed half-way."""
        self.written = self.length
        if publication.findings:
            text = bytearray()
            for finding in publication.findings:
                text += f"{to_json(finding)}\n".encode()
            self._is_unsure = True
            self.written = self._lines.append(text, self.length)
        elif self._is_unsure:
            self._lines.cut(self.length)

    def committed(self, key: BatchKey) -> None:  # noqa: ARG002 - a sink takes what it needs
        """Take what was written as final."""
        self.length, self._is_unsure = self.written, False


class FindingsTable:
    """The Parquet table of findings."""

    def __init__(self, folder: Place) -> None:
        self._folder = folder
        self._uncommitted: BatchKey | None = None

    def start(self, committed: Snapshot) -> None:
        """Delete the files of batches that were never committed. Raises ConfigError for a Delta table."""
        require_format(self._folder, delta=False)
        forget_uncommitted(self._folder, committed.batches)

    def write(self, key: BatchKey, publication: Publication) -> None:
        """Write the batch's own files; delete those of an uncommitted try, which may hold more findings."""
        if self._uncommitted is not None:
            forget_batch(self._folder, *self._uncommitted)
        self._uncommitted = key
        write_findings(self._folder, publication.findings, *key)

    def committed(self, key: BatchKey) -> None:  # noqa: ARG002 - a sink takes what it needs
        """Take what was written as final."""
        self._uncommitted = None


class QuarantineTable:
    """The Parquet table that samples unreadable records."""

    def __init__(self, folder: Place) -> None:
        self._folder = folder
        self._uncommitted: BatchKey | None = None

    def start(self, committed: Snapshot) -> None:
        """Delete the files of batches that were never committed."""
        forget_uncommitted(self._folder, committed.batches)

    def write(self, key: BatchKey, publication: Publication) -> None:
        """Write the batch's own file; one of a try that was not committed goes: it may be of another day."""
        if self._uncommitted is not None:
            forget_batch(self._folder, *self._uncommitted)
        self._uncommitted = key
        write_quarantine(self._folder, publication.batch.unreadable, *key, publication.wall)

    def committed(self, key: BatchKey) -> None:  # noqa: ARG002 - a sink takes what it needs
        """Take what was written as final."""
        self._uncommitted = None


class Lines:
    """Findings as lines of text on a stream.

    A thread of its own writes them, so a slow reader delays nothing. Lines beyond `WAITING` unwritten ones
    are left out, and so are all lines once the stream fails: `on_failure` gets the error, or it is logged.
    End with `close`.
    """

    def __init__(
        self,
        show: Callable[[Finding], str],
        write: Callable[[str], None],
        on_failure: Callable[[Exception], None] | None = None,
    ) -> None:
        self._show = show
        self._write = write
        self._on_failure = on_failure or _log_failure
        self._left_out = 0
        self._is_open = True
        self._waiting: queue.Queue[str | None] = queue.Queue(WAITING)
        self._thread = threading.Thread(target=self._run, name="console", daemon=True)
        self._thread.start()

    def start(self, committed: Snapshot) -> None:
        """Nothing can be taken back."""

    def write(self, key: BatchKey, publication: Publication) -> None:  # noqa: ARG002 - a sink takes what it needs
        """Print the findings that are news: history rebuilds state and is for the tables. Does not block."""
        for finding in publication.findings if self._is_open else ():
            if not finding.history:
                self._put(self._show(finding) + "\n")

    def committed(self, key: BatchKey) -> None:
        """Nothing is left to do."""

    def close(self) -> None:
        """Wait some seconds for what is not written yet."""
        with suppress(queue.Full):
            self._waiting.put(None, timeout=CLOSE_S)
        self._thread.join(CLOSE_S)

    def _put(self, line: str) -> None:
        try:
            self._waiting.put_nowait(line)
        except queue.Full:
            if not self._left_out:
                log.warning(
                    "the reader of this output is too slow: findings are left out here, and only here"
                )
            self._left_out += 1
        else:
            if self._left_out:
                log.warning("the reader of this output has caught up", findings_left_out=self._left_out)
            self._left_out = 0

    def _run(self) -> None:
        while (line := self._waiting.get()) is not None:
            try:
                self._write(line)
            except (OSError, ValueError) as error:
                # The reader of the pipe is gone, a disk is full, or the stream is closed.
                self._is_open = False
                self._on_failure(error)
                return


def _log_failure(error: Exception) -> None:
    log.warning("findings are no longer printed", why=f"{type(error).__name__}: {error}")
