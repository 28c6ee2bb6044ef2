"""The driver's pure parts: live view, roll-up and health, fed with batches and the probe's looks.

Their states are taken from the ledger's snapshot and go back into it with each batch, so a batch that failed
half-way counts once. What the probe saw during a batch that is run again is gone: only findings that the
probe itself decides depend on it, never an id of another.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rebalance_monitor.coordinator.live import Live
from rebalance_monitor.coordinator.rollup import RollUp
from rebalance_monitor.coordinator.sightings import SeenGroup, Sighting
from rebalance_monitor.streaming.health import PROBE_MS, USUAL_AGE_MS, Health
from rebalance_monitor.streaming.notices import Notices

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rebalance_monitor.checkpoints.ledger import Snapshot
    from rebalance_monitor.cluster.sightings import Sighting as Look
    from rebalance_monitor.coordinator.findings import Finding
    from rebalance_monitor.coordinator.settings import DetectionSettings
    from rebalance_monitor.streaming.batches import Batch


class Parts:
    """The parts of one job. `drain` gives the probe's looks since it was called last.

    `notices` is what the main loop has to tell; `usual_age_ms` and `probe_ms` see Health.
    """

    def __init__(
        self,
        settings: DetectionSettings,
        cluster: str,
        drain: Callable[[], list[Look]],
        notices: Notices | None = None,
        usual_age_ms: int = USUAL_AGE_MS,
        probe_ms: int | None = PROBE_MS,
    ) -> None:
        self._settings = settings
        self._cluster = cluster
        self._drain = drain
        self._notices = notices or Notices()
        self._usual_age_ms = usual_age_ms
        self._probe_ms = probe_ms
        self._summaries: dict[str, dict[str, Any]] = {}
        self._now = -1

    def recall(self, summaries: Mapping[str, Mapping[str, Any]]) -> None:
        """Take what an earlier process knew of the groups: each is summarised anew only when it changes."""
        self._summaries = {name: dict(summary) for name, summary in summaries.items() if summary}

    def restore(self, snapshot: Snapshot) -> None:
        """Take the states of the parts from `snapshot`."""
        # Copies, because the parts change what they are given and the snapshot must stay as committed.
        self._rollup = RollUp(self._settings, self._cluster, deepcopy(snapshot.rollup))
        self._live = Live(self._settings, self._cluster, deepcopy(snapshot.live))
        self._health = Health(
            self._settings,
            self._cluster,
            snapshot.health,
            self._notices,
            self._usual_age_ms,
            self._probe_ms,
        )
        self._now = snapshot.now

    def findings(self, batch: Batch, wall: int) -> list[Finding]:
        """Return the batch's findings, refined, with those of the parts; `wall` in ms."""
        sightings = [sighting_of(look) for look in self._drain()]
        self._learn(batch)
        seen = self._live.on_sightings(sightings, self._summaries)
        told = [*self._live.refine(batch.findings), *seen]
        self._now = max(self._now, batch.now)
        rolled = self._rollup.on_batch(told, [stat for _, stat in batch.stats], self._now)
        return [*told, *rolled, *self._health.on_batch(batch, sightings, wall)]

    def into(self, snapshot: Snapshot) -> Snapshot:
        """Return `snapshot` with the states of the parts."""
        return replace(
            snapshot,
            rollup=deepcopy(self._rollup.snapshot()),
            live=deepcopy(self._live.snapshot()),
            health=self._health.snapshot(),
        )

    def _learn(self, batch: Batch) -> None:
        for group in batch.removed:
            self._summaries.pop(group, None)
        self._summaries |= batch.groups


def sighting_of(look: Look) -> Sighting:
    """Return a look of the probe in the coordinator's words."""
    return Sighting(
        at=look.at,
        groups=tuple(SeenGroup(*group) for group in look.groups),
        leaders=look.leaders,
        brokers=look.brokers,
        members=look.members,
        listed=look.listed,
        failures=look.failures,
    )
