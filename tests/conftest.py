"""What all tests share: a real broker, a real Spark session, and an honest account of what did not run.

A run ends with a table of the tests that were skipped or left out, and why. With REQUIRE_ALL=1 a skip is a
failure: continuous integration must not pass because something was missing. From TESTS_END_AT on (seconds
since the epoch) no test begins; one that still runs a minute later is interrupted.
"""

import math
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from rebalance_monitor.lab.cluster.broker import LabBroker
    from tests.checkpoints.stores import StoreOfHadoop

Report = pytest.TestReport | pytest.CollectReport

# No test is timed: on a busy machine any example may be slow.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")

# Spark's JVMs live for seconds here: the optimizing compiler used half of their CPU in the first batches.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1")

REQUIRE_ALL = os.environ.get("REQUIRE_ALL") == "1"
OVERTIME_S = 60.0
# Why a marker's tests were left out: the command that runs them.
LEFT_OUT = {
    "slow": "make test-slow",
    "chaos": "make chaos",
    "spark": "make test (starts Spark)",
    "broker": "make test (starts a Kafka broker)",
}
_left_out: Counter[str] = Counter()


@pytest.fixture(scope="session")
def lab_broker() -> Iterator["LabBroker"]:
    """A running single-node Kafka for the whole session; `lab_broker.bootstrap` is where it listens."""
    from rebalance_monitor.lab.cluster.broker import LabBroker

    with LabBroker() as broker:
        yield broker


@pytest.fixture(scope="session")
def s3() -> Iterator[str]:
    """An S3 on loopback for the whole session: the URI of its bucket, see tests/checkpoints/stores.py."""
    from tests.checkpoints.stores import s3_server

    with s3_server() as uri:
        yield uri


@pytest.fixture(scope="session")
def hadoop_jvm() -> Iterator[object]:
    """A JVM with the Hadoop of the installed Spark."""
    pytest.importorskip("pyspark")
    from rebalance_monitor.cluster.jars.gateway import java_gateway

    with java_gateway(()) as jvm:
        yield jvm


@pytest.fixture(autouse=True)
def _no_jvm_of_another_test() -> Iterator[None]:
    """Forget the JVM that a verb of this process had serve URIs: no test depends on which ran before."""
    from rebalance_monitor.checkpoints.storage.hadoop_jvm import use_jvm

    yield
    use_jvm(lambda _: None)


@pytest.fixture(autouse=True)
def _signals() -> Iterator[None]:
    """Give back the handlers that a verb set: a process forked later would take SIGTERM for a wish."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in handlers.items():
        # None is one that Python did not set.
        if handler is not None:
            signal.signal(number, handler)


@pytest.fixture(scope="session")
def hdfs_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator["StoreOfHadoop"]:
    """An HDFS with permissions for the whole session: the home of the user `sre`, and a JVM of that user."""
    pytest.importorskip("pyspark")
    from tests.checkpoints.stores import hdfs_home
    from tests.deploy.minicluster import MiniCluster

    with MiniCluster(tmp_path_factory.mktemp("hdfs"), nodes=0) as cluster, hdfs_home(cluster) as home:
        yield home


@pytest.fixture(scope="session")
def spark() -> Iterator["SparkSession"]:
    """A Spark session on two local threads with the Kafka connector, for the whole session."""
    from rebalance_monitor.cluster.jars.jars import installed_spark, resolve_spark_kafka
    from rebalance_monitor.streaming.spark.session import start_session

    session = start_session("rebalance-monitor-tests", {}, resolve_spark_kafka(*installed_spark()))
    yield session
    session.stop()


def _seconds_left() -> float:
    return float(os.environ.get("TESTS_END_AT", "inf")) - time.time()


def pytest_sessionstart() -> None:
    """Interrupt what runs long after the end, in this process alone: others are the servers of its tests."""
    if math.isfinite(left := _seconds_left()):
        main = threading.main_thread().ident or 0
        timer = threading.Timer(max(0.0, left + OVERTIME_S), signal.pthread_kill, (main, signal.SIGINT))
        timer.daemon = True
        timer.start()


def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Begin no other test where no time is left."""
    if nextitem is not None and _seconds_left() <= 0:
        item.session.shouldstop = "no time is left, the rest did not run"


def pytest_deselected(items: list[pytest.Item]) -> None:
    """Count what the marker expression left out, by the first marker that explains it."""
    for item in items:
        marks = {mark.name for mark in item.iter_markers()}
        reason = next((command for name, command in LEFT_OUT.items() if name in marks), "not selected")
        _left_out[reason] += 1


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, Report, Report]:
    """With REQUIRE_ALL=1 a test that skips itself fails."""
    return _required((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, Report, Report]:
    """With REQUIRE_ALL=1 a module that skips itself fails."""
    return _required((yield))


def _required(report: Report) -> Report:
    if REQUIRE_ALL and report.outcome == "skipped" and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped although REQUIRE_ALL=1: {_reason(report)}"
    return report


def _reason(report: Report) -> str:
    text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return text.removeprefix("Skipped: ")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Write the table of what did not run and why."""
    skipped = Counter(_reason(report) for report in terminalreporter.stats.get("skipped", []))
    rows = [*skipped.most_common(), *_left_out.most_common()]
    terminalreporter.section("did not run")
    if not rows:
        terminalreporter.line("everything ran")
    for reason, count in rows:
        terminalreporter.line(f"{count:>6}  {reason}")
