"""One broker process of a lab cluster: format, start, wait, stop, kill.

The process runs in a session of its own (Ctrl-C in a terminal does not reach it) and is recognised by the
folder in its command line, so that a process number used again is never mistaken for it.
"""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from rebalance_monitor.cluster.errors import DependencyError
from rebalance_monitor.cluster.jars.jars import release, resolve_kafka_broker
from rebalance_monitor.cluster.jars.java import find_java
from rebalance_monitor.lab.cluster.leash import Leash
from rebalance_monitor.lab.cluster.properties import HOST, Address, Shape, logging_options, server_properties

if TYPE_CHECKING:
    from collections.abc import Callable

HEAP = "-Xmx512m"
# Quick to start and light on two cores; a lab broker never runs hot code for long.
JVM_OPTIONS = (
    HEAP,
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Duser.timezone=UTC",
    "-Djava.awt.headless=true",
)
STOP_S = 20.0
# Below the ports that systems lend to outgoing connections (Linux from 32768 on): such a port may be lent to
# anybody before its broker listens, or while it restarts.
PORTS = range(20_000, 30_000)


@dataclass(slots=True)
class Node:
    """One broker: its folder, its address, and the process while one runs."""

    folder: Path
    version: str
    address: Address
    pid: int | None = None
    jvm: tuple[str, ...] = ()
    _child: subprocess.Popen[bytes] | None = None
    _leash: Leash | None = None
    _started: float = 0.0

    @property
    def data(self) -> Path:
        """The folder of the node's logs (Kafka's data)."""
        return self.folder / "data"

    @property
    def coordinator_log(self) -> Path:
        """The coordinator's log, kept over restarts."""
        return self.folder / "coordinator.log"

    def prepare(self, shape: Shape, everyone: list[Address], cluster_id: str) -> None:
        """Write the node's files and format its storage where that has not been done."""
        self.folder.mkdir(parents=True, exist_ok=True)
        text = server_properties(shape, self.address, everyone, self.data)
        (self.folder / "server.properties").write_text(text, encoding="utf-8")
        if not (self.data / "meta.properties").exists():
            self._format(cluster_id, shape.features)
        # It holds the voters' addresses, and the ports of an earlier start may have been others.
        for quorum in self.data.glob("*metadata-0/quorum-state"):
            quorum.unlink()

    def _format(self, cluster_id: str, features: tuple[str, ...]) -> None:
        config = str(self.folder / "server.properties")
        # One word with its value: an id may begin with "-".
        command = self._java("kafka.tools.StorageTool", "format", f"--cluster-id={cluster_id}", "-c", config)
        command += [text for feature in features for text in ("--feature", feature)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
        if done.returncode:
            said = done.stderr.strip() or done.stdout.strip()
            raise DependencyError(f"Kafka {self.version} could not format {self.data}: {said}")

    def start(self, *, leashed: bool = False) -> None:
        """Start the process; it outlives the caller until `stop` or `kill`, unless it is leashed."""
        command = self._java("kafka.Kafka", str(self.folder / "server.properties"))
        self._started = time.monotonic()
        with (self.folder / "stdout.log").open("ab") as output:
            self._child = subprocess.Popen(
                command,
                stdout=output,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                cwd=self.folder,
            )
        self.pid = self._child.pid
        self._leash = Leash(self.pid) if leashed else None

    def _java(self, main: str, *arguments: str) -> list[str]:
        java = find_java()
        jars = os.pathsep.join(map(str, resolve_kafka_broker(self.version)))
        logging = logging_options(release(self.version), self.folder)
        options = [*JVM_OPTIONS, *self.jvm, f"-Dlab.node={self.folder}", *logging]
        return [str(java.executable), *options, "-cp", jars, main, *arguments]

    def up_s(self) -> float:
        """Give for how many seconds the process has worked, since this object started or resumed it."""
        return time.monotonic() - self._started if self.is_running() else 0.0

    def is_running(self) -> bool:
        """Return whether the process is there and is this node's."""
        if self._child is not None:
            return self._child.poll() is None
        return self.pid is not None and f"-Dlab.node={self.folder}" in command_line(self.pid)

    def stop(self, timeout_s: float = STOP_S) -> None:
        """Ask the process to end and wait; kill it when it does not within `timeout_s`."""
        self._signal(signal.SIGTERM)
        if not wait_until(lambda: not self.is_running(), timeout_s):
            self.kill()
        self._unleash()
        self.pid = None

    def kill(self) -> None:
        """End the process at once (SIGKILL), as a crash would."""
        self._signal(signal.SIGKILL)
        wait_until(lambda: not self.is_running(), STOP_S)
        self._unleash()

    def pause(self) -> None:
        """Stop the process in its tracks (SIGSTOP), as a machine does that is short of memory."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let a paused process go on (SIGCONT)."""
        self._signal(signal.SIGCONT)
        self._started = time.monotonic()

    def _unleash(self) -> None:
        if self._leash is not None:
            self._leash.release()
            self._leash = None

    def _signal(self, number: signal.Signals) -> None:
        if self.pid is not None and self.is_running():
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def last_lines(self, count: int = 8) -> str:
        """Give the end of the node's log, for a message that says why it did not start."""
        lines: list[str] = []
        for name in ("stdout.log", "server.log"):
            with suppress(OSError):
                lines += (self.folder / name).read_text(errors="replace").splitlines()[-count:]
        return "\n".join(lines)


def command_line(pid: int) -> str:
    """Give the command line of a process; "" if there is none (any more)."""
    proc = Path("/proc") / str(pid) / "cmdline"
    if proc.parent.parent.joinpath("self").exists():
        with suppress(OSError):
            return proc.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        return ""
    done = subprocess.run(
        ["ps", "-o", "command=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    return done.stdout


def wait_until(condition: Callable[[], bool], timeout_s: float, every_s: float = 0.1) -> bool:
    """Wait until `condition` holds; False when it does not within `timeout_s`."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() >= deadline:
            return False
        time.sleep(every_s)
    return True


def free_ports(count: int) -> list[int]:
    """Give `count` different free loopback ports, outside the range lent to outgoing connections.

    No other process is given them while this one lives.
    """
    shuffled = random.SystemRandom().sample(PORTS, len(PORTS))
    return list(islice((port for port in shuffled if is_free(port) and _reserve(port)), count))


def _reserve(port: int) -> bool:
    """Hold the datagram port of this number, which no broker uses, until the process ends."""
    held = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        held.bind((HOST, port))
    except OSError:
        held.close()
        return False
    held.detach()
    return True


def is_free(port: int) -> bool:
    """Return whether a listener could be opened on this loopback port."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
        return True
