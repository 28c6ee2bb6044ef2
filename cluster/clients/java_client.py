"""What Java's own Kafka client says of the properties, asked in a JVM of a second, without a connection.

Spark reads the topic with it, and nothing but itself knows all that it refuses: its parser of JAAS lines, its
PEM stores, the ranges of its numbers. Its jars are those of Spark's Kafka connector and of Spark.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rebalance_monitor.cluster.errors import DependencyError
from rebalance_monitor.cluster.jars.ivy import spark_jars_folder
from rebalance_monitor.cluster.jars.java import find_java
from rebalance_monitor.config.secrets import is_secret

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

LEAST_SECRET = 4
"""Parts of a secret from so many characters on are looked for in Java's words."""


def java_refusal(properties: Mapping[str, str], jars: Iterable[Path]) -> str:
    """Return why Java's client refuses the properties (in Java's names), "" where it takes them.

    Raises DependencyError where no Java is found, or no Kafka client among the jars.
    """
    from py4j.protocol import Py4JJavaError  # noqa: PLC0415 - comes with pyspark

    with java_gateway(jars) as jvm:
        given = jvm.java.util.HashMap()
        for name, value in properties.items():
            given.put(name, value)
        try:
            jvm.org.apache.kafka.clients.admin.Admin.create(given).close(jvm.java.time.Duration.ZERO)
        except Py4JJavaError as error:
            return _words(error.java_exception, properties)
        except TypeError:
            # So py4j says that there is no such class.
            raise DependencyError(
                "The jars of Spark's Kafka connector hold no Kafka client.", "Add kafka-clients to `jars:`."
            ) from None
    return ""


@contextmanager
def java_gateway(jars: Iterable[Path]) -> Iterator[Any]:
    """Start a JVM with Spark's jars and these, and give py4j's view of it. Raises DependencyError."""
    from py4j.java_gateway import (  # noqa: PLC0415 - comes with pyspark
        GatewayParameters,
        JavaGateway,
        launch_gateway,
    )

    folder = spark_jars_folder()
    port, token = launch_gateway(
        jarpath=str(next(folder.glob("py4j-*.jar"))),
        classpath=":".join([*map(str, jars), f"{folder}/*"]),
        javaopts=["-Xmx128m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"],
        java_path=str(find_java().executable),
        die_on_exit=True,
        enable_auth=True,
    )
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=token))
    try:
        yield gateway.jvm
    finally:
        gateway.shutdown()


def _words(error: Any, properties: Mapping[str, str]) -> str:  # noqa: ANN401 - of a JVM
    """Return the innermost message, or its class alone where it quotes a part of a secret."""
    while error.getCause() is not None:
        error = error.getCause()
    words = str(error.getMessage() or "")
    secrets = " ".join(value for name, value in properties.items() if is_secret(name))
    quoted = {part for part in re.findall(r"[^\s\"'=;]+", secrets) if len(part) >= LEAST_SECRET}
    kind = str(error.getClass().getSimpleName())
    return kind if any(part in words for part in quoted) or not words else words.rstrip(".")
