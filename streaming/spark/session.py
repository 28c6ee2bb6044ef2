"""The Spark session with the defaults that this job was measured with; the `spark:` section overrides each.

On a platform that starts the driver itself (spark-submit, Databricks) master, jars and Python are the
platform's; only the settings that the query depends on are set there.
"""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
from contextlib import contextmanager, nullcontext, suppress
from importlib.metadata import version
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING

from rebalance_monitor.checkpoints.storage.places import is_elsewhere
from rebalance_monitor.cluster.errors import DependencyError
from rebalance_monitor.cluster.jars.jars import installed_spark, resolve_spark_kafka
from rebalance_monitor.cluster.jars.java import find_java
from rebalance_monitor.config.errors import ConfigError
from rebalance_monitor.config.secrets import WORDS_OF_SECRETS, is_secret
from rebalance_monitor.streaming.spark.local_files import local_files
from rebalance_monitor.streaming.spark.scratch import WORKERS, import_from_the_path_alone, scratch_option
from rebalance_monitor.streaming.spark.user import user_option

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pyspark.sql import SparkSession

    from rebalance_monitor.config.model import Settings

ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
# Renames through Hadoop's FileSystem: on a local folder this spares commands.
LOCAL_FILES = (
    "org.apache.spark.sql.execution.streaming.FileSystemBasedCheckpointFileManager",
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager",
)

PROJECTIONS, INTERPRETED = "spark.sql.codegen.factoryMode", "NO_CODEGEN"
JAVA_OPTIONS, LOG_LEVEL = "spark.driver.extraJavaOptions", "spark.log.level"
# What RocksDB and Arrow have freed goes back to the system once a minute: in hours the allocator's rest had
# grown by 100 MB. A JVM that does not know the option passes over it. The files in deploy/ have it, too.
GIVES_BACK = "-XX:+IgnoreUnrecognizedVMOptions -XX:TrimNativeHeapInterval=60000"
# To collect garbage beside short batches costs more than it gains (docs/measurements/levers.md).
LOCAL_JVM = f"{GIVES_BACK} -XX:+UseParallelGC"
SUBMIT_ARGUMENTS = "PYSPARK_SUBMIT_ARGS"
SPARK_4 = 4

QUERY: dict[str, str] = {
    # Without it the Kafka source gives no row of an internal topic, and no error either.
    "spark.sql.streaming.kafka.useDeprecatedOffsetFetching": "true",
    "spark.sql.session.timeZone": "UTC",
    # Every partition costs one Python task a batch, and the number is fixed by the first batch of a state.
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # A version of the state is as large as the state: few are kept.
    "spark.sql.streaming.minBatchesToRetain": "4",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "50000",
    "spark.sql.adaptive.enabled": "false",
}
# Beyond a limit Spark fails the batch, and runs it again with the same rows, for ever. What a batch gives is
# bounded by the groups that there are, and the driver's memory is sized for it (docs/costs.md).
RESULT_LIMIT = {"spark.driver.maxResultSize": "0"}
# What the page of Spark, its log of events and its plans show of a setting: Spark's own pattern knows no
# `jaas`. It is searched for in values too.
REDACTED = {"spark.redaction.regex": f"(?i){WORDS_OF_SECRETS}"}
OPEN_SOURCE: dict[str, str] = {
    "spark.sql.streaming.stateStore.providerClass": ROCKSDB,
    **RESULT_LIMIT,
    **REDACTED,
}
LOCAL: dict[str, str] = {
    "spark.master": "local[2]",
    "spark.ui.enabled": "false",
    # Its records of jobs and plans are kept all the same: of thousands, with a text of each plan.
    "spark.sql.ui.explainMode": "simple",
    "spark.sql.ui.retainedExecutions": "20",
    "spark.ui.retainedJobs": "50",
    "spark.ui.retainedStages": "50",
    "spark.ui.retainedTasks": "500",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.python.daemon.module": "rebalance_monitor.streaming.spark.daemon",
    JAVA_OPTIONS: LOCAL_JVM,
}
# Of a state in a local folder: versions no longer kept are deleted this often, back to a snapshot. At
# one a second the defaults, 60 s and ten versions, would leave some seventy; to list a bucket is dear.
FEW_VERSIONS = {
    "spark.sql.streaming.stateStore.maintenanceInterval": "3s",
    "spark.sql.streaming.stateStore.minDeltasForSnapshot": "3",
}
# Spark's forms of a master (SparkContext.scala) and of a size (JavaUtils.java).
MASTER = re.compile(r"local(\[.+\])?|local-cluster\[.+\]|yarn|[a-z0-9-]+://\S+")
SIZE = re.compile(r"\d+([bkmgtp]|[kmgtp]b)?")
SIZES = frozenset(
    {
        *("spark.driver.memory", "spark.driver.memoryOverhead", "spark.executor.memory"),
        *("spark.executor.memoryOverhead", "spark.executor.pyspark.memory", "spark.memory.offHeap.size"),
    }
)
CONNECT = (
    "This is a session of Spark Connect, which runs `foreachBatch` in another process, without what the job "
    "knows: start the job where its driver runs (Databricks: access mode Dedicated, `data_security_mode: "
    "SINGLE_USER`; elsewhere without SPARK_REMOTE, `spark.remote` and `spark.api.mode`)."
)


