"""`watch`: the monitor in one process that writes nothing and ends with its terminal.

The same driver as the job's (writer, parts, probe, page) over a ledger that is never written. Alerts are not
sent: several people run it in the middle of an outage, and the job sends them.
"""

from __future__ import annotations

import os
import queue
import secrets
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from rebalance_monitor.checkpoints.ledger import Unwritten
from rebalance_monitor.cluster.clients.admin import ClusterAdmin
from rebalance_monitor.cluster.clients.ends import log_ends
from rebalance_monitor.cluster.clients.reader import Reading, RecordReader, behind
from rebalance_monitor.cluster.errors import AccessDeniedError, DependencyError
from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.engine.batch.batches import BatchKey
from rebalance_monitor.engine.batch.step import Extent, Plan
from rebalance_monitor.engine.driver.outputs import Outputs
from rebalance_monitor.engine.embedded.core import Core
from rebalance_monitor.engine.embedded.feed import FETCHING, Fed, Feed
from rebalance_monitor.engine.memory import collected_rarely, take_for_good, uncollected, without_pandas
from rebalance_monitor.engine.settings import detection_settings
from rebalance_monitor.engine.storage import Storage
from rebalance_monitor.engine.topic.asking import Asking
from rebalance_monitor.engine.topic.facts import TopicFacts
from rebalance_monitor.engine.topic.guard import has_read, unled_sentence
from rebalance_monitor.engine.topic.topic import ask, await_topic

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Mapping, Sequence

    from rebalance_monitor.config.model import Settings
    from rebalance_monitor.engine.batch.batches import Batch
    from rebalance_monitor.engine.embedded.core import Census
    from rebalance_monitor.engine.outputs.identities import Identities
    from rebalance_monitor.engine.outputs.sinks import Sink

QUERY = "watch"
NOWHERE, KEEPS_NOTHING = Path(os.sep), "rebalance-monitor-watch-keeps-nothing-"
"""Where a folder would be that is never made, and how its name begins: what is asked for there is not there.

Nobody can guess the name: whoever made that folder would decide what is shown. No temporary folder is asked
for: it would have to be written to, and the disk may be full.
"""


class Onlooker(Protocol):
    """Receives the progress of `watch`; nothing here may block for long."""

    def waits(self, why: str) -> None:
        """Note that the topic cannot be read yet: a sentence."""

    def begins(self, facts: TopicFacts, size: int | None) -> None:
        """Note that the topic is about to be read up to its ends; `size`: bytes on disk, None: unknown."""

    def reads(self, records: int) -> None:
        """Hear how many records of history have been read."""

    def follows(self, census: Census, url: str | None) -> None:
        """Hear that history has been read and what comes is live. `url`: where the page is."""

    def leads(self, partitions: Sequence[int]) -> None:
        """Hear that partitions have a leader that had none at the start, and are read from now on."""

    def probes(self, why: AccessDeniedError, url: str | None, *, sees_all: bool) -> None:
        """Hear that the topic may not be read, and that only what the probe sees is shown.

        `sees_all`: whether brokers list every group to it, not only those that may be described one by one.
        """


class _SameTopic(Asking):
    """Asks now and then whether the topic is still the one that is read, and which partitions are led."""

    def __init__(self, properties: Mapping[str, str], facts: TopicFacts, every_s: float) -> None:
        super().__init__(properties, "topic", every_s)
        self._facts, self._unled = facts, set(facts.unled)
        self._led: queue.SimpleQueue[TopicFacts] = queue.SimpleQueue()
        self._change, self._is_missed = "", False

    def require(self) -> None:
        """Raise DependencyError once it is not: other records would be taken for those that were read."""
        if self._change:
            raise DependencyError(f"{self._facts.name} {self._change}.", "Start `watch` again.")

    def take(self) -> TopicFacts | None:
        """Return what the brokers say of the topic once partitions have a leader that had none, else None."""
        return None if self._led.empty() else self._led.get()

    def _ask(self, admin: ClusterAdmin) -> None:
        facts, found = self._facts, admin.topic(self._facts.name)
        is_missed, self._is_missed = self._is_missed, found is None
        if found is None:
            # Said once may be by a broker that has just started, and does not know it yet.
            if is_missed:
                self._change = "does not exist any more"
        elif found.id and facts.id and found.id != facts.id:
            self._change = "was recreated"
        elif found.partitions > facts.partitions:
            self._change = f"has {found.partitions} partitions now, and had {facts.partitions}"
        elif self._unled.difference(found.unled):
            now = ask(admin, facts.name)
            if now is not None and (led := self._unled.difference(now.unled)):
                self._unled -= led
                self._led.put(now)


