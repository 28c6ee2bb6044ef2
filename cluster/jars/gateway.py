"""A JVM with Spark's jars and more, by py4j, and what its exceptions say."""

from __future__ import annotations

import re
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from rebalance_monitor.cluster.errors import DependencyError
from rebalance_monitor.cluster.jars.ivy import spark_jars_folder
from rebalance_monitor.cluster.jars.java import find_java
from rebalance_monitor.config.secrets import is_secret

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

REMEDY = "Install the extra `spark`, and Java 17 or 21."
LEAST_SECRET = 4
"""Parts of a secret from so many characters on are looked for in Java's words."""


def require_py4j() -> None:
    """Raise DependencyError where there is no py4j, by which Java is asked; it comes with pyspark."""
    if find_spec("py4j") is None:
        raise DependencyError("Java is asked through pyspark, which is not installed here.", REMEDY)


@contextmanager
def java_gateway(jars: Iterable[Path], options: Sequence[str] = ()) -> Iterator[Any]:
    """Start a JVM with Spark's jars and these, and give py4j's view of it. Raises DependencyError."""
    require_py4j()
    from py4j.java_gateway import (  # noqa: PLC0415 - comes with pyspark
        GatewayParameters,
        JavaGateway,
        launch_gateway,
    )

    folder = spark_jars_folder()
    port, token = launch_gateway(
        jarpath=str(next(folder.glob("py4j-*.jar"))),
        classpath=":".join([*map(str, jars), f"{folder}/*"]),
        javaopts=["-Xmx128m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", *options],
        java_path=str(find_java().executable),
        die_on_exit=True,
        enable_auth=True,
    )
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=token))
    try:
        yield gateway.jvm
    finally:
        gateway.shutdown()


def chain_of(error: Any) -> Iterator[str]:  # noqa: ANN401 - of a JVM
    """Yield the class and message of an error and of its causes, the outermost first."""
    while error is not None:
        yield f"{error.getClass().getSimpleName()}: {error.getMessage() or ''}"
        error = error.getCause()


def words_of(error: Any, properties: Mapping[str, str]) -> str:  # noqa: ANN401 - of a JVM
    """Return the innermost message, or its class alone where it quotes a part of a secret."""
    while error.getCause() is not None:
        error = error.getCause()
    words = str(error.getMessage() or "")
    secrets = " ".join(value for name, value in properties.items() if is_secret(name))
    quoted = {part for part in re.findall(r"[^\s\"'=;]+", secrets) if len(part) >= LEAST_SECRET}
    kind = str(error.getClass().getSimpleName())
    return kind if any(part in words for part in quoted) or not words else words.rstrip(".")
