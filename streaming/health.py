"""The monitor's own health as findings: `monitor_degraded`, opened while something is wrong, then resolved.

Judged once a batch, from what the writer knows. What cannot be told in a finding (blind at the start, the
query failing) ends the job with a message.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rebalance_monitor.coordinator.causes import Cause
from rebalance_monitor.coordinator.rollup import degraded

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rebalance_monitor.coordinator.findings import Finding
    from rebalance_monitor.coordinator.settings import DetectionSettings
    from rebalance_monitor.coordinator.sightings import Sighting
    from rebalance_monitor.streaming.batches import Batch

CAUSES = (Cause.BEHIND, Cause.PROBE_PARTIAL, Cause.STATE_REBUILT)


class Health:
    """Opens and resolves; `state` is what `snapshot` returned, None for a new start."""

    def __init__(
        self, settings: DetectionSettings, cluster: str, state: dict[str, Any] | None = None
    ) -> None:
        self._settings = settings
        self._cluster = cluster
        self._opened: dict[str, int] = dict((state or {}).get("opened", {}))
        self._silent: dict[str, int] = dict((state or {}).get("silent", {}))
        self._is_first = True

    def snapshot(self) -> dict[str, Any]:
        """JSON-able memory for the ledger."""
        return {"opened": dict(self._opened), "silent": dict(self._silent)}

    def on_batch(self, batch: Batch, sightings: Sequence[Sighting], wall: int) -> list[Finding]:
        """Judge one batch that is being written at `wall` (ms)."""
        wrong = {
            Cause.BEHIND: self._behind(batch, wall),
            Cause.PROBE_PARTIAL: self._partial(sightings),
            Cause.STATE_REBUILT: self._rebuilt(batch),
        }
        self._is_first = False
        return [finding for cause in CAUSES for finding in self._turn(cause, wrong[cause], wall)]

    def _turn(self, cause: Cause, why: str, wall: int) -> list[Finding]:
        opened = self._opened.get(cause)
        if bool(why) == (opened is not None):
            return []
        if opened is None:
            self._opened[cause] = opened = wall
        else:
            del self._opened[cause]
        phase = "opened" if why else "resolved"
        return [degraded(self._cluster, cause, why, opened_at=opened, at=wall, phase=phase, details={})]

    def _behind(self, batch: Batch, wall: int) -> str:
        # A process's first batch starts Spark's workers and reads what came meanwhile: no lag to tell of.
        lag = wall - batch.now
        if self._is_first or batch.now < 0 or lag <= self._settings.behind_after_ms:
            return ""
        return f"the batch just read began {lag / 1000:.1f} s ago ({batch.rows} rows)"

    def _partial(self, sightings: Sequence[Sighting]) -> str:
        """Say which brokers have not answered in two looks running, or longer."""
        for sighting in sightings:
            silent = {str(broker) for broker, answered in sighting.brokers if not answered}
            if not sighting.brokers:
                silent = {"all"}
            self._silent = {broker: self._silent.get(broker, 0) + 1 for broker in silent}
        missing = sorted(broker for broker, looks in self._silent.items() if looks > 1)
        return f"the probe gets no answer from brokers: {', '.join(missing)}" if missing else ""

    def _rebuilt(self, batch: Batch) -> str:
        lost = [trouble for trouble in batch.troubles if trouble["kind"] == "state_lost"]
        if not lost:
            return ""
        return f"the state of {len(lost)} shard(s) could not be read and was begun anew: {lost[0]['error']}"
