"""The manifest: what a checkpoint was made of, compared before Spark touches it.

Spark would resume on anything whose schema fits: on another cluster, on a recreated topic, with another
number of buckets; the result would be wrong without an error. The topic is compacted, so state can always be
rebuilt from it: each mismatch is a sentence and, where there is one, the way to go on with that state;
`--rebuild-state` is the way out of all of them. Growth of the topic is no mismatch (new partitions are simply
read), neither is another product version by itself.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from rebalance_monitor.checkpoints.errors import OTHER_BROKERS, OTHERWISE, REBUILD
from rebalance_monitor.checkpoints.state.versions import OLDEST_READ
from rebalance_monitor.checkpoints.storage.files import replace_file
from rebalance_monitor.checkpoints.storage.sealed import seal, unseal
from rebalance_monitor.config.errors import ConfigError
from rebalance_monitor.coordinator.findings.wording import counted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rebalance_monitor.checkpoints.storage.places import Place

FORMAT = 3
READ = frozenset({2, FORMAT})
# The key of `unpublished` in the file, which versions before this one read too.
_UNPUBLISHED = "untold"
"""Formats that are read. The first has no checksum."""


class ManifestError(ConfigError):
    """The checkpoint does not fit what the job found; the message says how and what to do."""


@dataclass(frozen=True, slots=True)
class Identity:
    """What state depends on. shards: partitions of the topic. lanes: partitions, and keys, of Spark's state.

    An empty id means that the broker reports none.
    """

    product_version: str
    codec_version: int
    buckets: int
    lanes: int
    shards: int
    topic_id: str
    cluster_id: str
    engine: str = "spark"


@dataclass(frozen=True, slots=True)
class Manifest:
    """What the state of `generation` (folder `state/<generation>`) was started with.

    catching_up: shard -> end offset found when this state was started; what lies before it is history.
    It is part of the manifest because a batch that is run again must see the same history.
    rebuild: the value of `storage.rebuild` then: another one asks for a new state, once. elsewhere: the URI
    below which Spark's checkpoint lies, "" beside the manifest. unpublished: why the state before was given
    up, until a finding says so. skip: partition -> offset behind which it is read (`source.skip`). unled:
    partitions that have had no leader since: what they hold once they have one is history too.
    """

    identity: Identity
    generation: int
    catching_up: dict[int, int]
    rebuild: str = ""
    elsewhere: str = ""
    unpublished: str = ""
    skip: dict[int, int] = field(default_factory=dict)
    unled: tuple[int, ...] = ()

    def grown(self, identity: Identity) -> Manifest:
        """Return the manifest once the job resumes on `identity`: new partitions are live from the start."""
        return replace(self, identity=identity)

    def led(self, ends: Mapping[int, int], filled: Mapping[int, int]) -> Manifest:
        """Return the manifest once the partitions of `ends` have leaders; `filled`: those with records."""
        found = {p: filled[p] for p in self.unled if self.skip.get(p, -1) + 1 < filled.get(p, 0)}
        unled = tuple(p for p in self.unled if p not in ends)
        return replace(self, catching_up=self.catching_up | found, unled=unled)


@dataclass(frozen=True, slots=True)
class Mismatch:
    """Why state must not be used, in a sentence, and how to go on with it; "" where nothing allows that."""

    why: str
    keep: str = ""

    def __str__(self) -> str:
        return f"{self.why} {self.keep}".rstrip()


def mismatches(stored: Identity, found: Identity) -> list[Mismatch]:
    """Return each reason why state of `stored` must not be used on `found`; empty = go on."""
    return [mismatch for mismatch in (check(stored, found) for check in _CHECKS) if mismatch]


def require_match(stored: Identity, found: Identity) -> None:
    """Raise ManifestError with every mismatch and what to do about it."""
    reasons = mismatches(stored, found)
    if reasons:
        way_out = OTHERWISE if any(reason.keep for reason in reasons) else REBUILD
        raise ManifestError(" ".join([*map(str, reasons), way_out]))


def read_manifest(path: Place) -> Manifest | None:
    """Return the manifest at `path`, None where there is none yet. Raises ManifestError on any other file."""
    try:
        return _from_json(unseal(path.read_bytes(), formats=READ, unsealed=READ - {FORMAT}))
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ManifestError(
            f"{path} cannot be read ({error}): it was written by another version or is damaged. {REBUILD}"
        ) from error


def write_manifest(path: Place, manifest: Manifest) -> None:
    """Replace the manifest at `path`, durably. Raises OSError."""
    body = asdict(manifest)
    body[_UNPUBLISHED] = body.pop("unpublished")
    replace_file(path, seal({"format": FORMAT, **body}, indent=1))


def next_generation(state_folder: Place) -> int:
    """Return the first number above every state folder there is, so that no start meets an old checkpoint."""
    numbers = [int(child.name) for child in state_folder.glob("*") if child.name.isdigit()]
    return max(numbers, default=0) + 1


def _from_json(body: Mapping[str, Any]) -> Manifest:
    return Manifest(
        identity=Identity(**body["identity"]),
        generation=int(body["generation"]),
        catching_up={int(shard): int(end) for shard, end in body["catching_up"].items()},
        rebuild=str(body["rebuild"]),
        elsewhere=str(body["elsewhere"]),
        unpublished=str(body[_UNPUBLISHED]),
        # States of before have skipped nothing.
        skip={int(shard): int(offset) for shard, offset in body.get("skip", {}).items()},
        unled=tuple(map(int, body.get("unled", ()))),
    )


def _codec(stored: Identity, found: Identity) -> Mismatch | None:
    if OLDEST_READ <= stored.codec_version <= found.codec_version:
        return None
    if stored.codec_version < OLDEST_READ:
        age, reads = "an older", f"reads formats from {OLDEST_READ} on"
    else:
        age, reads = "a newer", f"knows formats up to {found.codec_version}"
    return Mismatch(
        f"The state was written by {age} version of the product ({stored.product_version}, state format "
        f"{stored.codec_version}); this one ({found.product_version}) {reads}.",
        "The version that wrote it can continue with it.",
    )


def _buckets(stored: Identity, found: Identity) -> Mismatch | None:
    if stored.buckets == found.buckets:
        return None
    return Mismatch(
        f"The state has {counted(stored.buckets, 'bucket')} per partition, the configuration asks for "
        f"{found.buckets}.",
        f"`buckets: {stored.buckets}` continues with it.",
    )


def _engine(stored: Identity, found: Identity) -> Mismatch | None:
    if stored.engine == found.engine:
        return None
    return Mismatch(
        f"The state was written by the {stored.engine} engine, and the configuration asks for the "
        f"{found.engine} engine.",
        f"`engine: {stored.engine}` continues with it.",
    )


def _lanes(stored: Identity, found: Identity) -> Mismatch | None:
    if stored.lanes == found.lanes or stored.engine != found.engine:
        return None
    return Mismatch(
        f"The state has {counted(stored.lanes, 'partition')}, and would have {found.lanes} if it began now "
        "(spark.sql.shuffle.partitions).",
        f'`spark.sql.shuffle.partitions: "{stored.lanes}"` under `spark:` continues with it.',
    )


def _shards(stored: Identity, found: Identity) -> Mismatch | None:
    if stored.shards <= found.shards:
        return None
    return Mismatch(
        f"The offsets topic had {stored.shards} partitions and now has {found.shards}: "
        "partitions are never removed, so this is another topic.",
        OTHER_BROKERS,
    )


def _topic(stored: Identity, found: Identity) -> Mismatch | None:
    if stored.topic_id == found.topic_id or not stored.topic_id or not found.topic_id:
        return None
    return Mismatch(
        f"The offsets topic was recreated, or `source.topic` was changed (topic id {stored.topic_id}, now "
        f"{found.topic_id})."
    )


def _cluster(stored: Identity, found: Identity) -> Mismatch | None:
    if stored.cluster_id == found.cluster_id or not stored.cluster_id or not found.cluster_id:
        return None
    return Mismatch(
        f"The state is of Kafka cluster {stored.cluster_id}, the brokers belong to {found.cluster_id}.",
        OTHER_BROKERS,
    )


_CHECKS = (_cluster, _topic, _shards, _engine, _buckets, _lanes, _codec)
