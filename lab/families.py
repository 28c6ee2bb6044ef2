"""The client families of the lab: which worker plays them, with which flags of its own.

A family that cannot run here (a Java worker where only a runtime is installed, a library that is absent) is
skipped with the reason, never silently.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from rebalance_monitor.cluster.errors import DependencyError
from rebalance_monitor.cluster.ivy import cache_folder
from rebalance_monitor.cluster.jars import resolve_kafka_broker
from rebalance_monitor.cluster.java import find_java

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rebalance_monitor.lab.workers.flags import Flags

JAVA_SOURCE = Path(__file__).parent / "workers" / "java" / "ConsumerWorker.java"
JAVA_CLIENTS = "4.1.1"
LOG4J = """status=error
rootLogger.level=info
rootLogger.appenderRef.0.ref=err
appender.err.type=Console
appender.err.name=err
appender.err.target=SYSTEM_ERR
appender.err.layout.type=PatternLayout
appender.err.layout.pattern=%d{yyyy-MM-dd'T'HH:mm:ss.SSS}Z %p %c %m%n
"""


@dataclass(frozen=True, slots=True)
class Family:
    """One client family. `library` is the module it needs ("" for Java), `flags` what it sets itself."""

    name: str
    worker: str
    library: str
    flags: Mapping[str, str] = field(default_factory=dict)
    needs_broker: tuple[int, ...] = (0,)

    @property
    def is_java(self) -> bool:
        """Whether the worker is a JVM, of which only few fit on a machine at once."""
        return not self.library

    @property
    def group_type(self) -> str:
        """The type of its groups as findings name it: classic or consumer."""
        return self.flags.get("protocol", "classic")


def _python(name: str, worker: str, library: str, since: tuple[int, ...] = (0,), **flags: str) -> Family:
    return Family(name, f"rebalance_monitor.lab.workers.{worker}", library, flags, since)


def _java(name: str, since: tuple[int, ...] = (0,), **flags: str) -> Family:
    return Family(name, "ConsumerWorker", "", flags, since)


FAMILIES = {
    family.name: family
    for family in (
        _python("confluent", "confluent", "confluent_kafka", assignor="range"),
        _python("confluent-cooperative", "confluent", "confluent_kafka", assignor="cooperative-sticky"),
        _python("confluent-848", "confluent", "confluent_kafka", (4, 0), protocol="consumer"),
        _python("kafka-python", "kafkapython", "kafka", assignor="range"),
        _python("aiokafka", "aio", "aiokafka", assignor="roundrobin"),
        _java("java-range", assignor="range"),
        _java("java-sticky", assignor="sticky"),
        _java("java-cooperative", assignor="cooperative-sticky"),
        _java("java-848", (4, 0), protocol="consumer"),
    )
}


def why_not(family: Family, broker: tuple[int, ...]) -> str | None:
    """Give the reason why this family cannot run here against that broker; None if it can."""
    if broker < family.needs_broker:
        return f"needs a broker from {'.'.join(map(str, family.needs_broker))} on"
    if not family.is_java:
        missing = importlib.util.find_spec(family.library) is None
        return f"the Python package {family.library} is not installed" if missing else None
    try:
        find_java(jdk=True)
    except DependencyError as error:
        return error.what
    return None


def command(family: Family, flags: Flags) -> list[str]:
    """Give the command that starts a worker of this family. Raises DependencyError (no JDK, no jars)."""
    if not family.is_java:
        return [sys.executable, "-m", family.worker, *flags.arguments()]
    classes = compiled_worker()
    jars = [str(classes), *map(str, resolve_kafka_broker(JAVA_CLIENTS))]
    options = ["-Xmx96m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Duser.timezone=UTC"]
    options.append(f"-Dlog4j2.configurationFile={(classes / 'log4j2.properties').as_uri()}")
    java = str(find_java(jdk=True).executable)
    return [java, *options, "-cp", os.pathsep.join(jars), family.worker, *flags.arguments()]


def compiled_worker() -> Path:
    """Compile the Java worker once per source text; give the folder of its classes."""
    # Single-file launching compiles at every start: seconds of CPU that a small machine feels in its faults.
    digest = hashlib.sha256(JAVA_SOURCE.read_bytes()).hexdigest()[:16]
    target = cache_folder() / "workers" / digest
    if target.is_dir():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(dir=target.parent))
    jars = os.pathsep.join(map(str, resolve_kafka_broker(JAVA_CLIENTS)))
    javac = str(find_java(jdk=True).home / "bin" / "javac")
    subprocess.run([javac, "-nowarn", "-cp", jars, "-d", str(work), str(JAVA_SOURCE)], check=True)
    (work / "log4j2.properties").write_text(LOG4J, encoding="utf-8")
    try:
        work.rename(target)
    except OSError:
        # Another process was quicker; its classes are the same.
        shutil.rmtree(work, ignore_errors=True)
    return target
