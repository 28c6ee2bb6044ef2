"""Spark's progress reports, the JSON tree of one batch, as the driver needs them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rebalance_monitor.engine.batch.progress import Progress


def progress_of(report: Mapping[str, Any], topic: str) -> Progress:
    """Return what one report says of `topic`."""
    return Progress(source_ends(report, topic), stages_of(report), lag_of(report), store_memory_of(report))


def source_ends(progress: Mapping[str, Any], topic: str) -> dict[int, int] | None:
    """Return partition -> next offset to read, by one progress report; None without a Kafka source."""
    for source in progress["sources"]:
        if not str(source["description"]).startswith("Kafka"):
            continue
        ends = source["endOffset"]
        offsets = ends.get(topic, {}) if isinstance(ends, Mapping) else {}
        return {int(partition): int(offset) for partition, offset in offsets.items()}
    return None


def stages_of(progress: Mapping[str, Any]) -> dict[str, float]:
    """Return stage -> seconds of one progress report."""
    return {str(stage): int(ms) / 1000 for stage, ms in progress.get("durationMs", {}).items()}


def lag_of(progress: Mapping[str, Any]) -> int:
    """Return how many records the topic had beyond what the batch read, by the report of the Kafka source."""
    lag = 0
    for source in progress["sources"]:
        read = _offsets(source.get("endOffset"))
        latest = _offsets(source.get("latestOffset"))
        lag += sum(max(end - read.get(place, end), 0) for place, end in latest.items())
    return lag


def store_memory_of(progress: Mapping[str, Any]) -> int:
    """Return the bytes that the state stores have in memory (RocksDB: memtables, blocks, indexes)."""
    return sum(int(operator.get("memoryUsedBytes", 0)) for operator in progress.get("stateOperators", ()))


def _offsets(offsets: object) -> dict[tuple[str, str], int]:
    """Return (topic, partition) -> offset; empty for other sources than Kafka's."""
    topics = offsets if isinstance(offsets, dict) else {}
    return {
        (topic, partition): int(offset)
        for topic, partitions in topics.items()
        if isinstance(partitions, dict)
        for partition, offset in partitions.items()
    }
