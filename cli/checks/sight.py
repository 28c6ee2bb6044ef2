"""The last check of `doctor`: a record of the topic, read through Spark's own Kafka source.

Reading through a plain client proves the permissions; only this proves that the source delivers an internal
topic here. Starts Spark with the job's settings, which takes seconds, and reads one record of one partition.
"""

import json
import os
from typing import TYPE_CHECKING

from rebalance_monitor.cli.checks.result import Result

if TYPE_CHECKING:
    from rebalance_monitor.cluster.clients.admin import ClusterAdmin
    from rebalance_monitor.config.model import Settings

CHECK = "through Spark"
REMEDY = (
    "Leave spark.sql.streaming.kafka.useDeprecatedOffsetFetching at true; if it is, the platform's own Kafka "
    "connector does not honour it, and the job would be blind there: set source.reader to python (Spark 4.0 "
    "and newer), which does without that connector."
)


def through_spark(admin: "ClusterAdmin", settings: "Settings") -> Result:
    """Check that Spark's Kafka source delivers a record of the fullest partition."""
    from rebalance_monitor.engine.topic.topic import ask

    if settings.source.reader == "python":
        return Result(CHECK, ok=True, found="not needed: source.reader is python")
    facts = ask(admin, settings.source.topic)
    filled = {} if facts is None else facts.filled()
    if not filled:
        return Result(CHECK, ok=True, found="not tried: the topic holds no records yet")
    fullest = max(filled, key=lambda partition: filled[partition])
    delivered = _first_row(settings, fullest)
    words = "delivers records" if delivered else "delivers nothing, and gives no error,"
    return Result(CHECK, delivered, f"Spark's Kafka source {words} of partition {fullest}", REMEDY)


def _first_row(settings: "Settings", partition: int) -> bool:
    from rebalance_monitor.cluster.jars.jars import installed_spark, resolve_spark_kafka
    from rebalance_monitor.streaming.source.source import kafka_options
    from rebalance_monitor.streaming.spark.session import is_platform, start_session

    jars = [] if is_platform(os.environ) else resolve_spark_kafka(*installed_spark(), settings)
    session = start_session("rebalance-monitor-doctor", settings.spark.properties(), jars)
    try:
        options = kafka_options(settings, partition + 1, None)
        options |= {
            "assign": json.dumps({settings.source.topic: [partition]}),
            "startingOffsets": "earliest",
        }
        return bool(session.read.format("kafka").options(**options).load().take(1))
    finally:
        session.stop()
