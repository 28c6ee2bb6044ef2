"""The query on real Spark: decode, clock, operator and writer find what the coordinator alone finds."""

from __future__ import annotations

import shutil
import threading
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import pytest

pytest.importorskip("pyspark")

from pyspark import SparkConf

from rebalance_monitor.checkpoints.ledger import Ledger
from rebalance_monitor.config.errors import ConfigError
from rebalance_monitor.coordinator.findings.finding import Finding, from_json
from rebalance_monitor.coordinator.findings.kind_table import KINDS
from rebalance_monitor.coordinator.findings.kinds import DrivenBy
from rebalance_monitor.coordinator.settings import DetectionSettings
from rebalance_monitor.engine.batch.step import Plan
from rebalance_monitor.engine.driver.parts import Parts
from rebalance_monitor.engine.driver.writer import BatchWriter
from rebalance_monitor.engine.outputs.sinks import JsonLines
from rebalance_monitor.engine.storage import Storage
from rebalance_monitor.streaming.query.foreach_batch import collecting
from rebalance_monitor.streaming.query.query import End, Shape, start_query, watch
from rebalance_monitor.streaming.rows.lanes import Lanes
from rebalance_monitor.streaming.source.columns import COLUMNS, COLUMNS_DDL
from rebalance_monitor.streaming.spark.session import (
    FEW_VERSIONS,
    INTERPRETED,
    PROJECTIONS,
    keep_few_versions,
)
from rebalance_monitor.streaming.storage.stored_state import TRIES, stored_shards
from tests.coordinator.support.timeline import findings
from tests.streaming.support.topics import eventful_topic, put_file, records

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from pyspark.sql import DataFrame, DataFrameReader, SparkSession

    from rebalance_monitor.streaming.source.source import Source

# PySpark leaves the sockets of `collect` to the garbage collector.
pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")]
SETTINGS = DetectionSettings()
TOPICS = [eventful_topic(0, "g"), eventful_topic(1, "other")]


PARTS = range(4)


