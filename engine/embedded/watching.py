"""`watch`: the monitor in one process that writes nothing and ends with whoever looks on.

The same driver as the job's (writer, parts, probe, page) over a ledger that is never written. Alerts are not
sent: several people run it in the middle of an outage, and the job sends them.
"""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from rebalance_monitor.checkpoints.ledger import Unwritten
from rebalance_monitor.cluster.clients.admin import ClusterAdmin
from rebalance_monitor.cluster.clients.ends import LogEnds
from rebalance_monitor.cluster.clients.reader import Reading, RecordReader
from rebalance_monitor.engine.batch.batches import BatchKey
from rebalance_monitor.engine.batch.step import Plan
from rebalance_monitor.engine.driver.outputs import Outputs
from rebalance_monitor.engine.embedded.core import Core
from rebalance_monitor.engine.embedded.feed import FETCHING, Feed
from rebalance_monitor.engine.memory import uncollected
from rebalance_monitor.engine.settings import detection_settings
from rebalance_monitor.engine.storage import Storage
from rebalance_monitor.engine.topic.guard import has_read
from rebalance_monitor.engine.topic.topic import await_topic

if TYPE_CHECKING:
    import threading
    from collections.abc import Sequence

    from rebalance_monitor.config.model import Settings
    from rebalance_monitor.engine.embedded.core import Census
    from rebalance_monitor.engine.outputs.identities import Identities
    from rebalance_monitor.engine.outputs.sinks import Sink
    from rebalance_monitor.engine.topic.facts import TopicFacts

QUERY = "watch"


class Onlooker(Protocol):
    """Whoever is told how it goes; nothing here may block for long."""

    def begins(self, facts: TopicFacts) -> None:
        """Hear that the topic is about to be read up to its ends."""

    def reads(self, records: int) -> None:
        """Hear how many records of history have been read."""

    def follows(self, census: Census, url: str | None) -> None:
        """Hear that history has been read and what comes is live. `url`: where the page is."""


@dataclass(slots=True)
class Watched:
    """What one run has seen. kinds: of findings that were not history."""

    batches: int = 0
    records: int = 0
    kinds: Counter[str] = field(default_factory=Counter)


def watch(
    settings: Settings,
    identities: Identities,
    sinks: Sequence[Sink],
    onlooker: Onlooker,
    stop: threading.Event,
    *,
    most: float | None,
) -> Watched:
    """Watch until `stop` is set; `most`: bytes of records read a second, None for no cap.

    Raises ConfigError, DependencyError.
    """
    seen = Watched()
    with ClusterAdmin(settings.kafka.client_properties()) as admin:
        facts = await_topic(admin, settings.source.topic, stop)
        if facts is None:
            return seen
        detection = detection_settings(settings.detection, admin)
    onlooker.begins(facts)
    settings = unwritten(settings)
    storage = Storage(Path(tempfile.gettempdir()) / "rebalance-monitor-watch-keeps-nothing")
    outputs = Outputs(
        settings, storage, facts, detection, sinks, ledger=Unwritten(storage.ledger), identities=identities
    )
    plan = Plan(detection, facts.cluster_id, facts.filled())
    with outputs:
        _follow(settings, plan, facts, outputs, onlooker, stop, seen, most)
    return seen


def unwritten(settings: Settings) -> Settings:
    """Return the settings with everything off that writes, sends or waits for somebody."""
    off = {"jsonl": False, "parquet": False, "quarantine": False}
    alerts = type(settings.alerts)()
    audit = settings.audit.model_copy(update={"every_batches": 0})
    outputs = settings.outputs.model_copy(update=off)
    return settings.model_copy(update={"outputs": outputs, "alerts": alerts, "audit": audit})


def _follow(
    settings: Settings,
    plan: Plan,
    facts: TopicFacts,
    outputs: Outputs,
    onlooker: Onlooker,
    stop: threading.Event,
    seen: Watched,
    most: float | None,
) -> None:
    properties, topic = settings.kafka.client_properties(), settings.source.topic
    core, is_live = Core(plan, facts.ends), False
    reading = Reading(facts.begins)
    with RecordReader(properties, reading, topic, FETCHING) as reader:
        feed = Feed(reader, LogEnds(properties, topic), stop, every_s=settings.trigger_seconds, most=most)
        while not stop.is_set():
            with uncollected():
                fed = feed.next()
                batch = core.apply(fed.records, fed.now, fed.extent)
                outputs.writer.apply(BatchKey(QUERY, seen.batches), batch)
            seen.batches += 1
            seen.records = reading.rows
            if is_live:
                continue
            onlooker.reads(reading.rows)
            if has_read(reading.reached, plan.catching_up):
                is_live = True
                onlooker.follows(core.census(time.time_ns() // 1_000_000), outputs.serving.url)
