"""The JVM that makes Java's logins and reaches Hadoop's file systems: the driver's own, else one of ours.

On YARN and Databricks Spark's JVM runs before the job does, and has the platform's Kafka client, realms,
tickets and file systems. Elsewhere one is started at the first login that needs it, with the jars of Spark's
Kafka connector, or for the first file that pyarrow does not reach (a second, some 120 MB); it ends with this
process. One that has ended is replaced.
"""

from __future__ import annotations

import os
import shlex
import threading
from contextlib import ExitStack, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rebalance_monitor.cluster.errors import DependencyError
from rebalance_monitor.cluster.jars.gateway import chain_of, java_gateway, words_of
from rebalance_monitor.cluster.jars.jars import installed_spark, resolve_spark_kafka
from rebalance_monitor.cluster.login_causes import hadoop_login_error

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from rebalance_monitor.config.model import Settings

CONTEXT = "org.apache.kafka.common.security.JaasContext"
OPTIONS = "spark.driver.extraJavaOptions"
CONFIGURED = ("HADOOP_CONF_DIR", "YARN_CONF_DIR")
BY_HADOOP_ALONE = frozenset({"hdfs", "webhdfs", "swebhdfs", "viewfs", "ofs", "o3fs"})
"""Schemes of file systems that pyarrow has not, or by a library of C that no package brings."""


class SharedJvm:
    """Gives py4j's view of the JVM; safe for several threads."""

    def __init__(self) -> None:
        self._settings: Settings | None = None
        self._drivers: Callable[[], Any] = lambda: None
        self._sessions: Callable[[], Any] = lambda: None
        self._lock = threading.Lock()
        self._stack = ExitStack()
        self._jvm: Any = None

    def configure(
        self, settings: Settings, drivers: Callable[[], Any], sessions: Callable[[], Any] = lambda: None
    ) -> None:
        """Take the jars of these settings, and the system properties that Spark's driver gets.

        `drivers` gives the JVM that started this driver, `sessions` that of a session; None: there is none.
        """
        self._settings, self._drivers, self._sessions = settings, drivers, sessions

    @property
    def options(self) -> list[str]:
        """The system properties that Spark's driver is given: realms (krb5.conf), addresses of tokens."""
        given = self._spark().get(OPTIONS, "")
        return [word for word in shlex.split(given) if word.startswith("-D")]

    def for_logins(self) -> Any:  # noqa: ANN401 - of a JVM
        """Return the JVM, started where none runs. Raises DependencyError: no Java, no jars, no pyspark."""
        with self._lock:
            if not _has_kafka(self._running()):
                drivers = self._drivers()
                self._jvm = drivers if drivers and _has_kafka(drivers) else self._own()
            return self._jvm

    def for_files(self, scheme: str) -> Any:  # noqa: ANN401 - of a JVM
        """Return the JVM that serves URIs of a scheme: the driver's, or one of ours where pyarrow has none.

        None where pyarrow serves them. Raises DependencyError: no Java.
        """
        if scheme == "file":
            return None
        if driver := self._drivers() or self._sessions():
            return driver
        if not _by_hadoop_alone(scheme):
            return None
        return self.any()

    def any(self) -> Any:  # noqa: ANN401 - of a JVM
        """Return a JVM, whatever it has beside Spark's jars. Raises DependencyError: no Java, no pyspark."""
        if driver := self._drivers() or self._sessions():
            return driver
        with self._lock:
            if self._running() is None:
                self._jvm = self._started(())
            return self._jvm

    def close(self) -> None:
        """End a JVM of ours."""
        with self._lock:
            self._jvm = None
            self._stack.close()

    def _running(self) -> Any:  # noqa: ANN401 - as above
        """Return the JVM that was found or started before, None where it has ended."""
        if self._jvm is not None and not _answers(self._jvm):
            self._jvm = None
            with suppress(Exception):
                # One that has ended cannot be asked to.
                self._stack.close()
        return self._jvm

    def _own(self) -> Any:  # noqa: ANN401 - as above
        try:
            return self._started(resolve_spark_kafka(*installed_spark(), self._settings))
        except DependencyError as error:
            what = f"This login is made by Java's Kafka client. {error.what}"
            raise DependencyError(what, error.remedy) from None

    def _started(self, jars: Iterable[Path]) -> Any:  # noqa: ANN401 - as above
        """Start one with Hadoop's configuration, as spark-submit has it."""
        configured = [Path(os.environ[name]) for name in CONFIGURED if os.environ.get(name)]
        # Hadoop's own files, before the empty ones of its jars.
        with ExitStack() as started:
            jvm = started.enter_context(java_gateway([*configured, *jars], self.options))
            for name, value in self._spark().items():
                if name.startswith("spark.hadoop."):
                    jvm.java.lang.System.setProperty(name, value)
            _log_in(jvm, self._spark())
            self._stack.push(started.pop_all())
        return jvm

    def _spark(self) -> Mapping[str, str]:
        return {} if self._settings is None else self._settings.spark.properties()


def needs_hadoop(uri: str) -> bool:
    """Whether a URI is served by a JVM in this environment, wherever it runs."""
    return _by_hadoop_alone(uri.partition(":")[0])


def _by_hadoop_alone(scheme: str) -> bool:
    return scheme in BY_HADOOP_ALONE and find_spec("pyspark") is not None


def _answers(jvm: Any) -> bool:  # noqa: ANN401 - as above
    with suppress(Exception):
        return jvm.java.lang.System.nanoTime() is not None
    return False


def _has_kafka(jvm: Any) -> bool:  # noqa: ANN401 - as above
    if jvm is None:
        return False
    with suppress(Exception):
        return class_named(jvm, CONTEXT) is not None
    return False


def class_named(jvm: Any, name: str) -> Any:  # noqa: ANN401 - as above
    """Return Java's class of a name, as Kafka's client finds classes."""
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    return jvm.java.lang.Class.forName(name, True, loader)  # noqa: FBT003 - Java's signature


def _log_in(jvm: Any, properties: Mapping[str, str]) -> None:  # noqa: ANN401 - as above
    """Log Hadoop's client in by the keytab of Spark's settings, if there is one; it renews its ticket.

    Raises DependencyError with the cause.
    """
    from py4j.protocol import Py4JJavaError  # noqa: PLC0415 - comes with pyspark

    keytab, principal = properties.get("spark.kerberos.keytab"), properties.get("spark.kerberos.principal")
    if keytab and principal:
        user = jvm.org.apache.hadoop.security.UserGroupInformation
        user.setConfiguration(jvm.org.apache.spark.deploy.SparkHadoopUtil.get().conf())
        try:
            user.loginUserFromKeytab(principal, keytab)
        except Py4JJavaError as error:
            raised = error.java_exception
            words, more = words_of(raised, {}), " ".join(chain_of(raised))
            raise hadoop_login_error(words, more, keytab, principal) from None


SHARED_JVM = SharedJvm()
"""One for the process: a login is made once and renewed for all clients."""
