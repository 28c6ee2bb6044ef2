"""What every fault is tried on: a real broker, a real job, groups that live, and the truth to compare with.

The truth is what the pure coordinator finds in the broker's topic once it is quiet: after every fault the
job must have told exactly that, each finding once, in its file and in its table.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urljoin

import httpx
import pyarrow.parquet as pq
import pytest
import yaml
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from rebalance_monitor.checkpoints.storage.lines import read_whole
from rebalance_monitor.coordinator.findings.finding import Finding, from_json
from rebalance_monitor.dashboard.tables.files import files
from rebalance_monitor.engine.storage import Storage
from rebalance_monitor.lab.cluster.node import wait_until
from rebalance_monitor.lab.suite.job import Job
from tests.streaming.support.undisturbed import (
    both,
    findings_of_topic,
    left_open,
    record_driven,
    require_by_samples,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

# The engine of every job.
ENGINE = os.environ.get("CHAOS_ENGINE", "spark")
needs_spark = pytest.mark.skipif(ENGINE != "spark", reason="the fault is one of Spark's own")
# How long anything may take; CHAOS_PATIENCE_S=900 for a machine that is busy with other things.
PATIENCE_S = float(os.environ.get("CHAOS_PATIENCE_S", "240"))
OFFSETS = "__consumer_offsets"
TOPIC = "chaos"
# What the command lines of Spark's Python workers and of its JVM hold.
WORKERS, JVM = "-m rebalance_monitor.streaming.spark.daemon", "org.apache.spark.deploy.SparkSubmit"


def of_faults(limit_s: float) -> list[pytest.MarkDecorator]:
    """Return the marks of a module that tries faults on a real job; each test takes `limit_s` at most."""
    mark = pytest.mark
    # A process that is killed closes nothing.
    unclosed = mark.filterwarnings("ignore:unclosed:ResourceWarning")
    return [mark.chaos, mark.spark, mark.broker, mark.timeout(limit_s), unclosed]


class Rig:
    """A job at `bootstrap` (through `seen_at`, if the job is to see another address) and its groups.

    Their topic has so many `partitions`, each on so many brokers (`copies`).
    """

    def __init__(
        self,
        bootstrap: str,
        folder: Path,
        settings: Mapping[str, object] | None = None,
        seen_at: str = "",
        partitions: int = 2,
        copies: int = 1,
    ) -> None:
        self.bootstrap, self.groups = bootstrap, set[str]()
        self.job = ChaosJob(seen_at or bootstrap, folder, settings or {})
        admin = AdminClient({"bootstrap.servers": bootstrap})
        if TOPIC not in admin.list_topics(timeout=10).topics:
            for future in admin.create_topics([NewTopic(TOPIC, partitions, copies)]).values():
                future.result()

    def pulse(self, *groups: str) -> None:
        """Let a member of each group join, commit and leave: a generation, and an empty one."""
        self.groups |= set(groups)
        for group in groups:
            consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": group})
            consumer.subscribe([TOPIC])
            join(consumer)
            consumer.commit(offsets=[TopicPartition(TOPIC, 0, 1)], asynchronous=False)
            consumer.close()

    def told(self) -> list[Finding]:
        """Every finding in the job's file; a line that is being written is left out."""
        lines = read_whole(Storage(self.job.storage).jsonl).decode().split("\n")
        return [from_json(line) for line in lines[:-1]]

    def health(self) -> list[str]:
        """What the job said about itself: `cause phase`."""
        return [f"{f.details['cause']} {f.phase}" for f in self.told() if f.kind == "monitor_degraded"]

    def causes(self) -> set[str]:
        """What was wrong with the monitor at any time, by its own account."""
        return {entry.split()[0] for entry in self.health()}

    def behind(self) -> list[Finding]:
        """What the job said about being behind, oldest first."""
        return [f for f in self.told() if f.details.get("cause") == "behind"]

    def metric(self, name: str) -> float:
        """The sum of one metric's samples, by the job's own page."""
        lines = httpx.get(urljoin(self.job.page() or "", "metrics"), timeout=10).text.splitlines()
        return sum(
            float(line.split()[-1]) for line in lines if line.startswith(f"rebalance_monitor_{name}{{")
        )

    def await_told(self, fits: Callable[[Finding], bool], patience_s: float = PATIENCE_S) -> Finding:
        found: list[Finding] = []

        def looks() -> bool:
            found[:] = [finding for finding in self.told() if fits(finding)]
            return bool(found)

        assert wait_until(looks, patience_s, 0.5), (
            [(f.group, f.kind.value, f.phase, f.details.get("cause")) for f in self.told()[-20:]],
            self.job.log[-4_000:],
        )
        return found[0]

    def completed(self, group: str) -> Finding:
        """Await a completed generation of `group`."""
        return self.await_told(lambda finding: finding.group == group and finding.kind == "rebalance")

    def is_well(self) -> bool:
        """Whether all that was wrong with the monitor is over."""
        health = self.health()
        return all(f"{entry.split()[0]} resolved" in health for entry in health)

    def require_truth(self) -> None:
        """The job has published what the topic holds: nothing lost, nothing doubled, in file and table."""
        found = findings_of_topic(self.bootstrap)
        assert record_driven(found, self.groups)

        def whole() -> bool:
            told, expected = both(self.told(), found, self.groups)
            return len(told) >= len(expected)

        wait_until(whole, PATIENCE_S, 0.5)
        told, expected = both(self.told(), found, self.groups)
        assert told == expected, sorted(set(told) ^ set(expected))
        require_by_samples(self.told(), found)
        assert wait_until(lambda: not left_open(self.told()), PATIENCE_S, 0.5), left_open(self.told())
        ids = [finding.id for finding in self.told()]
        assert len(set(ids)) == len(ids)
        # Of a batch that is being written one has it first.
        assert wait_until(self._table_is_file, PATIENCE_S, 0.5)

    def _table_is_file(self) -> bool:
        paths = files(Storage(self.job.storage).findings)
        tables = [pq.ParquetFile(BytesIO(path.read_bytes())).read(["id"]) for path in paths]
        rows = [i for table in tables for i in table["id"].to_pylist()]
        return sorted(rows) == sorted(finding.id for finding in self.told())