@dataclass(slots=True)
class Watch:
    """One run: `most` bytes of records are read a second, None for no cap; `is_shown`: of a group's name."""

    settings: Settings
    identities: Identities
    onlooker: Onlooker
    stop: threading.Event
    most: float | None = None
    is_shown: Callable[[str], bool] = lambda _: True
    records: int = 0
    batches: int = 0
    _untold: Batch | None = field(default=None, init=False)

    def run(self, sinks: Sequence[Sink]) -> None:
        """Watch until `stop` is set. Raises ConfigError, DependencyError."""
        without_pandas()
        settings = unwritten(self.settings)
        with ClusterAdmin(settings.kafka.client_properties()) as admin:
            facts, denied = self._facts(admin)
            if facts is None:
                return
            detection = detection_settings(settings.detection, admin)
            if denied is None:
                self.onlooker.begins(facts, admin.log_bytes(facts.name))
        storage = Storage(NOWHERE / f"{KEEPS_NOTHING}{secrets.token_hex(8)}")
        ledger, who = Unwritten(storage.ledger), self.identities
        plan = Plan(detection, facts.cluster_id, facts.filled())
        with Outputs(settings, storage, facts, detection, sinks, ledger=ledger, identities=who) as outputs:
            try:
                if denied is not None:
                    raise denied
                self._follow(plan, facts, outputs)
            except AccessDeniedError as error:
                self.onlooker.probes(error, outputs.serving.url, sees_all=self._sees_all())
                self._probe(plan, outputs)

    def _facts(self, admin: ClusterAdmin) -> tuple[TopicFacts | None, AccessDeniedError | None]:
        """Return what the brokers say of the topic; of the cluster alone, and why, where we may not ask."""
        name = self.settings.source.topic
        try:
            waits = self.onlooker.waits
            return await_topic(admin, name, self.stop, waits=waits), None
        except AccessDeniedError as error:
            return TopicFacts(name, "", admin.cluster_id(), {}, {}), error

    def _sees_all(self) -> bool:
        with suppress(DependencyError), ClusterAdmin(self.settings.kafka.client_properties()) as admin:
            return "DESCRIBE" in admin.cluster_operations()
        return True

    def _follow(self, plan: Plan, facts: TopicFacts, outputs: Outputs) -> None:
        """Read the topic to its end, and on."""
        properties, topic = self.settings.kafka.client_properties(), facts.name
        core, every_s = Core(plan, facts.ends), self.settings.trigger.seconds
        reading = Reading(behind(facts.begins, self.settings.source.skip, facts.ends))
        same = _SameTopic(properties, facts, self.settings.source.refresh.seconds)
        with same, RecordReader(properties, reading, topic, FETCHING) as reader:
            feed = Feed(reader, log_ends(properties, topic), self.stop, every_s=every_s, most=self.most)
            # What history leaves stays: to walk through it again and again is a twentieth of the time.
            with uncollected():
                while not (self.stop.is_set() or self._has_caught_up(core, feed, reading, outputs)):
                    same.require()
                self._tell_rest(outputs)
            take_for_good()
            with collected_rarely():
                while not self.stop.is_set():
                    same.require()
                    if (found := same.take()) is not None:
                        self._take_up(found, core, reader)
                    with uncollected():
                        one = _next(feed, topic, outputs)
                        self._tell(outputs, core.apply(one.records, one.now, one.extent, one.unled))
                    self.records = reading.rows

    def _has_caught_up(self, core: Core, feed: Feed, reading: Reading, outputs: Outputs) -> bool:
        """Take one batch of history, without the clock; then, with the last one, what stands by the clock.

        What a batch has to tell waits for the next one: of a short history nothing comes before what it says
        that it watches.
        """
        one = _next(feed, self.settings.source.topic, outputs)
        batch = core.apply(one.records, one.now, one.extent, one.unled, ticks=False)
        self.records = reading.rows
        self.onlooker.reads(reading.rows)
        is_read = has_read(reading.reached, core.plan.catching_up)
        if is_read:
            self.onlooker.follows(core.census(wall_ms(), self.is_shown), outputs.serving.url)
        self._tell_rest(outputs)
        self._untold = batch
        if is_read:
            self._tell_rest(outputs)
            self._tell(outputs, core.apply((), one.now, one.extent, one.unled))
        return is_read

    def _tell_rest(self, outputs: Outputs) -> None:
        if self._untold is not None:
            self._tell(outputs, self._untold)
            self._untold = None

    def _take_up(self, found: TopicFacts, core: Core, reader: RecordReader) -> None:
        """Read partitions that had no leader before; what they hold is history."""
        led = [p for p in found.ends if p not in core.shards]
        core.add({p: found.filled().get(p, 0) for p in led})
        reader.add(behind({p: found.begins[p] for p in led}, self.settings.source.skip, found.ends))
        self.onlooker.leads(led)

    def _probe(self, plan: Plan, outputs: Outputs) -> None:
        """Go on with what the probe sees: groups that rebalance, for how long, and brokers that are away."""
        core = Core(plan, ())
        while not self.stop.wait(self.settings.trigger.seconds):
            with uncollected():
                self._tell(outputs, core.apply((), wall_ms(), Extent.LIMITED))

    def _tell(self, outputs: Outputs, batch: Batch) -> None:
        outputs.writer.apply(BatchKey(QUERY, self.batches), batch)
        self.batches += 1


def _next(feed: Feed, topic: str, outputs: Outputs) -> Fed:
    """Return the next batch; what no broker answers for is published with it."""
    one = feed.next()
    outputs.notices.hold(Cause.BLIND, feed.silence or unled_sentence(topic, feed.abandoned))
    return one


def wall_ms() -> int:
    """Return the wall clock (ms)."""
    return time.time_ns() // 1_000_000


def unwritten(settings: Settings) -> Settings:
    """Return the settings with everything off that writes, sends or waits for a client."""
    off = {"jsonl": False, "parquet": False, "quarantine": False}
    alerts = type(settings.alerts)()
    audit = settings.audit.model_copy(update={"every_batches": 0})
    outputs = settings.outputs.model_copy(update=off)
    return settings.model_copy(update={"outputs": outputs, "alerts": alerts, "audit": audit})
