"""A Spark session for benchmarks: local, quiet, with the state store the job uses."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
FILE_SYSTEM_CHECKPOINTS = "org.apache.spark.sql.execution.streaming.FileSystemBasedCheckpointFileManager"
BASE = {
    "spark.ui.enabled": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.stateStore.providerClass": ROCKSDB,
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.streaming.minBatchesToRetain": "4",
    "spark.sql.streaming.numRecentProgressUpdates": "1000",
}


def session(master: str, conf: Mapping[str, str]) -> SparkSession:
    """Start a session on `master` with BASE and then `conf`; the workers run this interpreter."""
    from pyspark.sql import SparkSession  # noqa: PLC0415  a slow import: --help stays quick

    os.environ["PYSPARK_PYTHON"] = sys.executable
    # The workers unpickle functions of the modules of `bench`.
    given = [path for path in [os.environ.get("PYTHONPATH")] if path]
    os.environ["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parents[2]), *given])
    builder = SparkSession.builder.master(master)
    for key, value in {**BASE, **conf}.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def batch_ms(query: StreamingQuery, skip: int) -> list[dict[str, int]]:
    """Give `durationMs` of each finished batch, without the first `skip` (they warm things up)."""
    return [dict(p["durationMs"]) for p in query.recentProgress if "addBatch" in p["durationMs"]][skip:]


def kafka_session(master: str, conf: Mapping[str, str]) -> SparkSession:
    """Start a session with Spark's Kafka connector, told to read internal topics."""
    from rebalance_monitor.cluster.jars.jars import (  # noqa: PLC0415 - the other functions do without us
        installed_spark,
        resolve_spark_kafka,
    )

    spark_version, scala_version = installed_spark()
    jars = resolve_spark_kafka(spark_version, scala_version)
    kafka = {
        "spark.jars": ",".join(map(str, jars)),
        "spark.sql.streaming.kafka.useDeprecatedOffsetFetching": "true",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "50000",
    }
    return session(master, kafka | dict(conf))


def kafka_frame(
    spark: SparkSession, bootstrap: str, partitions: int, options: Mapping[str, str]
) -> DataFrame:
    """Stream `__consumer_offsets` with the job's options and then `options`."""
    everything = {
        "kafka.bootstrap.servers": bootstrap,
        "assign": json.dumps({"__consumer_offsets": list(range(partitions))}),
        "startingOffsets": "earliest",
        "failOnDataLoss": "false",
        "kafka.isolation.level": "read_uncommitted",
        "kafka.fetch.max.wait.ms": "0",
        "kafka.max.poll.records": "50000",
        **options,
    }
    return spark.readStream.format("kafka").options(**everything).load()
