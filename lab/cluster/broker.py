"""A real local Kafka cluster for tests, the demo and the accuracy suite: one KRaft node, or several.

`with LabBroker(version="4.1.1") as broker: broker.bootstrap` starts a cluster and stops it at the end.
`up`, `running` and `down` are the same thing detached: the cluster outlives the caller and is found again by
the state file in its folder. A state file whose processes are gone blocks nothing.
"""

from __future__ import annotations

import base64
import json
import secrets
import shutil
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Self

from confluent_kafka import Consumer, KafkaException, TopicPartition

from rebalance_monitor.cluster.errors import DependencyError
from rebalance_monitor.cluster.jars.jars import release, resolve_kafka_broker
from rebalance_monitor.lab.cluster.node import Node, free_ports, is_free
from rebalance_monitor.lab.cluster.properties import HOST, Address, Shape
from rebalance_monitor.lab.cluster.proxy import Proxy
from rebalance_monitor.lab.cluster.quiet import quiet

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

DEFAULT_VERSION = "4.1.1"
READY_S = 120.0
STATE_FILE = "lab.json"


class LabBroker:
    """A lab cluster in one folder. `folder=None` takes a temporary one, removed at the end.

    `version` may end in `+new`: a 3.7 to 3.9 with the new (Java) coordinator. `port=0` takes free ports;
    otherwise node i listens on `port + i`. `settings` are broker properties. `cluster_id`: 22 characters
    of base64, "" for one of its own. `away_ms`: how much longer a round trip to `proxied_bootstrap` takes.
    The other keyword arguments are fields of `Shape`.
    """

    def __init__(
        self,
        version: str = DEFAULT_VERSION,
        folder: Path | None = None,
        *,
        port: int = 0,
        nodes: int = 1,
        settings: Mapping[str, str] | None = None,
        offsets_partitions: int = 50,
        initial_delay_ms: int = 0,
        proxied: bool = False,
        away_ms: float = 0.0,
        cluster_id: str = "",
        jvm: Sequence[str] = (),
    ) -> None:
        self._temporary = folder is None
        self.folder = (folder or Path(tempfile.mkdtemp(prefix="rebalance-monitor-lab-"))).resolve()
        self.name = version
        self.version, _, coordinator = version.partition("+")
        if coordinator:
            settings = {**_coordinator(version), **(settings or {})}
        self.shape = Shape(
            version=release(self.version),
            nodes=nodes,
            offsets_partitions=offsets_partitions,
            initial_delay_ms=initial_delay_ms,
            proxied=proxied or away_ms > 0,
            extra=dict(settings or {}),
            jvm=tuple(jvm),
        )
        self._port, self._away_ms = port, away_ms
        self._new_id = cluster_id or base64.urlsafe_b64encode(secrets.token_bytes(16)).decode().rstrip("=")
        self.nodes: list[Node] = []
        self.proxies: list[Proxy] = []

    @property
    def bootstrap(self) -> str:
        """The bootstrap servers of the cluster, `127.0.0.1:port`, comma-separated."""
        return ",".join(f"{HOST}:{node.address.port}" for node in self.nodes)

    @property
    def proxied_bootstrap(self) -> str:
        """The bootstrap servers as seen through the proxies; "" where there are none."""
        return ",".join(f"{HOST}:{node.address.proxied[1]}" for node in self.nodes if node.address.proxied[1])

    @property
    def coordinator_logs(self) -> list[Path]:
        """The coordinator log of every node."""
        return [node.coordinator_log for node in self.nodes]

    def start(self, *, leashed: bool = False, note: Callable[[], None] = lambda: None) -> Self:
        """Start every node and wait until the cluster answers and can coordinate groups.

        Leashed nodes end with this process. `note` is called as soon as there is another process. Raises
        DependencyError: no Java, no jars, a port in use, or a node that ended (with its last lines).
        """
        resolve_kafka_broker(self.version)
        addresses = self._addresses()
        jvm = self.shape.jvm
        self.nodes = [Node(self.folder / f"node-{a.node}", self.version, a, jvm=jvm) for a in addresses]
        try:
            for node in self.nodes:
                node.prepare(self.shape, addresses, self._cluster_id() or self._new_id)
            for node in self.nodes:
                node.start(leashed=leashed)
                note()
            self.wait_ready()
            self._open_proxies()
        except BaseException:
            self.stop()
            raise
        return self

    def _open_proxies(self) -> None:
        for node in self.nodes:
            behind, port = node.address.proxied
            if port:
                self.proxies.append(Proxy(port, behind, self._away_ms).open())

    def _cluster_id(self) -> str | None:
        for node in self.nodes:
            with suppress(OSError):
                lines = (node.data / "meta.properties").read_text(encoding="utf-8").splitlines()
                return next(line.partition("=")[2] for line in lines if line.startswith("cluster.id="))
        return None

    def _addresses(self) -> list[Address]:
        count = self.shape.nodes
        ports = [self._port + i for i in range(count)] if self._port else free_ports(count)
        for port in ports:
            if not is_free(port):
                raise DependencyError(f"Port {port} is in use.", "Choose another with --port, or none.")
        others = [p for p in free_ports(4 * count) if p not in ports]
        behind = [(others.pop(), others.pop()) if self.shape.proxied else (0, 0) for _ in ports]
        return [
            Address(i + 1, port, controller, pair)
            for i, (port, controller, pair) in enumerate(zip(ports, others, behind, strict=False))
        ]

    def wait_ready(self, timeout_s: float = READY_S) -> None:
        """Wait until all nodes are registered and the offsets topic exists; DependencyError after that."""
        deadline = time.monotonic() + timeout_s
        # librdkafka backs off between attempts; a fresh client per attempt is quicker than one patient one.
        while time.monotonic() < deadline:
            for node in self.nodes:
                if not node.is_running():
                    raise DependencyError(f"The lab broker ended while starting:\n{node.last_lines()}")
            if self._answers():
                return
            time.sleep(0.2)
        raise DependencyError(
            f"The lab broker did not become ready within {timeout_s:.0f} s.",
            f"Its logs lie in {self.folder}.",
        )

    def _answers(self) -> bool:
        # Asking for a group's offsets makes the broker create __consumer_offsets; nothing is joined or
        # written. (Describing the group would do too, but librdkafka may abort when that is cut short.)
        consumer = Consumer({**quiet(self.bootstrap), "group.id": "lab-is-it-ready"})
        try:
            if len(consumer.list_topics(timeout=3).brokers) < len(self.nodes):
                return False
            consumer.committed([TopicPartition("lab-is-it-ready", 0)], timeout=10)
        except KafkaException:
            return False
        finally:
            consumer.close()
        return True

    def stop(self) -> None:
        """Stop every node cleanly; remove the folder if it is a temporary one."""
        while self.proxies:
            self.proxies.pop().close()
        for node in self.nodes:
            node.stop()
        if self._temporary:
            shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self.start(leashed=True)

    def __exit__(self, *_: object) -> None:
        self.stop()

    def state(self) -> dict[str, object]:
        """Give what `lab status` shows and `running` reads: version, bootstrap, folder, nodes."""
        return {
            "version": self.name,
            "bootstrap": self.bootstrap,
            "folder": str(self.folder),
            "nodes": [
                {
                    "node": node.address.node,
                    "port": node.address.port,
                    "controller_port": node.address.controller_port,
                    "pid": node.pid,
                    "running": node.is_running(),
                    "coordinator_log": str(node.coordinator_log),
                }
                for node in self.nodes
            ],
        }


