"""Everything on the driver that outlives a query: lock-step ledger and sinks, the pure parts, the probe.

The states of roll-up and live view are committed with each batch, and taken back from the ledger at a start
and after a batch that failed half-way, so that no batch counts twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

import structlog

from rebalance_monitor.checkpoints.ledger import Ledger
from rebalance_monitor.cluster.ends.ends import EndsThread
from rebalance_monitor.cluster.probe.probe import ProbeThread
from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.engine.driver.parts import Parts
from rebalance_monitor.engine.driver.writer import BatchWriter
from rebalance_monitor.engine.health.notices import Notices
from rebalance_monitor.engine.outputs.alerting import Alerting
from rebalance_monitor.engine.outputs.identities import identities_of
from rebalance_monitor.engine.outputs.serving import Serving
from rebalance_monitor.engine.outputs.sinks import JsonLines, QuarantineTable
from rebalance_monitor.engine.outputs.upkeep import ParquetFindings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rebalance_monitor.config.model import Settings
    from rebalance_monitor.coordinator.findings.finding import Finding
    from rebalance_monitor.coordinator.lag.ends import EndsSample
    from rebalance_monitor.coordinator.probe.sample import ProbeSample
    from rebalance_monitor.coordinator.settings import DetectionSettings
    from rebalance_monitor.engine.outputs.identities import Identities
    from rebalance_monitor.engine.outputs.sinks import Sink
    from rebalance_monitor.engine.outputs.upkeep import FindingsStore
    from rebalance_monitor.engine.storage import Storage
    from rebalance_monitor.engine.topic.facts import TopicFacts

log = structlog.get_logger()
# What a batch takes at most where nothing is wrong.
BATCH_MS = 2_000


class Outputs:
    """The writer, the probe and the notices of one job; use as a context manager.

    `store`: the findings table, by default as Parquet. `generation`: of the state. `ledger` and `identities`
    are those of the storage, unless others are given.
    Raises ConfigError (LedgerError too), OSError.
    """

    def __init__(
        self,
        settings: Settings,
        storage: Storage,
        facts: TopicFacts,
        detection: DetectionSettings,
        more_sinks: Sequence[Sink] = (),
        store: FindingsStore | None = None,
        generation: int = 0,
        *,
        ledger: Ledger | None = None,
        identities: Identities | None = None,
    ) -> None:
        store = store or ParquetFindings(storage)
        self._settings = settings
        self._probe = _probe(settings)
        self._dropped = 0
        self.notices = Notices()
        self.serving = Serving(
            settings, storage, facts.cluster_id, self.notices, store, held_up=self._stalled_reason
        )
        ledger = ledger or Ledger(storage.ledger)
        self.alerting = Alerting(
            settings,
            storage,
            facts.cluster_id,
            on_attempt=self.serving.tallies.sent,
            failing=lambda why: self.notices.hold(Cause.SINK_FAILING, why),
        )
        usual_age_ms = settings.trigger.ms + BATCH_MS
        probe_ms = settings.probe.interval.ms if self._probe else None
        self._parts = Parts(
            detection,
            facts.cluster_id,
            self._probe_samples,
            self.notices,
            usual_age_ms,
            probe_ms,
            self._opened,
            self._samples if settings.ends.enabled else None,
        )
        self._ends = _ends(settings, self._parts)
        self.writer = BatchWriter(
            ledger,
            ledger.load().on_topic(facts.id, facts.cluster_id),
            [*storage_sinks(settings, storage, store), self.serving, self.alerting, *more_sinks],
            self._parts,
            generation=generation,
            cluster_name=settings.cluster_name,
            identities=identities or identities_of(settings.outputs.identities, storage.identity_key),
        )

    def recall(self) -> None:
        """Let the parts know of the groups what the tables say: for a start that goes on with its state."""
        known = self.serving.snapshot.known.recorded
        # Members whose names were hashed or hidden on the way out are none that the brokers know.
        hidden = {"member_list"} if self._settings.outputs.identities != "shown" else set()
        self._parts.recall(
            {
                name: {key: value for key, value in view.summary.items() if key not in hidden}
                for name, view in known.items()
            }
        )

    def has_new_groups(self) -> bool:
        """Whether epoch-based groups were seen for the first time since the last call."""
        return self._parts.has_new_groups()

    def begin_anew(self, *, complete: bool) -> bool:
        """Hold what is open over a rebuild; true if there is anything. `complete`: all history is read."""
        return self._parts.begin_anew(self.serving.snapshot.known.recorded if complete else ())

    def _stalled_reason(self) -> str:
        return self.alerting.stalled_reason()

    def _probe_samples(self) -> list[ProbeSample]:
        if self._probe is None:
            return []
        found, dropped = self._probe.drain(), self._probe.dropped
        if dropped > self._dropped:
            log.warning(
                "the batch took so long that probe samples were dropped", samples=dropped - self._dropped
            )
            self._dropped = dropped
        return found

    def _samples(self) -> list[EndsSample]:
        return self._ends.drain() if self._ends else []

    def _opened(self) -> list[Finding]:
        """Return the newest finding of every open incident; without tables the alerts know more of them."""
        shown = self.serving.snapshot.known.incidents.open
        found = {finding.incident: finding for finding in self.alerting.opened()}
        found |= {name: incident.latest for name, incident in shown.items()}
        return list(found.values())

    def __enter__(self) -> Self:
        if self._probe:
            self._probe.start()
        if self._ends:
            self._ends.start()
        self.serving.__enter__()
        self.alerting.__enter__()
        return self

    def __exit__(self, *reason: object) -> None:
        self.alerting.__exit__(*reason)
        self.serving.__exit__(*reason)
        if self._ends:
            self._ends.stop()
        if self._probe:
            self._probe.stop()


def storage_sinks(settings: Settings, storage: Storage, store: FindingsStore) -> list[Sink]:
    """Return the sinks in the storage folder that are switched on."""
    wanted: list[tuple[bool, Sink]] = [
        (settings.outputs.jsonl, JsonLines(storage.jsonl)),
        (settings.outputs.parquet, store.sink),
        (settings.outputs.quarantine, QuarantineTable(storage.quarantine)),
    ]
    return [sink for on, sink in wanted if on]


def _probe(settings: Settings) -> ProbeThread | None:
    if not settings.probe.enabled:
        return None
    return ProbeThread(settings.kafka.client_properties(), settings.probe.interval.seconds)


def _ends(settings: Settings, parts: Parts) -> EndsThread | None:
    if not settings.ends.enabled:
        return None
    properties, every_s = settings.kafka.client_properties(), settings.ends.interval.seconds
    return EndsThread(properties, parts.topics, every_s, groups=parts.asks, followed=parts.followed)
