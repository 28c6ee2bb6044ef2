"""Columns of a record of the offsets topic, as Spark's Kafka source names and types them."""

from __future__ import annotations

COLUMNS = ("key", "value", "partition", "offset", "timestamp")


COLUMNS_DDL = "key binary, value binary, partition int, offset long, timestamp timestamp"
