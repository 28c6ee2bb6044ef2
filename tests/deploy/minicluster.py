"""A real YARN and HDFS in one process on the loopback interface, from Maven's artifacts."""

from __future__ import annotations

import os
import subprocess
import time
from typing import TYPE_CHECKING, Self

from rebalance_monitor.cluster.ivy import Coordinate, cache_folder, resolve
from rebalance_monitor.cluster.java import find_java

if TYPE_CHECKING:
    from pathlib import Path

VERSION = "3.4.1"
MAIN = "org.apache.hadoop.mapreduce.MiniHadoopClusterManager"
READY_S = 180.0
MEGABYTES = 6_144


class MiniCluster:
    """One NameNode, DataNode, ResourceManager and NodeManager; `conf` is its configuration folder."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.conf = folder, folder / "conf"

    def __enter__(self) -> Self:
        jars = resolve(
            [Coordinate("org.apache.hadoop", "hadoop-client-minicluster", VERSION)],
            cache_folder() / "jars" / f"hadoop-minicluster-{VERSION}",
        )
        self.conf.mkdir(parents=True)
        written = self.conf / "core-site.xml"
        limits = {
            "yarn.nodemanager.resource.memory-mb": MEGABYTES,
            "yarn.scheduler.maximum-allocation-mb": MEGABYTES,
            "yarn.scheduler.minimum-allocation-mb": 128,
            "yarn.nodemanager.vmem-check-enabled": "false",
            "yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage": 99,
            "yarn.resourcemanager.am.max-attempts": 5,
            "yarn.nodemanager.delete.debug-delay-sec": 600,
        }
        java = find_java()
        command = [str(java.executable), "-Xmx768m", "-cp", os.pathsep.join(map(str, jars)), MAIN]
        command += ["-format", "-datanodes", "1", "-nodemanagers", "1", "-writeConfig", str(written)]
        command += [f"-D{name}={value}" for name, value in limits.items()]
        environment = {**os.environ, "JAVA_HOME": str(java.home), "HADOOP_USER_NAME": "monitor"}
        with (self.folder / "cluster.log").open("wb") as log:
            self._process = subprocess.Popen(
                command, cwd=self.folder, env=environment, stdout=log, stderr=log, stdin=subprocess.PIPE
            )
        deadline = time.monotonic() + READY_S
        while not written.exists() or not written.read_text().rstrip().endswith("</configuration>"):
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
