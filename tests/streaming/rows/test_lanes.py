"""Lanes on real Spark: each key lies alone in the partition of its number."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark")

from rebalance_monitor.streaming.rows.lanes import lane_keys, spark_hash

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_the_hash_is_sparks_own(spark: SparkSession) -> None:
    numbers = [*range(-200, 2_000), 2**31 - 1, -(2**31)]
    frame = spark.createDataFrame([(number,) for number in numbers], "number int")
    theirs = {row.number: row.hash for row in frame.selectExpr("number", "hash(number) AS hash").collect()}
    assert theirs == {number: spark_hash(number) for number in numbers}


@pytest.mark.parametrize("partitions", [1, 2, 3, 16, 200])
def test_each_lane_has_a_partition_of_its_own(spark: SparkSession, partitions: int) -> None:
    keys = spark.createDataFrame([(key,) for key in lane_keys(partitions)], "lane int")
    spread = keys.repartition(partitions, "lane").selectExpr("spark_partition_id() AS at", "lane").collect()
    assert [row.lane for row in sorted(spread)] == list(lane_keys(partitions))
    assert [row["at"] for row in sorted(spread)] == list(range(partitions))