def put_topics(folder: Path, parts: Iterable[int] = PARTS) -> None:
    """Both shards' records in four files, cut in the middle of commit runs too; `parts` of these."""
    tables = [records(topic.rows) for topic in TOPICS]
    for part in parts:
        for shard, table in enumerate(tables):
            size = -(-table.num_rows // len(PARTS))
            put_file(folder, f"{part}-{shard}", table.slice(part * size, size))
            time.sleep(0.01)


def writer_at(root: Path) -> BatchWriter:
    ledger, storage = Ledger(root / "ledger"), Storage(root)
    return BatchWriter(ledger, ledger.load(), [JsonLines(storage.jsonl)], Parts(SETTINGS, "c1", list))


def folder_source(folder: Path) -> Source:
    """Parquet files of the Kafka source's columns, one a batch, in the order in which they were written."""

    def open_folder(session: SparkSession) -> DataFrame:
        reader = session.readStream.schema(COLUMNS_DDL).option("maxFilesPerTrigger", 1)
        return reader.parquet(str(folder)).select(*COLUMNS).coalesce(1)

    return open_folder


def shape(root: Path, trigger_s: float | None, plan: Plan | None = None) -> Shape:
    return Shape(
        source=folder_source(root / "in"),
        plan=plan or Plan(SETTINGS, "c1", {}),
        lanes=Lanes(2, 1, 1),
        checkpoint=str(root / "state" / "1"),
        trigger_s=trigger_s,
    )


def told(root: Path) -> list[Finding]:
    return [from_json(line) for line in Storage(root).jsonl.read_text().splitlines()]


def by_records(found: list[Finding]) -> list[tuple[str, str]]:
    kinds = [f for f in found if KINDS[f.kind].driven_by is DrivenBy.RECORD and f.kind != "rolling_restart"]
    return sorted((finding.id, finding.kind.value) for finding in kinds)


EXPECTED = by_records([finding for topic in TOPICS for finding in findings(topic)])


def run(
    session: SparkSession,
    root: Path,
    trigger_s: float | None,
    until: Callable[[dict[str, Any], BatchWriter], bool] = lambda _progress, _writer: False,
) -> tuple[End, Exception | None]:
    writer, stop = writer_at(root), threading.Event()
    timer = threading.Timer(150, stop.set)
    timer.start()
    try:
        query = start_query(session, shape(root, trigger_s), writer)
        return watch(query, stop, lambda progress: until(progress, writer), lambda: False)
    finally:
        timer.cancel()


def test_backfill_finds_what_the_coordinator_finds_and_ends(spark: SparkSession, tmp_path: Path) -> None:
    put_topics(tmp_path / "in")
    assert run(spark, tmp_path, None) == (End.FINISHED, None)
    assert by_records(told(tmp_path)) == EXPECTED
    assert all(finding.detected_at > finding.at for finding in told(tmp_path))


def test_the_clock_runs_without_any_record_and_a_restart_goes_on(spark: SparkSession, tmp_path: Path) -> None:
    put_topics(tmp_path / "in", PARTS[:2])
    end = run(spark, tmp_path, 0.3, lambda progress, _: progress["batchId"] >= 2)
    assert end == (End.REPLACED, None)
    assert len(by_records(told(tmp_path))) < len(EXPECTED)
    put_topics(tmp_path / "in", PARTS[2:])
    # A live trigger runs batches although there is nothing to read: the clock ticks.
    end = run(spark, tmp_path, 0.3, lambda progress, _: progress["batchId"] >= 12)
    assert end == (End.REPLACED, None)
    assert by_records(told(tmp_path)) == EXPECTED


def test_the_first_batch_generates_its_projections_and_the_others_interpret_them(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_topics(tmp_path / "in")
    seen: list[str] = []

    def watched(writer: BatchWriter, lanes: Lanes) -> Callable[[DataFrame, int], None]:
        write = collecting(writer, lanes)

        def seeing(frame: DataFrame, batch_id: int) -> None:
            seen.append(str(frame.sparkSession.conf.get(PROJECTIONS)))
            write(frame, batch_id)

        return seeing

    monkeypatch.setattr("rebalance_monitor.streaming.query.query.collecting", watched)
    before, writer = spark.conf.get(PROJECTIONS), writer_at(tmp_path)
    query = start_query(spark, replace(shape(tmp_path, None), interprets=True), writer)
    assert watch(query, threading.Event(), lambda _: False, lambda: False) == (End.FINISHED, None)
    assert seen[0] == before == spark.conf.get(PROJECTIONS) != INTERPRETED
    assert len(seen) > 1
    assert set(seen[1:]) == {INTERPRETED}
    assert by_records(told(tmp_path)) == EXPECTED


@dataclass
class Deleting:
    """A session in whose first `failing` reads the newest version of the state has just been deleted."""

    session: SparkSession
    state: Path
    failing: int
    reads: int = 0

    @property
    def read(self) -> DataFrameReader:
        self.reads += 1
        hidden = self.state.with_name("hidden")
        if self.reads == 1:
            shutil.copytree(self.state, hidden)
            for file in [*self.state.rglob("*.changelog"), *self.state.rglob("*.zip")]:
                file.unlink()
        if self.reads == self.failing + 1:
            shutil.rmtree(self.state)
            hidden.rename(self.state)
        return self.session.read


def test_a_state_of_which_a_version_is_deleted_while_it_is_read_is_read_again_and_one_without_any_is_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    put_topics(tmp_path / "in")
    assert run(spark, tmp_path, None) == (End.FINISHED, None)
    checkpoint = tmp_path / "state" / "1"
    there = list(stored_shards(spark, str(checkpoint)))
    assert [(found.shard, found.bucket) for found in there] == [(0, 0), (1, 0)]
    deleting = Deleting(spark, checkpoint / "state", TRIES - 1)
    assert list(stored_shards(cast("SparkSession", deleting), str(checkpoint))) == there
    assert deleting.reads == TRIES
    gone = cast("SparkSession", Deleting(spark, checkpoint / "state", TRIES))
    with pytest.raises(ConfigError, match="cannot be read: "):
        list(stored_shards(gone, str(checkpoint)))
    (never := tmp_path / "never-ran").mkdir()
    assert list(stored_shards(spark, str(never))) == []


def test_old_versions_are_deleted_soon_in_a_folder_but_not_in_a_bucket_nor_where_it_was_configured(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = {key: spark.newSession().conf.get(key) for key in FEW_VERSIONS}
    assert usual.keys() == FEW_VERSIONS.keys()

    def settings(state: str, environment: Mapping[str, str]) -> dict[str, str | None]:
        session = spark.newSession()
        keep_few_versions(session, state, environment)
        return {key: session.conf.get(key) for key in FEW_VERSIONS}

    assert settings("state/1", {}) == settings("file:///state/1", {}) == FEW_VERSIONS != usual
    assert settings("s3a://bucket/state/1", {}) == usual
    assert settings("state/1", {"DATABRICKS_RUNTIME_VERSION": "17"}) == usual
    asked = dict.fromkeys(FEW_VERSIONS, "9")
    monkeypatch.setattr(
        type(spark.sparkContext),
        "getConf",
        lambda _: SparkConf(loadDefaults=False).setAll(list(asked.items())),
    )
    assert settings("state/1", {}) == usual


def test_a_batch_whose_sink_failed_runs_again_and_is_published_once(
    spark: SparkSession, tmp_path: Path
) -> None:
    put_topics(tmp_path / "in")
    writer = writer_at(tmp_path)
    lines = Storage(tmp_path).jsonl
    lines.unlink()
    lines.mkdir()
    query = start_query(spark, shape(tmp_path, None), writer)
    end, error = watch(query, threading.Event(), lambda _: False, lambda: False)
    assert end is End.FAILED
    assert "IsADirectoryError" in str(error)
    lines.rmdir()
    assert run(spark, tmp_path, None) == (End.FINISHED, None)
    assert by_records(told(tmp_path)) == EXPECTED