class ChaosJob(Job):
    """The job with settings of the fault's own; `log` is what it said so far."""

    def __init__(self, bootstrap: str, folder: Path, settings: Mapping[str, object]) -> None:
        self._more = dict(settings)
        self._bootstrap = bootstrap
        super().__init__(bootstrap, folder, {"behind_after": "10s"})

    def _settings(self, bootstrap: str) -> dict[str, object]:
        # Another monitor on this machine may have the page's usual port.
        return {**super()._settings(bootstrap), "engine": ENGINE, "web": {"port": 0}, **self._more}

    def move_to(self, python: Path, settings: Mapping[str, object]) -> None:
        """Run in another environment from the next start on, with settings that it needs."""
        self.python = str(python)
        self.set(settings)

    def set(self, settings: Mapping[str, object]) -> None:
        """Have these settings from the next start on, beside those of the fault."""
        tree = {**self._settings(self._bootstrap), **settings}
        self.config.write_text(yaml.safe_dump(tree), encoding="utf-8")

    def wait_ready(self, patience_s: float = PATIENCE_S) -> None:
        super().wait_ready(patience_s)

    def kill(self) -> None:
        """End driver, JVM and workers with no chance to say a word."""
        os.killpg(self.pid, signal.SIGKILL)

    def jvms(self) -> list[int]:
        """Spark's JVM, as soon as it is there."""
        return [pid for pid in self.below() if JVM in command_line(pid)]

    def rest(self) -> list[int]:
        """What is left of the job's processes, whoever is dead."""
        return [pid for pid in of_session(self.pid) if pid != self.pid]

    @property
    def code(self) -> int | None:
        """The exit code of the driver, None while it runs; less than 0 where a signal ended it."""
        return self._process.poll()

    @property
    def log(self) -> str:
        return (self._folder / "monitor.log").read_text(errors="replace")

    @property
    def pid(self) -> int:
        """The driver's process."""
        return self._process.pid

    def python_workers(self) -> list[int]:
        """Spark's Python workers: children of the daemon, itself a child of the JVM."""
        tree, below = children(), self.below()
        daemons = [pid for pid in below if WORKERS in command_line(pid)]
        return [pid for pid in daemons if any(pid in tree.get(daemon, []) for daemon in daemons)]

    def executors(self) -> list[int]:
        """The executors of a local cluster, which are JVMs of their own."""
        return [pid for pid in self.below() if "CoarseGrainedExecutorBackend" in command_line(pid)]

    def below(self) -> list[int]:
        """The driver and everything under it."""
        tree, below = children(), [self.pid]
        for parent in below:
            below += tree.get(parent, [])
        return below


class Proxy:
    """A TCP proxy in front of one address; `stalled` stops every byte without closing a connection."""

    def __init__(self, to: tuple[str, int], port: int) -> None:
        self._to, self.flows = to, threading.Event()
        self.flows.set()
        self._server = socket.create_server(("127.0.0.1", port))
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._server.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._server.accept()
                with suppress(OSError):
                    broker = socket.create_connection(self._to)
                    for one, other in ((client, broker), (broker, client)):
                        threading.Thread(target=self._pump, args=(one, other), daemon=True).start()

    def _pump(self, one: socket.socket, other: socket.socket) -> None:
        with suppress(OSError), one, other:
            while data := one.recv(65_536):
                self.flows.wait()
                other.sendall(data)


class Record(NamedTuple):
    """A record of the offsets topic; `at` in ms, 0 for now."""

    partition: int
    key: bytes | None
    value: bytes | None
    at: int = 0


def inject(bootstrap: str, records: Sequence[Record]) -> None:
    """Write into the offsets topic: brokers let only this client id do it."""
    producer = Producer(
        {"bootstrap.servers": bootstrap, "client.id": "__admin_client", "message.max.bytes": 50_000_000}
    )
    for record in records:
        producer.produce(OFFSETS, record.value, record.key, record.partition, timestamp=record.at)
        producer.poll(0)
    assert producer.flush(60) == 0


def join(consumer: Consumer) -> None:
    """Poll a subscribed consumer until it has partitions."""

    def has_joined() -> bool:
        consumer.poll(0.2)
        return bool(consumer.assignment())

    assert wait_until(has_joined, PATIENCE_S, 0.1)


def children() -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for pid, (_, parent, *_) in processes().items():
        found.setdefault(int(parent), []).append(pid)
    return found


def of_session(session: int) -> list[int]:
    """The processes of a session that are no zombies."""
    return [
        pid for pid, (state, _, _, its, *_) in processes().items() if int(its) == session and state != "Z"
    ]


def processes() -> dict[int, list[str]]:
    """Process id -> state, parent, process group, session, and what else /proc has."""
    found: dict[int, list[str]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, ValueError):
            found[int(path.parent.name)] = path.read_text().rpartition(")")[2].split()
    return found


def command_line(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    return ""
