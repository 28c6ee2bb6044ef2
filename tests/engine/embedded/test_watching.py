"""What `watch` says and publishes while it reads history, in which order, and where it is stopped amid it."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import NewTopic

from rebalance_monitor.config.model import Settings
from rebalance_monitor.engine.embedded.watching import Watch
from rebalance_monitor.engine.outputs.identities import SHOWN
from tests.cli.support.records import CLIENTS, Records
from tests.coordinator.lag.real import create

if TYPE_CHECKING:
    from rebalance_monitor.checkpoints.ledger import Snapshot
    from rebalance_monitor.engine.batch.batches import BatchKey
    from rebalance_monitor.engine.embedded.watching import Onlooker
    from rebalance_monitor.engine.outputs.sinks import Publication
    from rebalance_monitor.lab.cluster.broker import LabBroker

pytestmark = pytest.mark.broker
LONG = 25_000
"""Records of which the reader takes some 10,000 at a time."""

PUBLISHES = "publishes"


@dataclass
class Heard:
    """What an onlooker heard and what was published, in order; the run is stopped at `stops_at`."""

    stops_at: str
    stop: threading.Event = field(default_factory=threading.Event)
    events: list[str] = field(default_factory=list)
    published: int = 0

    def note(self, event: str) -> None:
        self.events.append(event)
        if event == self.stops_at:
            self.stop.set()

    def start(self, committed: Snapshot) -> None:
        """Begin with nothing."""

    def write(self, _key: BatchKey, publication: Publication) -> None:
        self.published += publication.batch.types.total()
        self.note(PUBLISHES)

    def committed(self, key: BatchKey) -> None:
        """Nothing is left to do."""

    def onlooker(self) -> Onlooker:
        known = ("waits", "begins", "reads", "follows", "leads", "probes")
        return SimpleNamespace(**{name: lambda *_, name=name, **__: self.note(name) for name in known})  # type: ignore[return-value]


def watched(broker: LabBroker, topic: str, records: Records, stops_at: str) -> tuple[Heard, Watch]:
    create(broker, NewTopic(topic, 1, 1))
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for row in records.rows:
        producer.produce(topic, row["value"], row["key"], 0)
        producer.poll(0)
    assert producer.flush(60) == 0
    off = {"enabled": False}
    reads = {"kafka": {"bootstrap_servers": broker.bootstrap}, "source": {"topic": topic}}
    settings = Settings.model_validate({**reads, "probe": off, "ends": off, "web": off})
    heard = Heard(stops_at)
    watch = Watch(settings, SHOWN, heard.onlooker(), heard.stop)
    watch.run([heard])
    return heard, watch


def test_it_says_what_it_watches_before_it_publishes_a_short_history(lab_broker: LabBroker) -> None:
    records = Records()
    records.generation(0, 0, "short", 1, CLIENTS)
    records.commit(0, 1_000, "short", 10)
    heard, watch = watched(lab_broker, "watch-short-history", records, stops_at=PUBLISHES)
    assert heard.events[:4] == ["begins", "reads", "follows", PUBLISHES]
    assert heard.published == watch.records == len(records.rows)


def test_what_it_read_is_published_where_it_is_stopped_amid_history(
    lab_broker: LabBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rebalance_monitor.cluster.clients.reader.BATCH_ROWS", 100)
    monkeypatch.setattr("rebalance_monitor.engine.embedded.feed.HISTORY_BYTES", 1)
    records = Records()
    records.commit(0, 0, "long", 1, LONG)
    heard, watch = watched(lab_broker, "watch-long-history", records, stops_at="reads")
    assert heard.events == ["begins", "reads", PUBLISHES]
    assert heard.published == watch.records
    assert 0 < watch.records < LONG
