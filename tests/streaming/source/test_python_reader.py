"""The reader without Spark's connector gives the same records, and the job tells the same with it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyspark.sql.datasource", reason="Python data sources need Spark 4.0 or newer")

from rebalance_monitor.cluster.clients.admin import OFFSETS_TOPIC, ClusterAdmin
from rebalance_monitor.cluster.clients.reader import Reading, read_records
from rebalance_monitor.config.errors import ConfigError
from rebalance_monitor.config.load import load
from rebalance_monitor.lab.cluster.node import wait_until
from rebalance_monitor.streaming.query.reports import source_ends
from rebalance_monitor.streaming.source.columns import COLUMNS
from rebalance_monitor.streaming.source.python_reader import (
    NAME,
    Spans,
    TopicStream,
    Wanted,
    as_spark_wants,
    spans,
)
from rebalance_monitor.streaming.source.source import python_source
from tests.chaos.support.rig import PATIENCE_S, Rig

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    import pyarrow as pa
    from pyspark.sql import SparkSession

    from rebalance_monitor.lab.cluster.broker import LabBroker

offsets = st.dictionaries(st.integers(0, 9).map(str), st.integers(0, 50), max_size=10)


def wanted(bootstrap: str = "", tasks: int = 3, partitions: int = 50) -> Wanted:
    return Wanted({"bootstrap.servers": bootstrap}, OFFSETS_TOPIC, partitions, "earliest", tasks)


@given(offsets, offsets, st.integers(1, 4))
def test_tasks_read_each_offset_between_once(start: dict[str, int], end: dict[str, int], tasks: int) -> None:
    stream = TopicStream(wanted(tasks=tasks))
    given = stream.partitions({OFFSETS_TOPIC: start}, {OFFSETS_TOPIC: end})
    dealt = [cast("Spans", task).spans for task in given]
    read = [(p, at) for task in dealt for p, first, until in task for at in range(first, until)]
    between = [(int(p), at) for p, until in end.items() for at in range(start.get(p, 0), until)]
    assert sorted(read) == sorted(between)
    assert len(dealt) <= tasks
    assert all(dealt)


def test_offsets_have_the_form_of_the_connectors() -> None:
    progress = {"sources": [{"description": NAME, "endOffset": {OFFSETS_TOPIC: {"3": 7}}}]}
    assert source_ends(progress, OFFSETS_TOPIC) == {3: 7}
    assert spans({}, {"3": 7, "4": 0}) == [(3, 0, 7)]


def test_spark_before_4_is_refused_by_name() -> None:
    settings = load(None, {"kafka": {"bootstrap_servers": "b:1"}, "source": {"reader": "python"}})
    old = cast("SparkSession", SimpleNamespace(version="3.5.9"))
    with pytest.raises(ConfigError, match=r"needs Spark 4\.0 or newer, this is 3\.5\.9"):
        python_source(settings, 50)(old)


def test_a_batch_of_it_cannot_be_limited() -> None:
    tree: dict[str, Any] = {"reader": "python", "max_offsets_per_trigger": 5}
    with pytest.raises(ConfigError, match="does not go with"):
        load(None, {"kafka": {"bootstrap_servers": "b:1"}, "source": tree})


@pytest.mark.broker
def test_it_reads_what_is_in_the_topic(lab_broker: LabBroker, tmp_path: Path) -> None:
    Rig(lab_broker.bootstrap, tmp_path).pulse("python-reader-a", "python-reader-b")
    with ClusterAdmin({"bootstrap.servers": lab_broker.bootstrap}) as admin:
        begins, ends = admin.begin_offsets(), admin.end_offsets()
    stream = TopicStream(wanted(lab_broker.bootstrap, partitions=len(ends)))
    first, last = stream.initialOffset(), stream.latestOffset()
    assert {int(p): at for p, at in first[OFFSETS_TOPIC].items()} == begins
    found = [batch for task in stream.partitions(first, last) for batch in stream.read(task)]
    plain = read_records({"bootstrap.servers": lab_broker.bootstrap}, Reading(begins, until=ends))
    rows = by_place(found)
    # Other groups of this broker may have written since.
    assert by_place(map(as_spark_wants, plain)).items() <= rows.items()
    assert found[0].schema.names == list(COLUMNS)


def by_place(batches: Iterable[pa.RecordBatch]) -> dict[tuple[int, int], tuple[Any, ...]]:
    rows = [tuple(row.values()) for batch in batches for row in batch.to_pylist()]
    return {(row[2], row[3]): row for row in rows}


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.broker
@pytest.mark.timeout(900)
@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
def test_a_job_with_it_is_killed_and_shows_what_the_topic_holds(
    lab_broker: LabBroker, tmp_path: Path
) -> None:
    rig = Rig(lab_broker.bootstrap, tmp_path, {"source": {"reader": "python"}})
    rig.pulse("by-python-a")
    with rig.job:
        rig.pulse("by-python-b")
        rig.await_told(lambda f: f.group == "by-python-b" and f.kind == "rebalance")
        rig.job.kill()
    rig.pulse("by-python-c")
    with rig.job:
        rig.pulse("by-python-d")
        rig.await_told(lambda f: f.group == "by-python-d" and f.kind == "rebalance")
        rig.require_truth()
        rig.job._process.terminate()
        assert wait_until(lambda: not rig.job.alive, PATIENCE_S)
        assert rig.job._process.returncode == 0
    # Nothing of Spark's connector was fetched or used.
    assert "spark-sql-kafka" not in rig.job.log
