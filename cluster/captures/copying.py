"""Copies the offsets topic from a broker into a capture, with the probe's sightings and the topics' ends.

The range is fixed at the start: from which offsets, and until the ends found then, for a duration, or until
it is stopped. A topic that does not exist yet is a DependencyError: no group has ever committed there.
"""

from __future__ import annotations

import json
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from rebalance_monitor.cluster.captures.capture import CaptureWriter, Metadata
from rebalance_monitor.cluster.captures.consumed import ConsumedTopics
from rebalance_monitor.cluster.clients.admin import OFFSETS_TOPIC, ClusterAdmin
from rebalance_monitor.cluster.clients.reader import Reading, behind, read_records
from rebalance_monitor.cluster.ends.ends import EndsThread
from rebalance_monitor.cluster.errors import DependencyError
from rebalance_monitor.cluster.probe.probe import ProbeThread
from rebalance_monitor.config.errors import ConfigError
from rebalance_monitor.coordinator.lag import ends
from rebalance_monitor.coordinator.probe import sample

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path
    from threading import Event

    import pyarrow as pa

    from rebalance_monitor.cluster.requests.topology import Topic

EARLIEST, LATEST = "earliest", "latest"


@dataclass(frozen=True, slots=True)
class Extent:
    """What to read of the topic.

    `start`: `earliest`, `latest` or offsets (`parse_offsets`); `until_end`: stop at the ends found at start;
    `duration_s`: stop after this long; neither: only `stop` ends it. `skip`: partition -> offset behind which
    a partition begins at the earliest.
    """

    start: str = EARLIEST
    until_end: bool = False
    duration_s: float | None = None
    stop: Event | None = None
    skip: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Lacks:
    """What a capture may lack; nothing where all of it is empty.

    silent: partitions of which no broker says at the end whether there is more. unread: how many offsets that
    were there at the start are not read. Both are known only where no ends were given. began_anew: the
    partition whose offsets began anew, where the capture ends; None where none did. other: the topic was made
    anew meanwhile, or seems to have been, as offsets began anew.
    """

    silent: list[int] = field(default_factory=list)
    unread: int = 0
    began_anew: int | None = None
    other: bool = False


def parse_offsets(text: str) -> dict[int, int]:
    """Read `0:12,3:99` or JSON, Spark's form (`{"topic":{"0":12}}`) too; ConfigError on anything else."""
    try:
        if text.lstrip().startswith("{"):
            body = json.loads(text)
            inner = next(iter(body.values()), None)
            found = inner if isinstance(inner, dict) else body
            return {int(partition): int(offset) for partition, offset in found.items()}
        pairs = (part.split(":") for part in text.split(","))
        return {int(partition): int(offset) for partition, offset in pairs}
    except (ValueError, TypeError, AttributeError, RecursionError):
        raise ConfigError(
            f"{text!r} is neither `earliest`, `latest` nor offsets like `0:12,3:99` or " + '{"0":12,"3":99}'
        ) from None


def open_reading(admin: ClusterAdmin, extent: Extent, name: str = OFFSETS_TOPIC) -> tuple[Topic, Reading]:
    """Settle what to read: what is led. Partitions left out of given offsets begin at their first record.

    Raises DependencyError where the topic does not exist, ConfigError for offsets of no partition.
    """
    topic = admin.topic(name)
    if topic is None:
        raise DependencyError(
            f"The topic {name} does not exist on {admin.servers} yet.",
            "It appears when the first group commits; check that this is the right cluster.",
        )
    begins, ends = admin.begin_offsets(name, partly=True), admin.end_offsets(name, partly=True)
    begins = {p: first for p, first in begins.items() if p in ends}
    start = {p: ends[p] for p in begins} if extent.start == LATEST else begins
    if extent.start not in {EARLIEST, LATEST}:
        given = parse_offsets(extent.start)
        if foreign := sorted(set(given).difference(range(topic.partitions))):
            raise ConfigError(f"{name} has no partitions {foreign}: it has {topic.partitions}")
        start = {p: max(first, given.get(p, first)) for p, first in begins.items()}
    until = ends if extent.until_end else None
    return topic, Reading(behind(start, extent.skip, ends), until, extent.duration_s, extent.stop)


def unread(topic: Topic, reading: Reading) -> list[int]:
    """Return the partitions that are not read, for no broker leads them."""
    return [one.partition for one in topic.leaders if one.partition not in reading.start]


