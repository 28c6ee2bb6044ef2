"""Which state the job resumes or begins: the manifest's decision, made before an engine starts.

Records before the end offsets found when a state is begun are history: they rebuild groups, and their
findings are marked as history. Those offsets go into the manifest first, so every run of every batch has the
same history.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from typing import TYPE_CHECKING, Protocol, TypeVar

import structlog

from rebalance_monitor.checkpoints.errors import REBUILD, FolderError, UnreachableError
from rebalance_monitor.checkpoints.ledger import Ledger, Snapshot
from rebalance_monitor.checkpoints.state.batch_log import read_log
from rebalance_monitor.checkpoints.state.inspection import ELSEWHERE
from rebalance_monitor.checkpoints.state.manifest import (
    Identity,
    Manifest,
    ManifestError,
    next_generation,
    read_manifest,
    require_match,
    write_manifest,
)
from rebalance_monitor.checkpoints.state.spark_log import SparkLog, SparkLogError, require_whole
from rebalance_monitor.checkpoints.state.versions import CODEC_VERSION
from rebalance_monitor.checkpoints.storage.files import replace_file
from rebalance_monitor.checkpoints.storage.owned import make_folder
from rebalance_monitor.checkpoints.storage.places import is_remote, place_at
from rebalance_monitor.config.errors import ConfigError
from rebalance_monitor.coordinator.findings.wording import counted
from rebalance_monitor.engine.topic.facts import TopicFacts
from rebalance_monitor.engine.topic.guard import CutError, has_read, removed_unread, require_uncut
from rebalance_monitor.engine.topic.leader_epochs import Marks, read_marks, write_marks
from rebalance_monitor.engine.topic.topic import note_cut

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rebalance_monitor.checkpoints.storage.places import Place
    from rebalance_monitor.config.model import Settings
    from rebalance_monitor.engine.storage import Storage

log = structlog.get_logger()
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class StatePlan:
    """The state to run on: its folder, where Spark writes its checkpoint, and what is history in it.

    rebuilt: why an earlier state was given up, "" where none was. lost: partition -> offsets that were
    removed from the topic after the last batch and before this start. read: partition -> next offset, as far
    as it is known. is_new: no batch of it was begun.
    """

    manifest: Manifest
    checkpoint: Place
    location: str
    rebuilt: str = ""
    lost: dict[int, int] = field(default_factory=dict)
    read: dict[int, int] = field(default_factory=dict)
    is_new: bool = True


@dataclass(frozen=True, slots=True)
class _Choice:
    """The manifest to go on with, and its log of batches; or none, and why an earlier state is given up.

    is_asked: the settings ask for a new state, so its author expects the loss. older: a sentence if the log
    ends before what was published, else "".
    """

    manifest: Manifest | None = None
    spark_log: SparkLog = field(default_factory=SparkLog)
    why: str = ""
    is_asked: bool = False
    older: str = ""


class Kind(Protocol):
    """What state depends on of the engine that has it. lanes: state keys, 0 where it has none."""

    @property
    def name(self) -> str:
        """The word of `engine`."""

    @property
    def lanes(self) -> int:
        """State keys of a state that begins now."""


def identity_of(facts: TopicFacts, settings: Settings, kind: Kind) -> Identity:
    """Return what state made now would depend on."""
    return Identity(
        product_version=version("rebalance-monitor"),
        codec_version=CODEC_VERSION,
        buckets=settings.buckets,
        lanes=kind.lanes,
        shards=facts.partitions,
        topic_id=facts.id,
        cluster_id=facts.cluster_id,
        engine=kind.name,
    )


def plan_state(
    storage: Storage, facts: TopicFacts, settings: Settings, kind: Kind, *, rebuild: bool
) -> StatePlan:
    """Return the state to run on and record it. Raises ManifestError where the stored one does not fit."""
    found = identity_of(facts, settings, kind)
    storage.give_name()
    choice = _chosen(storage, settings, rebuild=rebuild)
    stored, rebuilt = choice.manifest, choice.why
    if choice.older:
        log.warning("the state is older than what was published", why=choice.older)
    if stored is not None:
        plan = _resumed(storage, stored, found, facts, choice.spark_log)
    else:
        number = next_generation(storage.states)
        if storage.remote:
            # Found out now, not when Spark's query fails on it again and again.
            _asked(storage.location(number), lambda place: place.exists())
        word = settings.storage.rebuild
        _require_there(facts, settings)
        skip = dict(settings.source.skip)
        history = {p: end for p, end in _history(facts, settings).items() if skip.get(p, -1) + 1 < end}
        manifest = Manifest(found, number, history, word, storage.elsewhere, rebuilt, skip, facts.unled)
        plan = StatePlan(manifest, storage.checkpoint(number), storage.location(number), rebuilt)
    if rebuilt:
        log.warning("the state is built anew", why=rebuilt)
    says = "resuming" if stored else "beginning a new state"
    log.info(says, generation=plan.manifest.generation, partitions=facts.partitions)
    # The manifest first: a folder that no manifest names is passed over by the next start.
    make_folder(storage.root)
    if stored is None:
        _forget_lost(Ledger(storage.ledger), facts)
        # A state that has read nothing has lost nothing.
        write_marks(storage.leaders, Marks())
    write_manifest(storage.manifest, plan.manifest)
    make_folder(plan.checkpoint)
    if storage.remote:
        replace_file(plan.checkpoint / ELSEWHERE, plan.location.encode())
    return plan


def outlook(storage: Storage, settings: Settings, kind: Kind) -> list[str]:
    """Return why the next start will not go on with the state, as far as no broker is needed to know.

    Nothing where it will, or was asked for a new one. Raises ConfigError (a file that cannot be read),
    OSError.
    """
    Ledger(storage.ledger).load()
    choice = _chosen(storage, settings, rebuild=False)
    stored = choice.manifest
    if stored is None:
        why = choice.why or "there is no manifest"
        return [] if choice.is_asked else [f"The next start makes a new state from the topic: {why}."]
    ends = dict.fromkeys(range(stored.identity.shards), 0)
    topic = TopicFacts(settings.source.topic, stored.identity.topic_id, stored.identity.cluster_id, {}, ends)
    try:
        require_match(stored.identity, identity_of(topic, settings, kind))
    except ManifestError as error:
        return [f"The next start refuses state {stored.generation}. {error}"]
    return [f"{choice.older} The next start goes on from there."] if choice.older else []


def take_up(storage: Storage, facts: TopicFacts) -> dict[int, int]:
    """Record what partitions hold that had no leader when the state began; return the state's history.

    Raises ManifestError, OSError.
    """
    stored = read_manifest(storage.manifest)
    if stored is None:
        raise ManifestError(f"{storage.manifest} is gone. {REBUILD}")
    manifest = stored.led(facts.ends, facts.filled())
    if manifest != stored:
        write_manifest(storage.manifest, manifest)
    return manifest.catching_up


def record_rebuild(storage: Storage, plan: StatePlan) -> None:
    """Record that the reason for giving up the state before was published. Raises OSError."""
    write_manifest(storage.manifest, replace(plan.manifest, unpublished=""))


def _require_ledger(storage: Storage) -> None:
    """Raise LedgerError if the ledger is gone and the engine committed a batch, which it does after it."""
    for folder in (path for path in storage.states.glob("*") if path.name.isdigit()):
        with suppress(ConfigError, OSError):
            committed = read_log(folder).committed
            if committed >= 0:
                break
    else:
        return
    why = f"batch {committed:,} of {folder} was committed"
    Ledger(storage.ledger).require_there(why)


def _chosen(storage: Storage, settings: Settings, *, rebuild: bool) -> _Choice:
    _require_ledger(storage)
    choice = _stored(storage.manifest, settings, rebuild=rebuild)
    stored = choice.manifest
    if stored is None:
        # The manifest is written first: states without one had one.
        is_gone = not (choice.why or choice.is_asked) and next_generation(storage.states) > 1
        return _Choice(why="its manifest was gone") if is_gone else choice
    if not storage.checkpoint(stored.generation).is_dir():
        return _Choice(why="its checkpoint was gone")
    if stored.elsewhere != _elsewhere(storage):
        return _Choice(why="storage.checkpoint was changed")
    spark_log = _spark_log(storage, stored.generation, stored.identity.lanes)
    ledger = Ledger(storage.ledger).load()
    if spark_log is not None and ledger.generation == stored.generation:
        if spark_log.begun < 0:
            return _Choice(why="its checkpoint was empty")
        if spark_log.query and not ledger.knows(spark_log.query):
            place = storage.checkpoint(stored.generation)
            raise SparkLogError(f"{place} holds the state of another job, or its log is damaged.", REBUILD)
        return _Choice(stored, spark_log, older=_older(spark_log, ledger))
    return _Choice(stored, spark_log or SparkLog())


def _older(spark_log: SparkLog, ledger: Snapshot) -> str:
    """Say that the log ends before what was published: each batch is begun there before it is published."""
    published = ledger.batches.get(ledger.name_of(spark_log.query), -1)
    if published <= spark_log.begun:
        return ""
    return (
        f"The state ends with batch {spark_log.begun:,}, and batch {published:,} was published: the end of "
        "its log is damaged, or an older one was put in its place."
    )


def _elsewhere(storage: Storage) -> str:
    """Return where Spark writes its checkpoints; a place without a name yet is none that was written to."""
    try:
        return storage.elsewhere
    except FileNotFoundError:
        return storage.remote


def _stored(path: Place, settings: Settings, *, rebuild: bool) -> _Choice:
    """Choose by what the manifest and the settings say: `storage.rebuild` and `source.skip`."""
    word = settings.storage.rebuild
    if rebuild:
        return _Choice(why="asked for by --rebuild-state" if path.exists() else "", is_asked=True)
    asked = f"asked for by storage.rebuild ({word})"
    try:
        stored = read_manifest(path)
    except ManifestError:
        if not word:
            raise
        return _Choice(why=f"{asked}, and its manifest could not be read")
    if stored is not None and word not in {"", stored.rebuild}:
        return _Choice(why=asked, is_asked=True)
    if stored is not None and (new := _new_skips(stored, settings)):
        return _Choice(why=f"asked for by source.skip (partition {new})", is_asked=True)
    return _Choice(stored)


def _new_skips(stored: Manifest, settings: Settings) -> str:
    """Name what is to be skipped that the state has not skipped."""
    new = {p: at for p, at in settings.source.skip.items() if at > stored.skip.get(p, -1)}
    return ", ".join(f"{partition} behind offset {at:,}" for partition, at in sorted(new.items()))


def _require_there(facts: TopicFacts, settings: Settings) -> None:
    """Raise ConfigError where `source.skip` names a record that the topic does not have yet."""
    for partition, offset in settings.source.skip.items():
        if partition in facts.unled:
            continue
        end = facts.ends.get(partition, 0)
        if offset >= end:
            raise ConfigError(
                f"`source.skip` names offset {offset:,} of partition {partition}, which ends at {end:,}: "
                "correct the entry, or remove it where the topic was recreated"
            )


def skipped(manifest: Manifest, facts: TopicFacts) -> dict[int, int]:
    """Return partition -> offset from which the state reads; records that the topic removed are no gap."""
    return {p: at for p, at in manifest.skip.items() if at >= facts.begins.get(p, 0)}


def skipped_sentence(skip: Mapping[int, int], begins: Mapping[int, int]) -> tuple[str, int]:
    """Say which shards lost what history by `source.skip`, and up to how many records that is."""
    lost = {p: at + 1 - begins.get(p, 0) for p, at in sorted(skip.items())}
    each = "; ".join(f"{p}: up to {count:,} records up to offset {skip[p]:,}" for p, count in lost.items())
    sentence = (
        f"records of {counted(len(lost), 'partition')} are skipped (`source.skip`), {each}. What their "
        f"groups were "
        "before is not known: they are judged from their next records on"
    )
    return sentence, sum(lost.values())


def _resumed(
    storage: Storage, stored: Manifest, found: Identity, facts: TopicFacts, spark_log: SparkLog
) -> StatePlan:
    require_match(stored.identity, found)
    number = stored.generation
    # The ledger knows it too, where Spark's log cannot be reached.
    ledger = Ledger(storage.ledger).load()
    positions = ledger.on_topic(facts.id, facts.cluster_id).positions
    furthest = {p: last + 1 for p, last in positions.items()} | spark_log.read(facts.name)
    try:
        require_uncut(furthest, facts)
    except CutError as cut:
        # Leaders that lead now had it not.
        before = {p: epoch - 1 for p, epoch in facts.epochs.items()}
        note_cut(storage.leaders, read_marks(storage.leaders), cut.read, facts.id, before)
        raise
    return StatePlan(
        stored.grown(found).led(facts.ends, facts.filled()),
        storage.checkpoint(number),
        storage.location(number),
        stored.unpublished,
        lost=removed_unread(furthest, facts.begins),
        read=furthest,
        is_new=spark_log.begun < 0 and ledger.generation != number,
    )


def _spark_log(storage: Storage, generation: int, lanes: int) -> SparkLog | None:
    """Return what is logged of this generation's batches; None where only Spark reaches it.

    `lanes`: partitions of its state. Raises SparkLogError for what is damaged or missing.
    """
    if not storage.remote:
        return _whole_log(storage.checkpoint(generation), lanes)
    return _asked(storage.location(generation), lambda place: _whole_log(place, lanes))


def _asked(location: str, ask: Callable[[Place], T]) -> T | None:
    """Return what the place says where Spark writes; None, which is logged, where only Spark reaches it.

    Raises UnreachableError where Hadoop's client, which is Spark's own, does not reach it.
    """
    by_hadoop = False
    try:
        place = place_at(location)
        by_hadoop = is_remote(place) and place.by_hadoop
        return ask(place)
    except UnreachableError:
        raise
    except (FolderError, OSError) as error:
        if by_hadoop:
            raise UnreachableError(location, error) from error
        log.warning("the checkpoint's own log is not read", why=str(error))
        return None


def _whole_log(checkpoint: Place, lanes: int) -> SparkLog:
    found = read_log(checkpoint)
    require_whole(checkpoint, found, lanes)
    return found


def _forget_lost(ledger: Ledger, facts: TopicFacts) -> None:
    """Count no lost record as published: other records stand at its offset now, or will."""
    snapshot = ledger.load().on_topic(facts.id, facts.cluster_id)
    ends = facts.ends | {p: kept.end for p, kept in facts.kept.items() if kept.is_cut}
    left = {p: min(last, ends.get(p, last + 1) - 1) for p, last in snapshot.positions.items()}
    if left != snapshot.positions:
        ledger.commit(replace(snapshot, positions=left))


def _history(facts: TopicFacts, settings: Settings) -> dict[int, int]:
    # A job that starts at the end reads no history; everything it sees is live.
    return facts.filled() if settings.source.starting == "earliest" else {}


def limit_of(state: StatePlan, settings: Settings) -> int | None:
    """Return how many offsets a batch may read at first: what is no history is never limited."""
    is_live = has_read(state.read, state.manifest.catching_up)
    return None if is_live else settings.source.max_offsets_per_trigger
