"""Java workers: which sources and jars they are made of, and the command that runs them.

Each is one source file beside the shared `Life.java`. They are compiled once per source text: single-file
launching would compile at every start, seconds of CPU that a small machine feels in its faults.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from rebalance_monitor.cluster.errors import DependencyError
from rebalance_monitor.cluster.jars.ivy import Coordinate, cache_folder, resolve
from rebalance_monitor.cluster.jars.jars import broker_coordinates
from rebalance_monitor.cluster.jars.java import find_java

SOURCES = Path(__file__).parent / "java"
CLIENTS = "4.1.1"
# Worker -> what it needs beside a logging binding: folder of the jar cache, artifacts of org.apache.kafka.
ARTIFACTS = {
    "ConsumerWorker": (f"kafka-{CLIENTS}", ("kafka_2.13",)),
    "ShareWorker": (f"kafka-{CLIENTS}", ("kafka_2.13",)),
    "StreamsWorker": (f"kafka-streams-{CLIENTS}", ("kafka-streams",)),
    "ConnectWorker": (f"kafka-connect-{CLIENTS}", ("connect-runtime", "connect-file", "connect-json")),
}
HEAP = {"ConnectWorker": "-Xmx192m", "ConsumerWorker": "-Xmx160m"}
LOG4J = """status=error
rootLogger.level=info
rootLogger.appenderRef.0.ref=err
appender.err.type=Console
appender.err.name=err
appender.err.target=SYSTEM_ERR
appender.err.layout.type=PatternLayout
appender.err.layout.pattern=%d{yyyy-MM-dd'T'HH:mm:ss.SSS}Z %p %c %m%n
"""


def jars_of(worker: str) -> list[Path]:
    """Give the jars of a worker, fetched once. Raises DownloadError, DependencyError."""
    folder, artifacts = ARTIFACTS[worker]
    wanted = [Coordinate("org.apache.kafka", name, CLIENTS) for name in artifacts]
    return resolve([*wanted, *broker_coordinates(CLIENTS)[1:]], cache_folder() / "jars" / folder)


def java_command(worker: str) -> list[str]:
    """Give the command that runs a worker, up to its own flags. Raises DependencyError (no JDK, no jars)."""
    classes = compiled(worker)
    jars = [str(classes), *map(str, jars_of(worker))]
    options = [HEAP.get(worker, "-Xmx96m"), "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    options += ["-Duser.timezone=UTC", f"-Dlog4j2.configurationFile={_logging(classes)}"]
    return [str(find_java(jdk=True).executable), *options, "-cp", os.pathsep.join(jars), worker]


def _logging(classes: Path) -> str:
    return (classes / "log4j2.properties").as_uri()


def compiled(worker: str) -> Path:
    """Compile a worker once per source text; give the folder of its classes."""
    sources = [SOURCES / "Life.java", SOURCES / f"{worker}.java"]
    digest = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:16]
    target = cache_folder() / "workers" / digest
    if target.is_dir():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(dir=target.parent))
    jars = os.pathsep.join(map(str, jars_of(worker)))
    javac = str(find_java(jdk=True).home / "bin" / "javac")
    command = [javac, "-nowarn", "-cp", jars, "-d", str(work), *map(str, sources)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise DependencyError(f"{worker} does not compile: {done.stderr.strip()[-500:]}")
    (work / "log4j2.properties").write_text(LOG4J, encoding="utf-8")
    try:
        work.rename(target)
    except OSError:
        # Another process was quicker; its classes are the same.
        shutil.rmtree(work, ignore_errors=True)
    return target
