"""Audits: samples of records and tables, checked against the contracts.

The newest rows are sampled: records from the end of the topic (or a capture), findings and groups from the
tables. Its result: outcomes, and the Data Docs in the folder `audit` of the storage. The job does this in a
process of its own (engine/audit/auditor.py).
"""

from __future__ import annotations

import shutil
from collections import deque
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from rebalance_monitor.checkpoints.storage.places import is_remote
from rebalance_monitor.cluster.captures.capture import read_capture
from rebalance_monitor.cluster.clients.admin import ClusterAdmin
from rebalance_monitor.cluster.clients.reader import Reading, read_records
from rebalance_monitor.dashboard.audit.check import check, writes_docs
from rebalance_monitor.dashboard.audit.contracts import FINDINGS, GROUPS, RECORDS
from rebalance_monitor.dashboard.audit.frames import findings_frame, groups_frame, records_frame
from rebalance_monitor.dashboard.tables.findings_table import newest_rows
from rebalance_monitor.dashboard.tables.groups_table import FILE
from rebalance_monitor.dashboard.tables.parquet import parquet_file
from rebalance_monitor.decoders import Decoded, coordinator_partition, decode_record

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pyarrow as pa

    from rebalance_monitor.checkpoints.storage.places import Place
    from rebalance_monitor.config.model import Settings
    from rebalance_monitor.dashboard.audit.check import Outcome
    from rebalance_monitor.dashboard.audit.frames import Row
    from rebalance_monitor.engine.storage import Storage


@dataclass(frozen=True, slots=True)
class Sampled:
    """Records, oldest first, and how many partitions their topic has (-1: unknown)."""

    batches: Sequence[pa.RecordBatch]
    partitions: int


def audit(settings: Settings, storage: Storage, sampled: Sampled | None) -> list[Outcome]:
    """Check the newest rows of the tables, and of `sampled` records, and write the Data Docs.

    With great-expectations it takes seconds and a few hundred MB; without it there are no Data Docs. Raises
    OSError.
    """
    frames = tables(storage, settings.audit.sample_rows, sampled.partitions if sampled else -1)
    if sampled is not None:
        frames = {RECORDS: records(sampled, settings.audit.sample_rows), **frames}
    with TemporaryDirectory() as work:
        found = check(frames, Path(work))
        if writes_docs():
            _publish(Path(work), storage.audit)
    return found


def _publish(docs: Path, place: Place) -> None:
    """Replace the folder `place` by what lies in `docs`. Raises OSError."""
    if is_remote(place):
        place.clear()
        for path in filter(Path.is_file, docs.rglob("*")):
            (place / path.relative_to(docs).as_posix()).put(path.read_bytes())
        return
    draft = Path(str(place.parent / ".audit.draft"))
    shutil.rmtree(draft, ignore_errors=True)
    shutil.copytree(docs, draft)
    shutil.rmtree(str(place), ignore_errors=True)
    draft.replace(str(place))


def unmet(outcomes: Iterable[Outcome]) -> dict[str, int]:
    """Return suite -> contracts that do not hold."""
    found: dict[str, int] = {}
    for outcome in outcomes:
        found[outcome.suite] = found.get(outcome.suite, 0) + (not outcome.holds)
    return found


def sentence(outcomes: Iterable[Outcome]) -> str:
    """Say which contracts do not hold, in one sentence; "" where all do."""
    broken = [f"{one.suite}: {one.means} ({one.breaking} rows)" for one in outcomes if not one.holds]
    return f"contracts do not hold in a sample: {'; '.join(broken)}"[:1_000] if broken else ""


def tables(storage: Storage, rows: int, partitions: int) -> dict[str, list[Row]]:
    """Return the frames of both tables."""
    place = partial(coordinator_partition, partitions=partitions) if partitions > 0 else None
    path = storage.groups / FILE
    groups = parquet_file(path).read().to_pylist()[:rows] if path.exists() else []
    findings = newest_rows(storage.findings, rows)[-rows:]
    return {FINDINGS: findings_frame(findings, place), GROUPS: groups_frame(groups)}


def records(sampled: Sampled, rows: int) -> list[Row]:
    """Return the frame of the newest `rows` records, decoded."""
    found = (row for batch in sampled.batches for row in _decoded(batch, sampled.partitions))
    return records_frame(deque(found, maxlen=rows))


def of_capture(path: Path) -> Sampled:
    """Sample a capture. Raises CaptureError."""
    capture = read_capture(path)
    return Sampled(list(capture.batches()), capture.metadata.partitions)


def of_topic(settings: Settings) -> Sampled:
    """Sample the end of the live topic. Raises DependencyError."""
    properties, name = settings.kafka.client_properties(), settings.source.topic
    with ClusterAdmin(properties) as admin:
        partitions = admin.partition_count(name)
        begins, ends = admin.begin_offsets(name, partly=True), admin.end_offsets(name, partly=True)
    share = -(-settings.audit.sample_rows // max(len(ends), 1))
    start = {p: max(begins.get(p, 0), end - share) for p, end in ends.items()}
    return Sampled(list(read_records(properties, Reading(start, ends), name)), partitions)


def _decoded(batch: pa.RecordBatch, partitions: int) -> Iterator[dict[str, Any]]:
    columns = ("key", "value", "partition", "offset", "timestamp")
    at = batch.schema.get_field_index("timestamp")
    stamps = batch.column(at).cast("int64").to_pylist()
    given = [batch.column(batch.schema.get_field_index(name)).to_pylist() for name in columns[:4]]
    for key, value, partition, offset, stamp in zip(*given, stamps, strict=True):
        found = decode_record(key, value)
        group = getattr(found.key, "group", None)
        body = found.value if isinstance(found, Decoded) else None
        yield {
            "partition": partition,
            "offset": offset,
            "timestamp": stamp,
            "type": found.type,
            "group": group,
            "reason": "" if isinstance(found, Decoded) else found.reason,
            "partition_of_group": partition
            if group is None or partitions < 0
            else coordinator_partition(group, partitions),
            "generation": getattr(body, "generation", getattr(body, "epoch", None)),
            "committed": getattr(body, "offset", None),
        }
