"""The ledger: the published batches, and the state of all that publishes (docs/architecture.md).

Spark runs a batch again when the process died before the batch was committed. Every effect on the driver is
therefore keyed by (query id, batch id): sinks write first, the ledger commits last, and what a sink wrote
without a commit is forgotten at the next start. One snapshot file, replaced as a whole, so the last batch,
the length of the JSON-lines file and the states of roll-up and live always belong together.
Refuses a snapshot of another format: a guess would lose or double findings.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

from rebalance_monitor.checkpoints.storage.files import replace_file
from rebalance_monitor.checkpoints.storage.owned import make_folder
from rebalance_monitor.checkpoints.storage.sealed import CHECKSUM, parsed, seal, unseal
from rebalance_monitor.config.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rebalance_monitor.checkpoints.storage.places import Place

FORMAT = 2
READ = frozenset({1, FORMAT})
"""Formats that are read. The first has no checksum."""
JsonState = dict[str, Any]


class LedgerError(ConfigError):
    """The snapshot cannot be read; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything that has to agree after a crash.

    batches: query id, or another name of it -> last batch applied. positions: shard -> last offset whose
    findings are published, of the topic `topic_id` (a recreated topic counts anew) of the cluster
    `cluster_id`. jsonl_bytes: committed length of findings.jsonl. now: the last batch's timestamp (ms).
    rollup, live, health, lag: states of the driver's parts. rebuilt: what is held over a rebuild of the
    state. generation: the state of the last batch that a query made, -1 before the first.
    """

    batches: dict[str, int] = field(default_factory=dict)
    topic_id: str = ""
    cluster_id: str = ""
    positions: dict[int, int] = field(default_factory=dict)
    jsonl_bytes: int = 0
    now: int = -1
    rollup: JsonState = field(default_factory=dict)
    live: JsonState = field(default_factory=dict)
    health: JsonState = field(default_factory=dict)
    rebuilt: JsonState = field(default_factory=dict)
    generation: int = -1
    lag: JsonState = field(default_factory=dict)

    def has(self, query_id: str, batch_id: int) -> bool:
        """Whether this batch is published."""
        return batch_id <= self.batches.get(query_id, -1)

    def knows(self, query_id: str) -> bool:
        """Whether a batch of this query is published, under whatever name."""
        return any(name == query_id or name.startswith(f"{query_id}.") for name in self.batches)

    def is_published(self, shard: int, offset: int) -> bool:
        """Whether any query has published the record at `offset` of `shard`."""
        return offset <= self.positions.get(shard, -1)

    def name_of(self, query_id: str) -> str:
        """Return the newest name under which the query's batches are published."""
        number = self._names_of(query_id)
        return f"{query_id}.{number}" if number else query_id

    def next_name_of(self, query_id: str) -> str:
        """Return a name under which nothing is published yet."""
        return f"{query_id}.{self._names_of(query_id) + 1}"

    def _names_of(self, query_id: str) -> int:
        number = 0
        while f"{query_id}.{number + 1}" in self.batches:
            number += 1
        return number

    def passed_by(self, positions: Mapping[int, int]) -> bool:
        """Whether `positions` (shard -> last offset) reach beyond what is published."""
        return any(not self.is_published(shard, offset) for shard, offset in positions.items())

    def on_topic(self, topic_id: str, cluster_id: str) -> Snapshot:
        """Return the snapshot for a start on this topic of this cluster.

        Positions of another topic mean nothing there, and neither does what was remembered of its groups;
        on another cluster nor what was open about the monitor: that incident is the other cluster's. Old
        brokers report no ids (""): then the topic is taken for the same one.
        """
        topic, cluster = topic_id or self.topic_id, cluster_id or self.cluster_id
        moved = replace(self, topic_id=topic, cluster_id=cluster)
        is_same_cluster = cluster == (self.cluster_id or cluster)
        if is_same_cluster and topic == (self.topic_id or topic):
            return moved
        health = self.health if is_same_cluster else {}
        return replace(moved, positions={}, health=health, rollup={}, live={}, rebuilt={}, lag={})

    def after(self, query_id: str, batch_id: int, now: int, positions: Mapping[int, int]) -> Snapshot:
        """Return the snapshot in which this batch has been applied; `positions`: last offset per shard."""
        furthest = dict(self.positions)
        for shard, offset in positions.items():
            furthest[shard] = max(offset, furthest.get(shard, -1))
        batches = {**self.batches, query_id: batch_id}
        return replace(self, batches=batches, positions=furthest, now=now if now >= 0 else self.now)


class Ledger:
    """Reads and replaces the snapshot in `folder`. Not safe for several processes: see `files.locked`."""

    def __init__(self, folder: Place) -> None:
        self._path = folder / "snapshot.json"
        self._body = b""

    def require_there(self, why: str) -> None:
        """Raise LedgerError if there is no snapshot, although `why` proves that one was committed."""
        if not self._path.is_file():
            raise LedgerError(
                f"{self._path} is gone, although {why}. Without it the findings that were written are taken "
                "for those of no batch, and removed: restore it from a backup, or move the whole storage "
                "folder away and start afresh."
            )

    def load(self) -> Snapshot:
        """Return the last committed snapshot, an empty one at the very first start. Raises LedgerError."""
        try:
            return _from_json(unseal(self._path.read_bytes(), formats=READ, unsealed=READ - {FORMAT}))
        except FileNotFoundError:
            return Snapshot()
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise LedgerError(
                f"{self._path} cannot be read ({error}). It was written by another version or is damaged: "
                "restore it from a backup, or move the whole storage folder away and start afresh."
            ) from error

    def commit(self, snapshot: Snapshot) -> None:
        """Make `snapshot` the last one, durably. Blocks for the disk; raises OSError.

        It is copied nowhere but into the file: its parts' states may be changed afterwards.
        """
        body = {"format": FORMAT} | {name: getattr(snapshot, name) for name in _NAMES}
        encoded = seal(body)
        self._keep(encoded)
        self._body = encoded

    def _keep(self, encoded: bytes) -> None:
        try:
            replace_file(self._path, encoded)
        except FileNotFoundError:
            # The first one, or somebody has deleted the folder.
            make_folder(self._path.parent)
            replace_file(self._path, encoded)

    def committed(self) -> Snapshot | None:
        """Return the snapshot committed last, as it was then; None before the first. Reads no disk."""
        return _from_json(parsed(self._body)) if self._body else None


class Unwritten(Ledger):
    """A ledger for one process that keeps nothing: it begins empty and ends with the process."""

    def load(self) -> Snapshot:
        """Return an empty snapshot."""
        return Snapshot()

    def _keep(self, encoded: bytes) -> None:
        """Write nothing."""


_NAMES = tuple(one.name for one in fields(Snapshot))


def _from_json(body: dict[str, Any]) -> Snapshot:
    body = {name: value for name, value in body.items() if name not in {"format", CHECKSUM}}
    body["positions"] = {int(shard): int(offset) for shard, offset in body["positions"].items()}
    return Snapshot(**body)
