"""The Spark session: what reaches the JVM, and by which way."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from rebalance_monitor.streaming.spark.session import (
    PROJECTIONS,
    SUBMIT_ARGUMENTS,
    interprets,
    secrets_in_a_file,
)

SECRET = "s3cr3t = \\ # ü 団 😀"  # noqa: S105 - it protects nothing
STARTS_SPARK = """
import json, os, pathlib, sys
from rebalance_monitor.streaming.spark.session import start_session
secret = sys.stdin.read()
session = start_session("t", {"spark.hadoop.fs.s3a.secret.key": secret, "spark.app.note": "seen"}, [])
procs = pathlib.Path("/proc").glob("[0-9]*/cmdline")
others = [path for path in procs if path.parent.name != str(os.getpid())]
ours = [line for line in (path.read_bytes() for path in others if path.exists()) if b"spark.app.note" in line]
read = session.sparkContext._jsc.hadoopConfiguration().get("fs.s3a.secret.key")
limit = session.sparkContext.getConf().get("spark.driver.maxResultSize")
print(json.dumps([limit, len(ours) > 0, any(b"s3cr3t" in line for line in ours), read == secret]))
session.stop()
"""


def test_without_secrets_nothing_is_written_and_nothing_changes() -> None:
    with secrets_in_a_file({"spark.master": "local[2]"}) as public:
        assert public == {"spark.master": "local[2]"}
        assert SUBMIT_ARGUMENTS not in os.environ


def test_the_file_of_secrets_is_ours_alone_and_goes_with_the_context() -> None:
    with secrets_in_a_file({"spark.master": "local[2]", "spark.ssl.keyPassword": SECRET}) as public:
        assert public == {"spark.master": "local[2]"}
        path = Path(os.environ[SUBMIT_ARGUMENTS].split()[1])
        assert path.stat().st_mode & 0o077 == 0
        assert "spark.ssl.keyPassword=s3cr3t" in path.read_text()
    assert not path.exists()
    assert SUBMIT_ARGUMENTS not in os.environ


@pytest.mark.spark
@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="command lines are read from /proc")
def test_secrets_reach_spark_whole_but_no_command_line_and_results_have_no_limit() -> None:
    done = subprocess.run(
        [sys.executable, "-c", STARTS_SPARK],
        input=SECRET,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.stdout.splitlines()[-1:] == ['["0", true, false, true]'], done.stderr[-2000:]


@pytest.mark.spark
def test_a_jvm_that_cannot_start_is_named_with_what_to_check() -> None:
    asks = """
import sys
from rebalance_monitor.streaming.spark.session import NoJvmError, start_session
try:
    start_session("t", {"spark.driver.extraJavaOptions": "-XX:+UseParallelGC -XX:+UseSerialGC"}, [])
except NoJvmError as error:
    sys.exit(f"named: {error}")
"""
    done = subprocess.run(
        [sys.executable, "-c", asks], capture_output=True, text=True, check=False, timeout=300
    )
    told = done.stderr.partition("named: ")[2]
    assert "Spark's JVM ended before it could be used." in told, done.stderr[-2000:]
    assert "spark.driver.extraJavaOptions" in told
    assert "garbage collectors" in done.stderr


def test_short_batches_interpret_projections_where_neither_platform_nor_operator_decides() -> None:
    assert interprets({}, {})
    assert not interprets({PROJECTIONS: "FALLBACK"}, {})
    assert not interprets({}, {"PYSPARK_GATEWAY_PORT": "1"})
    assert not interprets({}, {"DATABRICKS_RUNTIME_VERSION": "16.4"})