class NoJvmError(DependencyError):
    """Spark's JVM ended while it started."""


def start_session(
    name: str, overrides: Mapping[str, str], jars: Iterable[Path], environment: Mapping[str, str] = os.environ
) -> SparkSession:
    """Start Spark, or join the platform's session.

    Raises DependencyError where no fitting Java is found, NoJvmError where the JVM ends while it starts,
    ConfigError for a session of Spark Connect.
    """
    from pyspark.sql import SparkSession  # noqa: PLC0415 - heavy, and an optional dependency

    require_driver(overrides, environment)
    local = not is_platform(environment)
    if local:
        _set_local_environment()
    settings = session_settings(overrides, jars, environment)
    with (
        _own_signals(),
        _own_output(),
        _named(),
        secrets_in_a_file(settings) if local else nullcontext(settings) as public,
    ):
        session = SparkSession.builder.appName(name).config(map=public).getOrCreate()
    if type(session).__module__.startswith("pyspark.sql.connect"):
        raise ConfigError(CONNECT)
    if local:
        _use_local_files(session, overrides)
        session.sparkContext.setLogLevel(overrides.get(LOG_LEVEL, "ERROR"))
    return session


def require_driver(overrides: Mapping[str, str], environment: Mapping[str, str]) -> None:
    """Raise ConfigError where Spark is asked for a session whose driver is another process."""
    asked = overrides.get("spark.remote") or environment.get("SPARK_REMOTE")
    if asked or overrides.get("spark.api.mode", "").lower() == "connect":
        raise ConfigError(CONNECT)


@contextmanager
def stopped_at_the_end(session: SparkSession) -> Iterator[None]:
    """Stop the session when the context ends. An error inside is raised even after Spark has ended."""
    from py4j.protocol import Py4JError  # noqa: PLC0415 - comes with pyspark

    try:
        yield
    except BaseException:
        with suppress(Py4JError, ConnectionError):
            session.stop()
        raise
    session.stop()


def session_settings(
    overrides: Mapping[str, str], jars: Iterable[Path], environment: Mapping[str, str]
) -> dict[str, str]:
    """Return what the session is built with: the defaults that fit the place, then `overrides`."""
    settings = QUERY | WORKERS
    if "DATABRICKS_RUNTIME_VERSION" not in environment:
        settings |= OPEN_SOURCE
    if not is_platform(environment):
        settings |= LOCAL
        settings["spark.jars"] = ",".join(str(jar) for jar in jars)
    settings |= overrides
    if not is_platform(environment):
        settings = local_files(settings)
        options = (_log_layout(), scratch_option(), user_option(), settings.get(JAVA_OPTIONS, ""))
        settings[JAVA_OPTIONS] = " ".join(filter(None, options))
        # Set once the session stands: Spark would say so in a line of its own.
        settings.pop(LOG_LEVEL, None)
    return settings


def _log_layout() -> str:
    """Return the JVM's option for its log: the form that cli/logs.py gives to ours."""
    form = "terminal" if sys.stderr.isatty() else "json"
    return f"-Dlog4j2.configurationFile={Path(__file__).with_name(f'log4j2-{form}.properties').as_uri()}"


def shuffle_partitions(overrides: Mapping[str, str], environment: Mapping[str, str] = os.environ) -> int:
    """Return how many partitions the state of a query that begins now will have. Raises ConfigError."""
    text = session_settings(overrides, (), environment)["spark.sql.shuffle.partitions"]
    if not text.isdecimal() or not int(text):
        raise ConfigError(
            f"spark.sql.shuffle.partitions must be a whole number from 1 on, not {text!r}: correct it under "
            "`spark:`."
        )
    return int(text)


def require_readable(overrides: Mapping[str, str]) -> None:
    """Raise ConfigError for a master or a size that Spark cannot read: its JVM would end and not say why."""
    problems = []
    master = overrides.get("spark.master")
    if master is not None and not MASTER.fullmatch(master.strip()):
        problems.append(
            f"spark.master must be local[n], yarn, k8s://… or spark://…, not {master!r}: correct it "
            "under `spark:`."
        )
    for name, value in overrides.items():
        if name in SIZES and not SIZE.fullmatch(value.strip().lower()):
            problems.append(
                f"{name} must be a size such as 2g or 512m, not {value!r}: correct it under `spark:`."
            )
    if problems:
        raise ConfigError.of(problems)


def interprets(overrides: Mapping[str, str], environment: Mapping[str, str] = os.environ) -> bool:
    """Whether short batches are to interpret projections: on a local master, unless configured otherwise.

    Spark's source makes a projection for each partition in every batch. For a few rows interpreting one is
    cheaper than to write its code and look that up; a long history is worth the code.
    """
    return not is_platform(environment) and PROJECTIONS not in overrides


