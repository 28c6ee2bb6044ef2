"""A real YARN and HDFS in one process on the loopback interface, from Maven's artifacts."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Self

import pytest

from rebalance_monitor.cluster.jars.ivy import Coordinate, cache_folder, resolve
from rebalance_monitor.cluster.jars.java import find_java
from rebalance_monitor.lab.cluster.node import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

VERSION = "3.4.1"
# The mini cluster names neither its logging, nor its cryptography, nor what Java 11 took away.
NEEDED = [
    Coordinate("org.apache.hadoop", "hadoop-client-minicluster", VERSION),
    Coordinate("org.slf4j", "slf4j-reload4j", "1.7.36"),
    Coordinate("org.bouncycastle", "bcpkix-jdk18on", "1.78.1"),
    Coordinate("javax.xml.bind", "jaxb-api", "2.3.1"),
    Coordinate("org.glassfish.jaxb", "jaxb-runtime", "2.3.9"),
    Coordinate("javax.activation", "javax.activation-api", "1.2.0"),
]
OPENED = ("java.base/java.lang", "java.base/java.util", "java.base/java.net", "java.base/java.lang.reflect")
MAIN = Path(__file__).parent / "java" / "Mini.java"
READY_S = 300.0
MEGABYTES = 6_144


class MiniCluster:
    """A NameNode, a DataNode, and a ResourceManager with `nodes` NodeManagers; none of these where that is 0.

    `conf` is its configuration folder.
    """

    def __init__(self, folder: Path, nodes: int = 1) -> None:
        self.folder, self.conf, self._nodes = folder, folder / "conf", nodes

    def __enter__(self) -> Self:
        jars = resolve(NEEDED, cache_folder() / "jars" / f"hadoop-minicluster-{VERSION}-java17")
        self.conf.mkdir(parents=True)
        written = self.conf / "core-site.xml"
        limits = {
            # The node of a mini cluster has a property of its own.
            "yarn.minicluster.yarn.nodemanager.resource.memory-mb": MEGABYTES,
            "yarn.nodemanager.resource.memory-mb": MEGABYTES,
            "yarn.scheduler.maximum-allocation-mb": MEGABYTES,
            "yarn.scheduler.minimum-allocation-mb": 128,
            "yarn.nodemanager.vmem-check-enabled": "false",
            "yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage": 99,
            "yarn.resourcemanager.am.max-attempts": 5,
            "yarn.nodemanager.delete.debug-delay-sec": 600,
            "yarn.scheduler.capacity.root.queues": "default",
            "yarn.scheduler.capacity.root.default.capacity": 100,
            # An application master may have most of this one machine.
            "yarn.scheduler.capacity.maximum-am-resource-percent": 1.0,
        }
        java = find_java()
        command = [str(java.executable), "-Xmx768m"]
        command += [f"--add-opens={one}=ALL-UNNAMED" for one in OPENED]
        command += ["-cp", os.pathsep.join(map(str, jars)), str(MAIN), str(self.folder)]
        command += [str(written), str(self._nodes)]
        command += [f"{name}={value}" for name, value in limits.items()]
        environment = {**os.environ, "JAVA_HOME": str(java.home), "HADOOP_USER_NAME": "monitor"}
        with (self.folder / "cluster.log").open("wb") as log:
            self._process = subprocess.Popen(
                command, cwd=self.folder, env=environment, stdout=log, stderr=log, stdin=subprocess.PIPE
            )
        came = wait_until(lambda: written.exists() or self._process.poll() is not None, READY_S, 0.5)
        if not came or not written.exists():
            self.__exit__()
            pytest.fail(self.log)
        for name in ("yarn-site.xml", "hdfs-site.xml"):
            (self.conf / name).write_text(written.read_text())
        return self

    @property
    def log(self) -> str:
        return (self.folder / "cluster.log").read_text(errors="replace")[-3_000:]

    @property
    def file_system(self) -> str:
        """The address of HDFS."""
        text = (self.conf / "core-site.xml").read_text()
        at = text.index("<name>fs.defaultFS</name>")
        return text[at:].partition("<value>")[2].partition("</value>")[0]

    def runs(self, pid: int) -> bool:
        """Whether a process works in the folder of one of the containers."""
        with suppress(OSError):
            return Path(f"/proc/{pid}/cwd").resolve().is_relative_to(self.folder)
        return False

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        # Containers outlive the node that started them; their log folders are under this one.
        for pid, text in processes():
            if str(self.folder) in text or self.runs(pid):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


def processes() -> Iterator[tuple[int, str]]:
    """Every process of this machine with its command line."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            text = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
            if text.strip():
                yield int(path.parent.name), text
