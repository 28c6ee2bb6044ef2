"""What the brokers say about the offsets topic: before the query starts, and again and again while it runs.

The topic is created by the first consumer group: a cluster without one has none yet, and the job waits.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import structlog

from rebalance_monitor.cluster.errors import AccessDeniedError, DependencyError
from rebalance_monitor.engine.topic.asking import Asking
from rebalance_monitor.engine.topic.facts import Look, Reading, TopicFacts
from rebalance_monitor.engine.topic.guard import CutError, unled_sentence
from rebalance_monitor.engine.topic.leader_epochs import (
    Marks,
    believed,
    compared,
    mark_cuts,
    marked,
    read_marks,
    to_ask,
    write_marks,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rebalance_monitor.checkpoints.storage.places import Place
    from rebalance_monitor.cluster.clients.admin import ClusterAdmin

log = structlog.get_logger()
WAIT_S = 2.0
NO_MARKS = Marks()
NEEDS_ALL = (
    "Spark's source reads all partitions or none. Start the brokers that hold them; until then `watch`, or "
    "`engine: embedded` with a `storage.path` of its own, reads the others"
)


def ask(admin: ClusterAdmin, name: str, marks: Marks = NO_MARKS) -> TopicFacts | None:
    """Return what the brokers say; None where the topic does not exist. Raises DependencyError."""
    topic = admin.topic(name)
    if topic is None or not topic.partitions:
        return None
    begins, log_ends = admin.begin_offsets(name, partly=True), admin.log_ends(name, partly=True)
    led = begins.keys() & log_ends.keys()
    places = marks.of(topic.id)
    heard = {p: believed(place, places.get(p)) for p, place in log_ends.items() if p in led}
    ends, epochs = {p: end for p, (end, _) in heard.items()}, {p: epoch for p, (_, epoch) in heard.items()}
    asked = to_ask(places, epochs)
    kept = compared(places, admin.epoch_ends(topic, asked)) if asked else {}
    unled = tuple(one.partition for one in topic.leaders if one.partition not in led)
    begins = {p: at for p, at in begins.items() if p in led}
    return TopicFacts(name, topic.id, admin.cluster_id(), begins, ends, epochs, kept, unled)


def _log_wait(why: str) -> None:
    log.warning("waiting", why=why)


def await_topic(
    admin: ClusterAdmin,
    name: str,
    stop: threading.Event,
    marks: Marks = NO_MARKS,
    waits: Callable[[str], object] = _log_wait,
    *,
    partly: bool = True,
) -> TopicFacts | None:
    """Return the facts once the topic exists; None when `stop` is set first.

    `partly`: also where some partitions have no leader; else they are waited for too. `waits` is called with
    each new reason to wait, a sentence. Raises DependencyError where brokers do not answer before it waits,
    AccessDeniedError.
    """
    said, is_lost = "", False
    while not stop.is_set():
        facts, why = None, f"{name} does not exist until the first consumer group appears"
        try:
            if is_lost:
                admin.reconnect()
            facts, is_lost = ask(admin, name, marks), False
        except AccessDeniedError:
            raise
        except DependencyError as error:
            if not said:
                raise
            # The brokers that are waited for come back one after the other.
            why, is_lost = error.what, True
        if facts is not None:
            if partly or not facts.unled:
                return facts
            why = f"{unled_sentence(name, facts.unled)}. {NEEDS_ALL}"
        if why != said:
            waits(why)
            said = why
        stop.wait(WAIT_S)
    return None


class TopicWatch(Asking):
    """Asks the brokers every `every_s` seconds in a thread of its own; use as a context manager.

    `take` gives the newest answer once. Brokers that cannot be asked are asked again. The marks of each
    look are kept in `leaders`, from one query and one run to the next.
    """

    def __init__(self, properties: Mapping[str, str], name: str, every_s: float, leaders: Place) -> None:
        super().__init__(properties, "topic", every_s)
        self._name, self._leaders = name, leaders
        self._marks = read_marks(leaders)
        self._reading = Reading({}, 0)
        self._look: Look | None = None
        self._facts: TopicFacts | None = None
        self._marking = threading.Lock()

    def begin(self, facts: TopicFacts) -> None:
        """Say that a query begins: what was seen of the one before it means nothing any more."""
        self._facts, self._reading, self._look = facts, Reading({}, 0), None

    def __exit__(self, *reason: object) -> None:
        super().__exit__(*reason)
        error = reason[1]
        if isinstance(error, CutError) and self._facts is not None:
            with self._marking:
                note_cut(self._leaders, self._marks, error.read, self._facts.id, self._facts.epochs)

    def has_read(self, ends: Mapping[int, int]) -> None:
        """Say how far the batch just done has read."""
        self._reading = Reading(dict(ends), self._reading.batches + 1)

    def take(self) -> Look | None:
        """Return the newest check, None when there is none since the last call."""
        look, self._look = self._look, None
        return look

    def _ask(self, admin: ClusterAdmin) -> None:
        for error in admin.misnamed():
            log.error("what answers at an address of the cluster is no broker", why=error.what)
        before = self._reading
        facts = ask(admin, self._name, self._marks)
        if facts is None or not before.batches:
            return
        self._look = Look(before, facts, self._reading)
        places = marked(self._marks.of(facts.id), before.ends, facts.epochs, facts.kept, facts.ends)
        with self._marking:
            if not self._stop.is_set():
                self._marks = Marks(facts.id, places)
                _write(self._leaders, self._marks)


def note_cut(
    leaders: Place, marks: Marks, cut: Mapping[int, int], topic_id: str, epochs: Mapping[int, int]
) -> None:
    """Keep that partitions were found cut (partition -> next offset read): see `epochs.noted`."""
    _write(leaders, Marks(topic_id, mark_cuts(marks.of(topic_id), cut, epochs)))


def _write(leaders: Place, marks: Marks) -> None:
    try:
        write_marks(leaders, marks)
    except OSError as error:
        log.warning("the leader epochs could not be kept", why=str(error))