def copy_topic(
    properties: Mapping[str, str],
    path: Path,
    extent: Extent,
    *,
    topic: str = OFFSETS_TOPIC,
    probe_interval_s: float | None = None,
    ends_interval_s: float | None = None,
    progress: Callable[[Reading], None] | None = None,
    lacks: Callable[[Lacks], None] | None = None,
) -> Metadata:
    """Write a capture at `path`, with samples at these intervals unless None; give its metadata.

    The ends are those of the topics that groups have committed to lately. `progress` is called after every
    batch, `lacks` at the end; without it an error is raised where the topic was made anew meanwhile. Raises
    DependencyError, ConfigError (CaptureError too): then no capture is left behind.
    """
    with ClusterAdmin(properties) as admin, CaptureWriter(path) as writer:
        found, reading = open_reading(admin, extent, topic)
        there = {} if reading.until is not None else admin.end_offsets(topic, partly=True)
        cluster, version, values = admin.cluster_id(), admin.broker_version(), broker_values(admin, topic)
        own = admin.group_session_timeouts()
        with ExitStack() as stack:
            samples = _Samples(properties, probe_interval_s, ends_interval_s, stack)
            rising = Rising()
            for batch in read_records(properties, reading, topic):
                same = rising.take(batch)
                writer.add(same)
                samples.take(same, writer)
                if progress:
                    progress(reading)
                if rising.began_anew is not None:
                    break
        samples.drain(writer)
        ended = _lacks(admin, found, reading, rising, there)
        if lacks:
            lacks(ended)
        elif ended.other:
            raise DependencyError(f"{topic} was made anew while it was read.", "Start again.")
        metadata = Metadata(
            topic=topic,
            cluster_id=cluster,
            topic_id=found.id,
            partitions=found.partitions,
            end_offsets=rising.ends(reading),
            leader_epochs=dict(reading.leader_epochs),
            broker_version=version,
            broker_values=values,
            session_timeouts=own,
            captured_at=int(time.time() * 1000),
            unled=unread(found, reading),
        )
        writer.finish(metadata)
    return metadata


class Rising:
    """Takes batches until the offsets of a partition (`began_anew`) no longer rise.

    The topic was deleted and made again, or lost records that were read: what comes then is of another topic,
    or stands in another record's place.
    """

    def __init__(self) -> None:
        self.began_anew: int | None = None
        self._lasts: dict[int, int] = {}

    def take(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the records of a batch before the first that does not rise."""
        partitions, offsets = batch.column("partition").to_numpy(), batch.column("offset").to_numpy()
        of = {p: np.flatnonzero(partitions == p) for p in np.unique(partitions).tolist()}
        whole = batch.num_rows
        for one, places in of.items():
            falls = np.flatnonzero(np.diff(offsets[places], prepend=self._lasts.get(one, -1)) <= 0)
            if falls.size and (first := int(places[falls[0]])) < whole:
                whole, self.began_anew = first, one
        kept = {p: places[places < whole] for p, places in of.items()}
        self._lasts |= {p: int(offsets[places[-1]]) for p, places in kept.items() if places.size}
        return batch.slice(0, whole)

    def ends(self, reading: Reading) -> dict[int, int]:
        """Return where the partitions end in the capture (next offsets)."""
        if self.began_anew is None:
            return dict(reading.until or {**reading.start, **reading.reached})
        return {**reading.start, **{p: last + 1 for p, last in self._lasts.items()}}


def _lacks(
    admin: ClusterAdmin, topic: Topic, reading: Reading, rising: Rising, there: Mapping[int, int]
) -> Lacks:
    if rising.began_anew is not None:
        return Lacks(began_anew=rising.began_anew, other=True)
    with suppress(DependencyError):
        now = admin.topic(topic.name)
        if now is not None and now.id != topic.id:
            return Lacks(other=True)
    if reading.until is not None:
        # Up to given ends all is read, or that was an error.
        return Lacks()
    return Lacks(_silent(admin, topic.name, reading), _unread(reading, there))


def _silent(admin: ClusterAdmin, topic: str, reading: Reading) -> list[int]:
    """Return the partitions of which no broker says where they end."""
    try:
        ends = admin.end_offsets(topic, partly=True)
    except DependencyError:
        ends = {}
    return sorted(reading.start.keys() - ends.keys())


def _unread(reading: Reading, ends: Mapping[int, int]) -> int:
    """Return how many offsets before these ends are not read."""
    places = {**reading.start, **reading.reached}
    return sum(max(0, end - places.get(p, end)) for p, end in ends.items())


def broker_values(admin: ClusterAdmin, topic: str = OFFSETS_TOPIC) -> dict[str, int]:
    """Ask the brokers for the values that detection needs; values that they do not return are left out."""
    values = {
        "offsets_retention_ms": admin.offsets_retention_ms(),
        "max_message_bytes": admin.max_message_bytes(topic),
        "session_timeout_848_ms": admin.session_timeout_848_ms(),
        "session_timeout_share_ms": admin.session_timeout_share_ms(),
        "session_timeout_streams_ms": admin.session_timeout_streams_ms(),
    }
    return {name: value for name, value in values.items() if value is not None}


class _Samples:
    """The threads that ask the brokers while records are read: of groups, and of the ends of topics."""

    def __init__(
        self, properties: Mapping[str, str], probe_s: float | None, ends_s: float | None, stack: ExitStack
    ) -> None:
        self._topics = ConsumedTopics()
        self._probe = stack.enter_context(ProbeThread(properties, probe_s)) if probe_s else None
        self._ends = (
            stack.enter_context(
                EndsThread(properties, self._topics.lately, ends_s, groups=self._topics.groups)
            )
            if ends_s
            else None
        )

    def take(self, batch: pa.RecordBatch, writer: CaptureWriter) -> None:
        """Learn which topics are consumed, and write what the threads have got."""
        if self._ends:
            self._topics.add(batch)
        self.drain(writer)

    def drain(self, writer: CaptureWriter) -> None:
        """Write what the threads have got."""
        if self._probe:
            writer.add_samples(map(sample.to_json, self._probe.drain()))
        if self._ends:
            writer.add_ends(map(ends.to_json, self._ends.drain()))
