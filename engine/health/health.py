"""The monitor's own health as findings: `monitor_degraded`, opened while something is wrong, then resolved.

Judged with each batch, from the batch, the probe samples and the notices of the main loop
(engine/health/notices.py).

- A condition resolves when it is over. While it cannot be judged, it stays open.
- An event (data lost, state rebuilt) resolves five minutes after the last one. Another event that the main
  loop noticed updates it.
- A batch that Spark did not make (`now` -1) is no evidence about lag. Lag is updated when it has doubled; the
  resolved finding holds its peak.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.degraded import degraded
from rebalance_monitor.engine.health.lag import Lag
from rebalance_monitor.engine.health.notices import Notices
from rebalance_monitor.engine.health.skew import SkewWatch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rebalance_monitor.coordinator.findings.finding import Details, Finding
    from rebalance_monitor.coordinator.probe.sample import ProbeSample
    from rebalance_monitor.coordinator.settings import DetectionSettings
    from rebalance_monitor.engine.batch.batches import Batch

CONDITIONS = (
    Cause.BLIND,
    Cause.BEHIND,
    Cause.PROBE_PARTIAL,
    Cause.ENDS_PARTIAL,
    Cause.CLOCK_SKEW,
    Cause.SINK_FAILING,
    Cause.CONTRACT_BROKEN,
)
EVENT_LASTS_MS = 300_000
TROUBLES = {
    "state_lost": (
        Cause.STATE_REBUILT,
        "the state of {n} of the shards could not be read and was begun anew",
    ),
    "state_not_kept": (
        Cause.NOT_JUDGED,
        "the state of {n} of the shards could not be stored: a start goes on from the one before",
    ),
    "operator_error": (Cause.NOT_JUDGED, "{n} of the records or deadlines could not be judged"),
}
# The probe's broker id for a cluster that did not even name its brokers.
NOBODY = "-1"
USUAL_AGE_MS = 3_000
PROBE_MS = 1_000
# Without a sample for so long, or so many intervals, the probe itself has failed.
PROBE_SILENT_MS, PROBE_MISSED = 60_000, 3


class Health:
    """Opens and resolves; `state` is what `snapshot` returned, None for a new start.

    `usual_age_ms`: how old fresh records may be when a batch begins. `probe_ms`: the probe's interval, None
    where there is none.
    """

    def __init__(
        self,
        settings: DetectionSettings,
        cluster: str,
        state: dict[str, Any] | None = None,
        notices: Notices | None = None,
        usual_age_ms: int = USUAL_AGE_MS,
        probe_ms: int | None = PROBE_MS,
    ) -> None:
        memory = state or {}
        self._settings = settings
        self._cluster = cluster
        self._notices = notices or Notices()
        self._skew = SkewWatch(settings.grace_ms, usual_age_ms, memory.get("skewed", ()))
        self._opened: dict[str, int] = dict(memory.get("opened", {}))
        self._silent: dict[str, int] = dict(memory.get("silent", {}))
        self._until: dict[str, int] = dict(memory.get("until", {}))
        self._updates: dict[str, int] = dict(memory.get("updates", {}))
        self._published_until: int = memory.get("told", -1)
        if notices is not None:
            notices.advance_past(self._published_until)
        self._lag = Lag(settings.behind_after_ms, memory.get("lag"))
        self._is_first = True
        self._probe_ms = probe_ms
        self._looked_at = -1

    def snapshot(self) -> dict[str, Any]:
        """JSON-able memory for the ledger."""
        return {
            "opened": dict(self._opened),
            "silent": dict(self._silent),
            "until": dict(self._until),
            "updates": dict(self._updates),
            "told": self._published_until,
            "lag": self._lag.snapshot(),
            "skewed": sorted(self._skew.blamed),
        }

    @property
    def skewed(self) -> frozenset[int]:
        """Brokers whose clocks are off, UNKNOWN among them where the leader is unknown."""
        return frozenset(self._skew.blamed)

    def on_batch(self, batch: Batch, samples: Sequence[ProbeSample], wall: int) -> list[Finding]:
        """Judge one batch that is being written at `wall` (ms)."""
        self._skew.learn(samples)
        if Cause.BEHIND in self._opened:
            # Before the batch counts as read: so long it took.
            self._lag.note(wall, batch.types.total())
        self._lag.read(batch.now)
        found: list[Finding] = []
        for cause in CONDITIONS:
            why = self._why_degraded(cause, batch, samples, wall)
            if why is not None:
                found += self._turn(cause, why, batch, wall)
        found += self._events(batch, wall)
        self._is_first = self._is_first and batch.now < 0
        self._notices.await_lag(self._lag.due_at if Cause.BEHIND in self._opened else None)
        return found

    def _why_degraded(
        self, cause: Cause, batch: Batch, samples: Sequence[ProbeSample], wall: int
    ) -> str | None:
        """Return why the condition holds, "" where it does not, None where that is unknown."""
        noticed = self._notices.condition(cause)
        if noticed:
            return noticed
        if cause is Cause.PROBE_PARTIAL:
            return self._partial(samples, wall)
        if cause in {Cause.BEHIND, Cause.CLOCK_SKEW}:
            judge = self._behind if cause is Cause.BEHIND else self._skewed
            return judge(batch, wall) if batch.now >= 0 else None
        return noticed

    def _turn(self, cause: Cause, why: str, batch: Batch, wall: int) -> list[Finding]:
        is_open, lags = cause in self._opened, cause is Cause.BEHIND
        # While nothing is read, the number of waiting records is unknown.
        records = batch.types.total() if lags else 0
        if why and not is_open:
            return [self._open(cause, why, wall, records)]
        if why and lags and self._lag.is_due(wall):
            return [self._update(cause, why, wall, records)]
        return [] if why or not is_open else [self._resolve(cause, wall)]

    def _open(self, cause: Cause, why: str, wall: int, records: int = 0) -> Finding:
        self._opened[cause] = wall
        details = self._measured(cause, wall, records)
        return degraded(self._cluster, cause, why, opened_at=wall, at=wall, phase="opened", details=details)

    def _update(self, cause: Cause, why: str, wall: int, records: int) -> Finding:
        self._updates[cause] = number = self._updates.get(cause, 0) + 1
        return degraded(
            self._cluster,
            cause,
            why,
            opened_at=self._opened[cause],
            at=wall,
            phase="updated",
            details=self._measured(cause, wall, records),
            sequence=number,
        )

    def _measured(self, cause: Cause, wall: int, records: int) -> Details:
        if cause is Cause.BEHIND:
            return {**self._lag.take_details(wall, records)}
        return {"records": records} if records else {}

    def _resolve(self, cause: Cause, wall: int) -> Finding:
        opened = self._opened.pop(cause)
        self._updates.pop(cause, None)
        most: Details = {**self._lag.over()} if cause is Cause.BEHIND else {}
        return degraded(self._cluster, cause, "", opened_at=opened, at=wall, phase="resolved", details=most)

    def _events(self, batch: Batch, wall: int) -> list[Finding]:
        """Publish what has happened, and resolve what has not happened again for long enough."""
        found = []
        for cause, why in self._troubles(batch):
            # With every batch perhaps: once is enough.
            if cause not in self._opened:
                found.append(self._open(cause, why, wall))
            self._until[cause] = wall + EVENT_LASTS_MS
        for cause, why, records in self._news():
            tell = self._update if cause in self._opened else self._open
            found.append(tell(cause, why, wall, records))
            self._until[cause] = wall + EVENT_LASTS_MS
        for name, until in list(self._until.items()):
            # A clock that was set back resolves too: nothing may stay open for an hour because of it.
            if not until - EVENT_LASTS_MS <= wall < until:
                del self._until[name]
                found.append(self._resolve(Cause(name), wall))
        return found

    def _news(self) -> list[tuple[Cause, str, int]]:
        events = self._notices.since(self._published_until)
        self._published_until = max((event.at for event in events), default=self._published_until)
        return [(event.cause, event.why, event.records) for event in events]

    def _behind(self, batch: Batch, wall: int) -> str | None:
        lag = wall - batch.now
        if lag <= self._settings.behind_after_ms:
            return ""
        if self._is_first:
            # A process's first batch starts Spark's workers and reads what came meanwhile.
            return None
        return f"the batch just read began {lag / 1000:.1f} s ago ({batch.types.total():,} records)"

    def _skewed(self, batch: Batch, wall: int) -> str | None:  # noqa: ARG002 - judges share one signature
        return self._skew.on_batch(batch.newest, batch.now)

    def _partial(self, samples: Sequence[ProbeSample], wall: int) -> str:
        """Name the brokers that did not answer two samples in a row, and why; or say that no probe runs."""
        if self._probe_ms is None:
            return ""
        if samples or not 0 <= self._looked_at <= wall:
            self._looked_at = wall
        since = wall - self._looked_at
        if since > max(PROBE_SILENT_MS, PROBE_MISSED * self._probe_ms):
            return f"the probe has taken no sample for {since / 1000:.0f} s"
        for sample in samples:
            silent = {str(broker) for broker, answered in sample.brokers if not answered}
            if not sample.brokers or silent == {NOBODY}:
                silent = {"all"}
            self._silent = {broker: self._silent.get(broker, 0) + 1 for broker in silent}
        missing = sorted(broker for broker, samples in self._silent.items() if samples > 1)
        if not missing:
            return ""
        why = f"the probe gets no answer from brokers: {', '.join(missing)}"
        # Of many that fail for one reason, as brokers do that know no filter of states, one is enough.
        failures = (text for sample in reversed(samples) for _, text in sorted(sample.failures.items()))
        failure = next(failures, "")
        return f"{why}; {failure}" if failure else why

    @staticmethod
    def _troubles(batch: Batch) -> list[tuple[Cause, str]]:
        """Report an error inside the operator: the shard goes on with incomplete state."""
        found = []
        for kind, (cause, why) in TROUBLES.items():
            errors = [str(trouble["error"]) for trouble in batch.troubles if trouble["kind"] == kind]
            if errors:
                found.append((cause, f"{why.format(n=len(errors))}: {errors[0]}"))
        return found
