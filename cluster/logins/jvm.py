"""The JVM in which Java's logins are made: the driver's own on a platform, else a small one of ours.

On YARN and Databricks Spark's JVM runs before the job does, and has the platform's Kafka client, realms and
tickets. Elsewhere one is started with the jars of Spark's Kafka connector, at the first login that needs it
(a second, some 120 MB), and ends with this process. One that has ended is replaced.
"""

from __future__ import annotations

import shlex
import threading
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any

from rebalance_monitor.cluster.errors import DependencyError
from rebalance_monitor.cluster.jars.gateway import java_gateway
from rebalance_monitor.cluster.jars.jars import installed_spark, resolve_spark_kafka

if TYPE_CHECKING:
    from collections.abc import Callable

    from rebalance_monitor.config.model import Settings

CONTEXT = "org.apache.kafka.common.security.JaasContext"
OPTIONS = "spark.driver.extraJavaOptions"


class LoginJvm:
    """Gives py4j's view of the JVM; safe for several threads."""

    def __init__(self) -> None:
        self._settings: Settings | None = None
        self._drivers: Callable[[], Any] = lambda: None
        self._lock = threading.Lock()
        self._stack = ExitStack()
        self._jvm: Any = None

    def configure(self, settings: Settings, drivers: Callable[[], Any]) -> None:
        """Take the jars of these settings, and the system properties that Spark's driver gets.

        `drivers` gives the JVM that started this driver, None where none did.
        """
        self._settings, self._drivers = settings, drivers

    @property
    def options(self) -> list[str]:
        """The system properties that Spark's driver is given: realms (krb5.conf), addresses of tokens."""
        given = "" if self._settings is None else self._settings.spark.properties().get(OPTIONS, "")
        return [word for word in shlex.split(given) if word.startswith("-D")]

    def view(self) -> Any:  # noqa: ANN401 - of a JVM
        """Return the JVM, started where none runs. Raises DependencyError: no Java, no jars, no pyspark."""
        with self._lock:
            if self._jvm is None or not _answers(self._jvm):
                with suppress(Exception):
                    # One that has ended cannot be asked to.
                    self._stack.close()
                drivers = self._drivers()
                self._jvm = drivers if drivers and _has_kafka(drivers) else self._own()
            return self._jvm

    def close(self) -> None:
        """End a JVM of ours."""
        with self._lock:
            self._jvm = None
            self._stack.close()

    def _own(self) -> Any:  # noqa: ANN401 - as above
        try:
            jars = resolve_spark_kafka(*installed_spark(), self._settings)
            return self._stack.enter_context(java_gateway(jars, self.options))
        except DependencyError as error:
            what = f"This login is made by Java's Kafka client. {error.what}"
            raise DependencyError(what, error.remedy) from None


def _answers(jvm: Any) -> bool:  # noqa: ANN401 - as above
    with suppress(Exception):
        return jvm.java.lang.System.nanoTime() is not None
    return False


def _has_kafka(jvm: Any) -> bool:  # noqa: ANN401 - as above
    with suppress(Exception):
        return class_named(jvm, CONTEXT) is not None
    return False


def class_named(jvm: Any, name: str) -> Any:  # noqa: ANN401 - as above
    """Return Java's class of a name, as Kafka's client finds classes."""
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    return jvm.java.lang.Class.forName(name, True, loader)  # noqa: FBT003 - Java's signature


LOGIN_JVM = LoginJvm()
"""One for the process: a login is made once and renewed for all clients."""
