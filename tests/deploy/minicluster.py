"""A real YARN and HDFS in one process on the loopback interface, from Maven's artifacts."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Self

import pytest

from rebalance_monitor.checkpoints.storage.hadoop_jvm import use_jvm
from rebalance_monitor.cluster.jars.ivy import Coordinate, cache_folder, resolve
from rebalance_monitor.cluster.jars.java import find_java
from rebalance_monitor.cluster.jars.shared_jvm import SHARED_JVM
from rebalance_monitor.config.load import load
from rebalance_monitor.lab.cluster.node import wait_until
from tests.cluster.support.kdc import HOST, PRINCIPAL, REALM, Kdc

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

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
LOGGING = """log4j.rootLogger=WARN,err
log4j.appender.err=org.apache.log4j.ConsoleAppender
log4j.appender.err.target=System.err
log4j.appender.err.layout=org.apache.log4j.PatternLayout
log4j.appender.err.layout.ConversionPattern=%d %p %c{1}: %m%n
"""
SITES = ("core-site.xml", "yarn-site.xml", "hdfs-site.xml")
MAIN = Path(__file__).parent / "java" / "Mini.java"
READY_S = 300.0
MEGABYTES = 6_144
TOKEN_RENEWED_MS, TOKEN_LIVES_MS = 60_000, 180_000


def secured(kdc: Kdc) -> dict[str, object]:
    """Kerberos for HDFS and YARN, with delegation tokens that are renewed each minute and end after three."""
    service, page = f"hdfs/{HOST}@{REALM}", f"HTTP/{HOST}@{REALM}"
    keytab, pages = kdc.add(service, "hdfs.keytab"), kdc.add(page, "http.keytab")
    principals = {
        "dfs.namenode": "keytab.file",
        "dfs.datanode": "keytab.file",
        "dfs.secondary.namenode": "keytab.file",
    }
    return {
        "hadoop.security.authentication": "kerberos",
        "hadoop.security.authorization": "true",
        "hadoop.kerberos.min.seconds.before.relogin": 1,
        **{f"{server}.kerberos.principal": service for server in principals},
        **{f"{server}.{file}": keytab for server, file in principals.items()},
        **{f"yarn.{server}.principal": service for server in ("resourcemanager", "nodemanager")},
        **{f"yarn.{server}.keytab": keytab for server in ("resourcemanager", "nodemanager")},
        "dfs.web.authentication.kerberos.principal": page,
        "dfs.web.authentication.kerberos.keytab": pages,
        "dfs.block.access.token.enable": "true",
        "dfs.data.transfer.protection": "authentication",
        # The ports of one machine's user; the protocol is protected by SASL all the same.
        "ignore.secure.ports.for.testing": "true",
        "dfs.namenode.delegation.token.renew-interval": TOKEN_RENEWED_MS,
        "dfs.namenode.delegation.token.max-lifetime": TOKEN_LIVES_MS,
        "mini.homes": "monitor",
    }


class MiniCluster:
    """A NameNode, a DataNode, and a ResourceManager with `nodes` NodeManagers; none of these where that is 0.

    `conf` is its configuration folder. kdc: whose principals everybody has; without one nobody logs in.
    """

    def __init__(self, folder: Path, nodes: int = 1, kdc: Kdc | None = None) -> None:
        self.folder, self.conf, self._nodes, self._kdc = folder, folder / "conf", nodes, kdc

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
            # A node of a mini cluster does not say that it ends.
            "yarn.nm.liveness-monitor.expiry-interval-ms": 20_000,
            "yarn.scheduler.capacity.root.queues": "default",
            "yarn.scheduler.capacity.root.default.capacity": 100,
            # An application master may have most of this one machine.
            "yarn.scheduler.capacity.maximum-am-resource-percent": 1.0,
        }
        if self._kdc is not None:
            limits |= secured(self._kdc)
        java = find_java()
        logging = self.folder / "log4j.properties"
        logging.write_text(LOGGING)
        command = [str(java.executable), "-Xmx768m", f"-Dlog4j.configuration={logging.as_uri()}"]
        command += [f"--add-opens={one}=ALL-UNNAMED" for one in OPENED]
        # Parts of it do not take what they are given, and ask the class path.
        servers = self.folder / "servers"
        write_site(servers, limits)
        command += ["-cp", os.pathsep.join(map(str, [servers, *jars])), str(MAIN), str(self.folder)]
        command += [str(written), str(self._nodes)]
        command += [f"{name}={value}" for name, value in limits.items()]
        realm = {} if self._kdc is None else self._kdc.environment
        environment = {**os.environ, "JAVA_HOME": str(java.home), "HADOOP_USER_NAME": "monitor", **realm}
        with (self.folder / "cluster.log").open("wb") as log:
            self._process = subprocess.Popen(
                command, cwd=self.folder, env=environment, stdout=log, stderr=log, stdin=subprocess.PIPE
            )
        came = wait_until(lambda: written.exists() or self._process.poll() is not None, READY_S, 0.5)
        if not came or not written.exists():
            self.__exit__()
            pytest.fail(self.log)
        for name in SITES:
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

    def node_of(self, pid: int) -> int:
        """The number of the node manager that started a process."""
        found = re.search(r"-nm-(\d+)_", str(Path(f"/proc/{pid}/cwd").resolve()))
        assert found is not None
        return int(found[1])

    def end_node(self, number: int) -> None:
        """End a node manager, and with it what runs there."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{number}\n".encode())
        self._process.stdin.flush()

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


@contextmanager
def our_jvm(
    hadoop: MiniCluster, kdc: Kdc, keytab: str = "monitor.keytab", principal: str = PRINCIPAL
) -> Iterator[None]:
    """Reach files as the verbs do: by a JVM of this process that has the keytab."""
    given = {
        "spark.kerberos.keytab": str(kdc.folder / keytab),
        "spark.kerberos.principal": principal,
        "spark.driver.extraJavaOptions": f"-Djava.security.krb5.conf={kdc.config}",
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HADOOP_CONF_DIR", str(hadoop.conf))
        SHARED_JVM.configure(load(flags={"spark": given}), lambda: None)
        use_jvm(SHARED_JVM.for_files)
        try:
            yield
        finally:
            use_jvm(lambda _: None)
            SHARED_JVM.close()


def write_site(folder: Path, values: Mapping[str, object]) -> None:
    """Write Hadoop's configuration files."""
    rows = (
        f"<property><name>{name}</name><value>{value}</value></property>" for name, value in values.items()
    )
    text = "\n".join(["<configuration>", *rows, "</configuration>"])
    folder.mkdir(parents=True, exist_ok=True)
    for name in SITES:
        (folder / name).write_text(text)


def processes() -> Iterator[tuple[int, str]]:
    """Every process of this machine with its command line."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            text = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
            if text.strip():
                yield int(path.parent.name), text