def kafka_jars(settings: Settings) -> list[Path]:
    """Return the jars of Kafka's source; none on a platform, which brings them: `--packages`, or its own.

    None either where another source reads. Raises DependencyError.
    """
    if is_platform(os.environ) or settings.source.reader == "python":
        return []
    return resolve_spark_kafka(*installed_spark(), settings)


def is_platform(environment: Mapping[str, str]) -> bool:
    """Whether this driver was started by spark-submit or runs on Databricks."""
    return "PYSPARK_GATEWAY_PORT" in environment or "DATABRICKS_RUNTIME_VERSION" in environment


def _set_local_environment() -> None:
    os.environ["JAVA_HOME"] = str(find_java().home)
    import_from_the_path_alone()
    # Workers must have our packages: not the system's Python.
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)


@contextmanager
def secrets_in_a_file(settings: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """Return the settings that may be on the JVM's command line, which every user of the machine can read.

    The others reach the JVM by a properties file of mode 0600 that is gone when the context ends.
    """
    secret = {key: value for key, value in settings.items() if is_secret(key)}
    if not secret:
        yield dict(settings)
        return
    before = os.environ.get(SUBMIT_ARGUMENTS)
    with NamedTemporaryFile("w", prefix="spark-", suffix=".conf", encoding="latin-1") as file:
        file.writelines(f"{key}={_property(value)}\n" for key, value in secret.items())
        file.flush()
        # Spark before 4.0 cannot read its own defaults beside a properties file.
        defaults = "--load-spark-defaults " if int(version("pyspark").split(".")[0]) >= SPARK_4 else ""
        os.environ[SUBMIT_ARGUMENTS] = f"--properties-file {file.name} {defaults}{before or 'pyspark-shell'}"
        try:
            yield {key: value for key, value in settings.items() if key not in secret}
        finally:
            os.environ.pop(SUBMIT_ARGUMENTS)
            if before is not None:
                os.environ[SUBMIT_ARGUMENTS] = before


def _property(value: str) -> str:
    """Write a value as Java properties files have it: all but plain ASCII is escaped."""
    wide = value.encode("utf-16-be")
    units = [int.from_bytes(wide[at : at + 2], "big") for at in range(0, len(wide), 2)]
    return "".join(
        chr(unit) if chr(unit).isascii() and chr(unit).isalnum() else f"\\u{unit:04x}" for unit in units
    )


@contextmanager
def _named() -> Iterator[None]:
    """Raise NoJvmError where the JVM ends while it starts."""
    from py4j.protocol import Py4JError, Py4JJavaError  # noqa: PLC0415 - comes with pyspark
    from pyspark.errors import PySparkRuntimeError  # noqa: PLC0415 - heavy, and an optional dependency

    try:
        yield
    except (PySparkRuntimeError, Py4JError, ConnectionError) as error:
        runs = isinstance(error, PySparkRuntimeError) and "JAVA_GATEWAY" not in str(error)
        if runs or isinstance(error, Py4JJavaError):
            raise
        raise NoJvmError(
            "Spark's JVM ended before it could be used.",
            "What it said stands above; see its heap and options (`spark.driver.memory` and "
            f"`{JAVA_OPTIONS}`, under `spark:`) and the memory of this machine.",
        ) from error


@contextmanager
def _own_signals() -> Iterator[None]:
    """Keep the caller's Ctrl-C handler: PySpark installs one that throws the session away."""
    handler = signal.getsignal(signal.SIGINT)
    yield
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, handler)


@contextmanager
def _own_output() -> Iterator[None]:
    """Give the JVM that starts meanwhile stderr for its stdout: ours is for data, and Delta prints there."""
    sys.stdout.flush()
    own = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        os.dup2(own, 1)
        os.close(own)


def _use_local_files(session: SparkSession, overrides: Mapping[str, str]) -> None:
    key = "spark.sql.streaming.checkpointFileManagerClass"
    if key in overrides:
        return
    for name in LOCAL_FILES:
        if _has_class(session, name):
            session.conf.set(key, name)
            return


def keep_few_versions(session: SparkSession, state: str, environment: Mapping[str, str] = os.environ) -> None:
    """Have a query that begins now delete old versions of its `state` soon, in a local master's own folder.

    What the session was configured with stays.
    """
    if is_platform(environment) or is_elsewhere(state):
        return
    given = session.sparkContext.getConf()
    for key, value in FEW_VERSIONS.items():
        if not given.contains(key):
            session.conf.set(key, value)


def _has_class(session: SparkSession, name: str) -> bool:
    from py4j.protocol import Py4JJavaError  # noqa: PLC0415 - comes with pyspark

    try:
        session._jvm.java.lang.Class.forName(name)  # noqa: SLF001 - there is no public way to ask
    except Py4JJavaError:
        return False
    return True
