"""A real YARN and HDFS in one process on the loopback interface, from Maven's artifacts."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path
from typing import Self

from rebalance_monitor.cluster.errors import DependencyError
from rebalance_monitor.cluster.ivy import Coordinate, cache_folder, resolve
from rebalance_monitor.cluster.java import find_java

VERSION = "3.4.1"
SOURCE = Path(__file__).parent / "MiniCluster.java"
SCHEDULER = "org.apache.hadoop.yarn.server.resourcemanager.scheduler.fifo.FifoScheduler"
# What it needs beside what its own description names.
UNSAID = (
    Coordinate("org.slf4j", "slf4j-reload4j", "1.7.36"),
    Coordinate("org.bouncycastle", "bcpkix-jdk18on", "1.78.1"),
    Coordinate("org.glassfish.jaxb", "jaxb-runtime", "2.3.9"),
    Coordinate("javax.xml.bind", "jaxb-api", "2.3.1"),
)
OPENS = "--add-opens=java.base/java.lang=ALL-UNNAMED"
READY_S = 180.0
MEGABYTES = 6_144


class MiniCluster:
    """One NameNode, DataNode, ResourceManager and NodeManager; `conf` is its configuration folder."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.conf = folder, folder / "conf"

    def __enter__(self) -> Self:
        jars = resolve(
            [Coordinate("org.apache.hadoop", "hadoop-client-minicluster", VERSION), *UNSAID],
            cache_folder() / "jars" / f"hadoop-minicluster-{VERSION}-java17",
        )
        self.conf.mkdir(parents=True)
        written = self.conf / "core-site.xml"
        limits = {
            "yarn.nodemanager.resource.memory-mb": MEGABYTES,
            "yarn.scheduler.maximum-allocation-mb": MEGABYTES,
            "yarn.scheduler.minimum-allocation-mb": 128,
            "yarn.resourcemanager.scheduler.class": SCHEDULER,
            "yarn.nodemanager.vmem-check-enabled": "false",
            "yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage": 99,
            "yarn.resourcemanager.am.max-attempts": 5,
            "yarn.nodemanager.delete.debug-delay-sec": 600,
        }
        java = find_java()
        if not (java.home / "bin" / "javac").exists():
            raise DependencyError(f"{java.home} has no compiler.", "`make deps-ci` installs a JDK.")
        classes = os.pathsep.join(map(str, jars))
        command = [str(java.executable), "-Xmx768m", OPENS, "-cp", classes, str(SOURCE), str(written)]
        command += [f"{name}={value}" for name, value in limits.items()]
        environment = {**os.environ, "JAVA_HOME": str(java.home), "HADOOP_USER_NAME": "monitor"}
        with (self.folder / "cluster.log").open("wb") as log:
            self._process = subprocess.Popen(
                command, cwd=self.folder, env=environment, stdout=log, stderr=log, stdin=subprocess.PIPE
            )
        deadline = time.monotonic() + READY_S
        while not written.exists():
            assert self._process.poll() is None, self.log
            assert time.monotonic() < deadline, self.log
            time.sleep(0.5)
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

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
