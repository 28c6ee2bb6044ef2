"""The image's entry point: it runs a verb, and starts driver and executor as Spark on Kubernetes asks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from rebalance_monitor.cluster.jars.ivy import spark_jars_folder
from rebalance_monitor.cluster.jars.java import find_java
from tests.deploy.containerfile import IMAGE


def entrypoint(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run the image's entry point with this machine's Spark and Java."""
    java = find_java()
    path = f"{java.executable.parent}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {"SPARK_HOME": str(spark_jars_folder().parent), "JAVA_HOME": str(java.home), "PATH": path}
    return subprocess.run(
        [IMAGE / "entrypoint.sh", *words],
        env={**os.environ, **environment, **variables},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def test_the_image_runs_a_verb_of_the_monitor() -> None:
    assert entrypoint("--version").stdout.startswith("rebalance-monitor")
    assert entrypoint("no-such-verb").returncode == 2


@pytest.mark.spark
def test_the_image_runs_a_driver_as_spark_asks_for_it(tmp_path: Path) -> None:
    (main := tmp_path / "run.py").write_text(DRIVER)
    properties = {
        "spark.master": "local[1]",
        "spark.pyspark.python": sys.executable,
        "spark.pyspark.driver.python": sys.executable,
    }
    (file := tmp_path / "spark.properties").write_text("".join(f"{k}={v}\n" for k, v in properties.items()))
    done = entrypoint(
        *("driver", "--properties-file", str(file), "--class", "org.apache.spark.deploy.PythonRunner"),
        f"local://{main}",
        SPARK_DRIVER_BIND_ADDRESS="127.0.0.1",
    )
    assert done.stdout.split() == ["127.0.0.1", "client", "True"], done.stderr[-2_000:]


# That Spark started it, is what tells the monitor to leave master, jars and Python alone.
DRIVER = """
from pyspark import SparkContext
from rebalance_monitor.streaming.spark.session import is_platform
import os
SparkContext._ensure_initialized()
asked = SparkContext._jvm.java.lang.System.getProperty
print(asked("spark.driver.bindAddress"), asked("spark.submit.deployMode"), is_platform(os.environ))
"""


@pytest.mark.spark
def test_the_image_runs_an_executor_as_spark_asks_for_it() -> None:
    """It gets as far as its driver, who is not there: class, options and arguments are what Spark knows."""
    done = entrypoint(
        "executor",
        SPARK_JAVA_OPT_0="-XX:+PrintCommandLineFlags",
        SPARK_JAVA_OPT_1="-Dspark.rpc.numRetries=1",
        SPARK_DRIVER_URL="spark://CoarseGrainedScheduler@127.0.0.1:1",
        SPARK_EXECUTOR_ID="1",
        SPARK_EXECUTOR_CORES="1",
        SPARK_EXECUTOR_MEMORY="300m",
        SPARK_APPLICATION_ID="spark-1",
        SPARK_EXECUTOR_POD_IP="127.0.0.1",
        SPARK_RESOURCE_PROFILE_ID="0",
        SPARK_EXECUTOR_POD_NAME="executor-1",
    )
    assert f"-XX:MaxHeapSize={300 * 1024 * 1024} " in done.stdout
    assert "Failed to connect to /127.0.0.1:1" in done.stdout + done.stderr
    assert done.returncode != 0