def _coordinator(version: str) -> dict[str, str]:
    number, _, coordinator = version.partition("+")
    if coordinator != "new" or not (3, 7) <= release(number) < (4, 0):
        raise DependencyError(
            f"`{version}` is not a Kafka version of the lab.", "Only 3.7 to 3.9 have a choice: 3.9.1+new."
        )
    protocols = "group.coordinator.rebalance.protocols"
    return {"group.coordinator.new.enable": "true", protocols: "classic,consumer"}


def up(broker: LabBroker) -> LabBroker:
    """Start `broker` detached, unless one runs in its folder already: then give that one."""
    found = running(broker.folder)
    if found is not None:
        return found
    try:
        # Written from the first process on, so that `down` knows one whose start was cut short.
        broker.start(note=lambda: _write_state(broker))
    except BaseException:
        (broker.folder / STATE_FILE).unlink(missing_ok=True)
        raise
    return broker


def _write_state(broker: LabBroker) -> None:
    path = broker.folder / STATE_FILE
    path.with_suffix(".tmp").write_text(json.dumps(broker.state(), indent=1), encoding="utf-8")
    path.with_suffix(".tmp").rename(path)


def running(folder: Path) -> LabBroker | None:
    """Give the detached cluster of `folder` if any of its nodes runs; None otherwise."""
    try:
        state = json.loads((folder / STATE_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    broker = LabBroker(state["version"], folder, nodes=len(state["nodes"]))
    broker.nodes = [
        Node(
            broker.folder / f"node-{entry['node']}",
            broker.version,
            Address(entry["node"], entry["port"], entry["controller_port"]),
            entry["pid"],
        )
        for entry in state["nodes"]
    ]
    return broker if any(node.is_running() for node in broker.nodes) else None


def down(folder: Path, *, keep_data: bool = False) -> bool:
    """Stop the detached cluster of `folder`; False if none ran. The data goes too unless kept."""
    found = running(folder)
    if found is not None:
        found.stop()
    if not keep_data and (folder / STATE_FILE).exists():
        for node in folder.glob("node-*"):
            shutil.rmtree(node, ignore_errors=True)
    (folder / STATE_FILE).unlink(missing_ok=True)
    return found is not None
