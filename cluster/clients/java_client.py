"""What Java's own Kafka client says of the properties, asked in a JVM of a second, without a connection.

Spark reads the topic with it, and only the client itself knows all that it refuses: its parser of JAAS lines,
its PEM stores, the ranges of its numbers. Its jars are those of Spark's Kafka connector and of Spark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rebalance_monitor.cluster.errors import DependencyError
from rebalance_monitor.cluster.jars.gateway import java_gateway, words_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path


def java_refusal(properties: Mapping[str, str], jars: Iterable[Path], options: Sequence[str] = ()) -> str:
    """Return why Java's client refuses the properties (in Java's names), "" where it takes them.

    Raises DependencyError where no Java is found, or no Kafka client among the jars.
    """
    from py4j.protocol import Py4JJavaError  # noqa: PLC0415 - comes with pyspark

    with java_gateway(jars, options) as jvm:
        given = jvm.java.util.HashMap()
        for name, value in properties.items():
            given.put(name, value)
        try:
            jvm.org.apache.kafka.clients.admin.Admin.create(given).close(jvm.java.time.Duration.ZERO)
        except Py4JJavaError as error:
            return words_of(error.java_exception, properties)
        except TypeError:
            # So py4j says that there is no such class.
            raise DependencyError(
                "The jars of Spark's Kafka connector hold no Kafka client.", "Add kafka-clients to `jars:`."
            ) from None
    return ""
