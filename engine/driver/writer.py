"""The batch writer: what the driver does with each batch of an engine.

In this order: roll up, refine by probe samples, write the sinks, commit the ledger. A batch that the ledger
has committed is skipped: an engine runs it again when the process died between the ledger's commit and its
own. Blocks for the sinks. An error fails the batch, which runs again, in this process or the next.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import structlog

from rebalance_monitor.coordinator.findings.finding import stamp
from rebalance_monitor.coordinator.findings.kinds import Kind
from rebalance_monitor.engine.batch.batches import MONITOR, Batch, BatchKey
from rebalance_monitor.engine.outputs.identities import SHOWN, Identities
from rebalance_monitor.engine.outputs.sinks import JsonLines, Publication

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from rebalance_monitor.checkpoints.ledger import Ledger, Snapshot
    from rebalance_monitor.coordinator.findings.finding import Finding
    from rebalance_monitor.coordinator.rollup.rebuild import Outcome
    from rebalance_monitor.engine.outputs.sinks import Sink

log = structlog.get_logger()
# Published some seconds after the record that decides them; the others after their deadline and its grace.
HELD_BACK, LATE_MS = frozenset({Kind.GROUP_REMOVED, Kind.GROUP_MIGRATED}), 10_000
# A line names so many incidents; the rest is in the findings.
INCIDENTS = 5
# A job without findings logs a line this often, so that its log shows that it runs.
SIGN_OF_LIFE_MS = 300_000


class DriverParts(Protocol):
    """The pure parts that see all keys at once, with their states."""

    def restore(self, snapshot: Snapshot) -> None:
        """Take the states of the parts from `snapshot`."""

    def findings(self, batch: Batch, wall: int) -> list[Finding]:
        """Return the batch's findings, refined, with the driver's own; `wall` in ms."""

    def carry_over(self, findings: list[Finding], again: Sequence[Finding], batch: Batch) -> Outcome:
        """Return what to publish after the state was rebuilt; `again` were published before."""

    def learn_again(self, batch: Batch) -> None:
        """Take what a process that begins must know of a batch which was published before."""

    def into(self, snapshot: Snapshot) -> Snapshot:
        """Return `snapshot` with the states of the parts."""


@dataclass(slots=True)
class Published:
    """What the writer has done so far, for the job's main loop."""

    batches: int = 0
    rows: int = 0
    findings: int = 0
    last: BatchKey | None = None


