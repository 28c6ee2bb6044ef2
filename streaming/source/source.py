"""Where records come from: the offsets topic, by Spark's Kafka source or by `source.reader: python`.

A source is a function from a session to a streaming frame with the Kafka source's columns (`COLUMNS`).
The Kafka source assigns every partition: subscribing would make Spark's own driver join a consumer group and
write its membership into the topic that is being watched. It reads uncommitted records, because an open
transaction would otherwise hide everything behind it. It never fails on lost offsets: the guard reports them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from types import MappingProxyType
from typing import TYPE_CHECKING

from rebalance_monitor.cluster.clients.properties import java_properties
from rebalance_monitor.config.errors import ConfigError
from rebalance_monitor.streaming.source.columns import COLUMNS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from rebalance_monitor.config.model import Settings

PYTHON_READER_SINCE = 4
# The connector's own numbers for the ends of a partition.
_ENDS = {"earliest": -2, "latest": -1}
NOTHING: Mapping[int, int] = MappingProxyType({})
Source = Callable[["SparkSession"], "DataFrame"]


def kafka_options(
    settings: Settings, partitions: int, limit: int | None, skip: Mapping[int, int] = NOTHING
) -> dict[str, str]:
    """Return the options of Spark's Kafka source; `limit` = offsets per batch, None for no limit.

    `skip`: partition -> offset behind which a new state reads.
    """
    source = settings.source
    options = {
        f"kafka.{name}": value for name, value in java_properties(settings.kafka.client_properties()).items()
    }
    options |= {
        "assign": json.dumps({source.topic: list(range(partitions))}),
        "startingOffsets": _starting(settings, partitions, skip),
        "failOnDataLoss": "false",
        "groupIdPrefix": "rebalance-monitor",
        "kafka.isolation.level": "read_uncommitted",
        # After each read the connector asks a partition's ends over the same connection, where the consumer
        # has just asked for more: the broker answers in turn, and holds a fetch without records this long.
        "kafka.fetch.max.wait.ms": str(source.fetch_max_wait.ms),
        "kafka.max.poll.records": str(source.max_poll_records),
    }
    if limit is not None:
        options["maxOffsetsPerTrigger"] = str(limit)
    return options


def _starting(settings: Settings, partitions: int, skip: Mapping[int, int]) -> str:
    source = settings.source
    if not skip:
        return source.starting
    usual = _ENDS[source.starting]
    starts = {str(p): skip[p] + 1 if p in skip else usual for p in range(partitions)}
    return json.dumps({source.topic: starts})


def kafka_source(options: Mapping[str, str]) -> Source:
    """Return the source that reads the topic with these options."""

    def open_topic(session: SparkSession) -> DataFrame:
        frame = session.readStream.format("kafka").options(**options).load().select(*COLUMNS)
        # One task for each partition would spend a batch on starting Python workers.
        return frame.coalesce(session.sparkContext.defaultParallelism)

    return open_topic


def topic_source(
    settings: Settings, partitions: int, limit: int | None, skip: Mapping[int, int] = NOTHING
) -> Source:
    """Return the source that `source.reader` names; `limit` and `skip` as in `kafka_options`."""
    if settings.source.reader == "spark":
        return kafka_source(kafka_options(settings, partitions, limit, skip))
    return python_source(settings, partitions, skip)


def require_reader(spark: str) -> None:
    """Raise ConfigError where this version of Spark has no Python data sources."""
    if int(spark.partition(".")[0]) < PYTHON_READER_SINCE:
        raise ConfigError(
            f"`source.reader: python` needs Spark {PYTHON_READER_SINCE}.0 or newer, this is {spark}: leave "
            "it at `spark`."
        )


def python_source(settings: Settings, partitions: int, skip: Mapping[int, int] = NOTHING) -> Source:
    """Return the source that does without Spark's connector (python_reader.py)."""

    def open_topic(session: SparkSession) -> DataFrame:
        require_reader(session.version)
        # Not there before 4.0.
        from rebalance_monitor.streaming.source.python_reader import OPTION, TopicSource, Wanted  # noqa: PLC0415

        wanted = Wanted(
            properties=settings.kafka.client_properties(),
            topic=settings.source.topic,
            partitions=partitions,
            starting=settings.source.starting,
            tasks=session.sparkContext.defaultParallelism,
            skip={str(partition): offset for partition, offset in skip.items()},
        )
        session.dataSource.register(TopicSource)
        reader = session.readStream.format(TopicSource.name()).option(OPTION, json.dumps(asdict(wanted)))
        return reader.load().select(*COLUMNS)

    return open_topic
