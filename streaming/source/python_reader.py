"""The offsets topic as a Python data source, from Spark 4.0 on: the way in without its Kafka connector.

For platforms whose connector gives nothing of an internal topic (`source.reader: python`). Offsets have the
connector's own JSON form and the name begins as its does, so that guard and checkpoint read both alike.
The driver asks the brokers where partitions end; each task reads its spans with the client that the package
brings, so executors must reach the brokers and have confluent-kafka. Slower than the connector, for every
task connects anew; a batch cannot be limited, for Spark does not say how far it has read.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from rebalance_monitor.cluster.clients.admin import ClusterAdmin
from rebalance_monitor.cluster.clients.reader import Reading, read_records
from rebalance_monitor.streaming.source.columns import COLUMNS, COLUMNS_DDL

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyspark.sql.types import StructType

NAME = "KafkaByConfluent"
# One option holds all, passwords too: Spark redacts options by such names wherever it prints them.
OPTION = "everything.secret"
STAMP = pa.timestamp("us", tz="UTC")
Offsets = dict[str, dict[str, int]]


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is read. properties: the client's, in Kafka's names; partitions and tasks: how many.

    skip: partition -> offset behind which a new checkpoint begins.
    """

    properties: dict[str, str]
    topic: str
    partitions: int
    starting: str
    tasks: int
    skip: dict[str, int] = field(default_factory=dict)


class TopicSource(DataSource):  # type: ignore[misc]  # pyspark's types are not followed
    """Spark's handle of it; made in the driver and again in Python workers, from its options."""

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return NAME

    def schema(self) -> str:
        """Return the columns of the Kafka source that the job reads."""
        return COLUMNS_DDL

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: ARG002, N802 - Spark's own
        """Return the stream."""
        return TopicStream(Wanted(**json.loads(self.options[OPTION])))


class Spans(InputPartition):  # type: ignore[misc]  # as above
    """What one task reads: (partition, first offset, offset to stop before) of some partitions."""

    def __init__(self, spans: Sequence[tuple[int, int, int]]) -> None:
        self.spans = list(spans)


class TopicStream(DataSourceStreamReader):  # type: ignore[misc]  # as above
    """Where the topic begins and ends, and the records between two offsets."""

    def __init__(self, wanted: Wanted) -> None:
        self._wanted = wanted

    def initialOffset(self) -> Offsets:  # noqa: N802 - Spark's own
        """Return where a new checkpoint begins. Raises DependencyError."""
        wanted = self._wanted
        with ClusterAdmin(wanted.properties) as admin:
            ask = admin.end_offsets if wanted.starting == "latest" else admin.begin_offsets
            found = ask(wanted.topic)
        return self._offsets({p: max(at, wanted.skip.get(str(p), -1) + 1) for p, at in found.items()})

    def latestOffset(self) -> Offsets:  # noqa: N802 - Spark's own
        """Return where the partitions end now. Raises DependencyError."""
        with ClusterAdmin(self._wanted.properties) as admin:
            return self._offsets(admin.end_offsets(self._wanted.topic))

    def partitions(self, start: Offsets, end: Offsets) -> Sequence[InputPartition]:
        """Return the tasks of a batch: partitions with something new, dealt out evenly."""
        topic, tasks = self._wanted.topic, self._wanted.tasks
        dealt = spans(start.get(topic, {}), end[topic])
        return [Spans(dealt[task::tasks]) for task in range(min(tasks, len(dealt)))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the records of one task, in offset order within each partition. Raises DependencyError."""
        given: list[tuple[int, int, int]] = partition.spans
        reading = Reading({p: first for p, first, _ in given}, until={p: end for p, _, end in given})
        for batch in read_records(self._wanted.properties, reading, self._wanted.topic):
            yield as_spark_wants(batch)

    def _offsets(self, found: Mapping[int, int]) -> Offsets:
        # A partition that is added later is the next query's: the state of this one has no lane for it.
        known = {str(p): found[p] for p in sorted(found) if p < self._wanted.partitions}
        return {self._wanted.topic: known}


def spans(start: Mapping[str, int], end: Mapping[str, int]) -> list[tuple[int, int, int]]:
    """Return (partition, first offset, offset to stop before) of the partitions with something between."""
    firsts = {partition: start.get(partition, 0) for partition in end}
    return [(int(p), firsts[p], until) for p, until in end.items() if until > firsts[p]]


def as_spark_wants(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the job's columns; Spark reads timestamps in microseconds only."""
    columns: dict[str, Any] = {name: batch.column(name) for name in COLUMNS}
    columns["timestamp"] = columns["timestamp"].cast(STAMP)
    return pa.RecordBatch.from_pydict(columns)