class BatchWriter:
    """Applies batches of one query at a time; `query_id` is set once Spark has given it."""

    def __init__(
        self,
        ledger: Ledger,
        snapshot: Snapshot,
        sinks: Sequence[Sink],
        parts: DriverParts,
        *,
        generation: int = 0,
        cluster_name: str = "",
        identities: Identities = SHOWN,
        wall_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._ledger = ledger
        self._snapshot = snapshot
        self._sinks = sinks
        self._parts = parts
        self._generation = generation
        self._cluster_name = cluster_name
        self._identities = identities
        self._wall_ms = wall_ms
        self._query_id = ""
        self._has_id = threading.Event()
        self._telling = threading.Lock()
        self._said = -SIGN_OF_LIFE_MS
        self.published = Published()
        parts.restore(snapshot)
        for sink in sinks:
            sink.start(snapshot)

    def serve(self, query_id: str) -> None:
        """Name the query whose batches come from now on; its first batch waits for this."""
        self._query_id = query_id
        self._has_id.set()

    def pause(self) -> None:
        """Let no batch in until the next query is named. Waits for a batch that is being published."""
        self._has_id.clear()
        with self._telling:
            pass

    def awaited(self) -> str:
        """Return the id of the query whose batches are applied. Blocks until it has been named."""
        self._has_id.wait()
        return self._query_id

    def apply(self, key: BatchKey, batch: Batch) -> None:
        """Publish `batch`, unless the ledger says that it is published.

        A checkpoint that is older than the ledger (a backup, a log that lost its newest files) numbers its
        batches like published ones. These batches are published under another name of the query, and only
        their findings beyond the ledger.
        """
        name = self._snapshot.name_of(key.query_id)
        if not self._snapshot.has(name, key.batch_id):
            # A partition that had no leader when the batches of a dead process ran again is read again later.
            again = {p for p, begin in batch.begins.items() if self._snapshot.is_published(p, begin)}
            shards = again if name == key.query_id else None
            self._publish(BatchKey(name, key.batch_id), self._beyond(batch, shards=shards))
        elif batch.now > self._snapshot.now or self._snapshot.passed_by(batch.positions):
            name = self._snapshot.next_name_of(key.query_id)
            log.warning("the checkpoint is older than the ledger", batch=key.batch_id, told_as=name)
            self._publish(BatchKey(name, key.batch_id), self._beyond(batch, self._snapshot.now))
        else:
            log.debug("published before the restart", batch=key.batch_id)
            self._parts.learn_again(batch)
        # Counted last, and once: what fails again and again, here or in Spark's own log, is no progress, and
        # neither is a row of batches that the embedded engine runs again after each failure.
        last = self.published.last
        if last is None or key.query_id != last.query_id or key.batch_id > last.batch_id:
            self.published.batches += 1
            self.published.rows += batch.rows
            self.published.last = key

    def speak(self) -> bool:
        """Publish the notices about the monitor as a batch of their own; false while another is published.

        For notices that cannot wait for Spark's next batch: there may be none. Blocks for the sinks. Raises
        OSError (a disk that is full); then nothing counts as published.
        """
        if not self._telling.acquire(blocking=False):
            return False
        try:
            self._publish_whole(BatchKey(MONITOR, self._snapshot.batches.get(MONITOR, -1) + 1), Batch())
        finally:
            self._telling.release()
        return True

    def _publish(self, key: BatchKey, batch: Batch) -> None:
        with self._telling:
            self._publish_whole(key, batch)

    def _publish_whole(self, key: BatchKey, batch: Batch) -> None:
        """Publish the batch, or leave the parts as they were: the next publication commits their states."""
        try:
            self._publish_and_commit(key, batch)
        except BaseException:
            self._snapshot = self._ledger.committed() or self._snapshot
            self._parts.restore(self._snapshot)
            raise

    def _publish_and_commit(self, key: BatchKey, batch: Batch) -> None:
        wall = self._wall_ms()
        again, news = self._sorted(batch.findings)
        fresh = replace(batch, findings=news)
        findings = self._final(self._parts.findings(fresh, wall), wall)
        outcome = self._parts.carry_over(findings, again, fresh)
        findings = outcome.findings + self._final(outcome.ended, wall)
        fresh = replace(fresh, removed=[*fresh.removed, *outcome.gone])
        publication = Publication(findings, self._identities.batch(fresh), wall)
        for sink in self._sinks:
            sink.write(key, publication)
        self._commit(key, batch)
        self.published.findings += len(findings)
        self._say(key, batch, findings, wall)

    def _final(self, findings: Sequence[Finding], wall: int) -> list[Finding]:
        name = self._cluster_name
        return [self._identities.finding(stamp(finding, wall, cluster=name)) for finding in findings]

    def _sorted(self, findings: Iterable[Finding]) -> tuple[list[Finding], list[Finding]]:
        """Return the findings that an earlier query has published, and the others.

        After a rebuild the topic is read from its beginning.
        """
        again: list[Finding] = []
        news: list[Finding] = []
        for finding in findings:
            decided = finding.history and finding.shard is not None and finding.offset is not None
            known = decided and self._snapshot.is_published(finding.shard or 0, finding.offset or 0)
            (again if known else news).append(finding)
        return again, news

    def _beyond(self, batch: Batch, judged_until: int = -1, shards: Collection[int] | None = None) -> Batch:
        """Return the batch without the findings that the ledger's batches must have published.

        shards: where records are read again, None: everywhere.
        `judged_until`: time (ms) up to which those batches have judged the clock, if this batch is the first
        to judge it since. A finding that is published some time after its event stays: twice, not never.
        """
        late = max(self._snapshot.now if judged_until < 0 else judged_until, 0) - LATE_MS

        def is_news(finding: Finding) -> bool:
            if finding.history or (shards is not None and finding.shard not in shards):
                return True
            if finding.shard is None or finding.offset is None:
                return judged_until < 0 or finding.at > late
            known = self._snapshot.is_published(finding.shard, finding.offset)
            return not known or (finding.kind in HELD_BACK and finding.at > late)

        return replace(batch, findings=list(filter(is_news, batch.findings)))

    def _commit(self, key: BatchKey, batch: Batch) -> None:
        after = self._parts.into(self._snapshot.after(*key, batch.now, batch.positions))
        if key.query_id != MONITOR:
            after = replace(after, generation=self._generation)
        lines = next((sink for sink in self._sinks if isinstance(sink, JsonLines)), None)
        if lines is not None:
            after = replace(after, jsonl_bytes=lines.written)
        self._ledger.commit(after)
        self._snapshot = after
        for sink in self._sinks:
            sink.committed(key)

    def _say(self, key: BatchKey, batch: Batch, findings: Sequence[Finding], wall: int) -> None:
        """Write the batch's line."""
        live = [finding for finding in findings if not finding.history]
        self._sayer(batch, findings, wall)(
            "batch",
            batch=key.batch_id,
            rows=batch.rows,
            findings=len(findings),
            history=len(findings) - len(live),
            incidents=list(dict.fromkeys(f.incident for f in live if f.incident))[:INCIDENTS] or None,
            detection_delay_ms=max((wall - finding.at for finding in live), default=None),
            state_bytes=batch.state_bytes,
            behind_ms=wall - batch.now if batch.now >= 0 else None,
            write_ms=self._wall_ms() - wall,
            **(
                {"troubles": batch.troubles[:3], "troubles_total": len(batch.troubles)}
                if batch.troubles
                else {}
            ),
        )

    def _sayer(self, batch: Batch, findings: Sequence[Finding], wall: int) -> Callable[..., Any]:
        """Return how to log: loud for troubles, usual for findings and a sign of life, else for debugging."""
        # A clock that was set back must not silence it for as long.
        is_due = not 0 <= wall - self._said < SIGN_OF_LIFE_MS
        if not (batch.troubles or findings or is_due):
            return log.debug  # type: ignore[no-any-return] # structlog's proxy is untyped
        self._said = wall
        return log.warning if batch.troubles else log.info  # type: ignore[no-any-return] # as above
