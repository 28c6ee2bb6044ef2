"""A session of Spark Connect is refused in one sentence: its driver is not the process of the job."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from rebalance_monitor.config.errors import ConfigError
from rebalance_monitor.streaming.spark.session import CONNECT, require_driver

# A platform that hands out such a session, from a server that Spark starts here.
PROGRAM = """
import os
from pyspark.sql import SparkSession
os.environ["SPARK_REMOTE"] = "local"
session = SparkSession.builder.getOrCreate()
print(session.range(3).count())
from rebalance_monitor.streaming.spark.session import start_session
environment = {name: value for name, value in os.environ.items() if name != "SPARK_REMOTE"}
try:
    start_session("job", {}, (), environment | {"DATABRICKS_RUNTIME_VERSION": "17.3"})
except Exception as error:
    print(error)
session.stop()
"""


@pytest.mark.parametrize(
    ("spark", "environment"),
    [
        ({"spark.remote": "sc://host"}, {}),
        ({"spark.api.mode": "connect"}, {}),
        ({}, {"SPARK_REMOTE": "sc://host"}),
    ],
)
def test_what_asks_for_spark_connect_is_refused(spark: dict[str, str], environment: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="Spark Connect"):
        require_driver(spark, environment)


def test_what_asks_for_a_driver_of_ones_own_is_taken() -> None:
    require_driver({"spark.api.mode": "classic"}, {"DATABRICKS_RUNTIME_VERSION": "17.3"})


@pytest.mark.slow
@pytest.mark.spark
def test_a_session_of_a_real_server_is_refused() -> None:
    environment = os.environ | {"PYTHONWARNINGS": "ignore"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.stdout.splitlines()[-2:] == ["3", CONNECT], done.stderr[-3_000:]
