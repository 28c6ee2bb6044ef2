"""The files a lab node is started with: server.properties and its logging configuration, per Kafka release.

Loopback only; time-outs low enough for tests that take seconds; the coordinator's log at INFO in a file of
its own, each line beginning with a UTC time in milliseconds, level and logger (`lab/truth/truth.py` reads
it).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

HOST = "127.0.0.1"
# The Scala coordinator, the Java one, and the runtime that loads and unloads its shards.
COORDINATOR_LOGGERS = (
    "kafka.coordinator.group",
    "org.apache.kafka.coordinator.group",
    "org.apache.kafka.coordinator.common.runtime",
)
# The JVM runs in UTC (lab/cluster/node.py), so no conversion stands here.
LAYOUT = "%d{yyyy-MM-dd'T'HH:mm:ss.SSS}Z %p %c %m%n"
SESSION_TIMEOUT_848_MS, HEARTBEAT_848_MS = 6_000, 1_000
SESSION_848, HEARTBEAT_848 = "group.consumer.session.timeout.ms", "group.consumer.heartbeat.interval.ms"
"""What sets the sessions and heartbeats of members of the consumer protocol."""
EPOCH_PROTOCOLS = ("consumer", "share", "streams")


@dataclass(frozen=True, slots=True)
class Shape:
    """The shape and timers of a lab cluster; times in ms.

    A `proxied` one has a second listener whose advertised port is a proxy's (lab/cluster/proxy.py). `extra`
    are broker properties that win over everything derived here, `jvm` more options of the brokers' JVMs.
    """

    version: tuple[int, ...]
    nodes: int = 1
    offsets_partitions: int = 50
    initial_delay_ms: int = 0
    session_timeout_848_ms: int = SESSION_TIMEOUT_848_MS
    heartbeat_848_ms: int = HEARTBEAT_848_MS
    proxied: bool = False
    extra: Mapping[str, str] = field(default_factory=dict)
    jvm: tuple[str, ...] = ()

    @property
    def features(self) -> tuple[str, ...]:
        """What a new cluster has switched on beside its release's defaults: previews, as `name=level`."""
        previews = (4, 1) <= self.version < (4, 2)
        return ("share.version=1", "streams.version=1") if previews else ()


@dataclass(frozen=True, slots=True)
class Address:
    """Where one node listens; `proxied` is the port behind a proxy and the proxy's own, (0, 0) if none."""

    node: int
    port: int
    controller_port: int
    proxied: tuple[int, int] = (0, 0)


def server_properties(shape: Shape, me: Address, everyone: list[Address], data: Path) -> str:
    """Give the text of one node's server.properties."""
    merged = {
        **_identity(me, everyone, data),
        **_proxied(me),
        **_topics(shape),
        **_groups(shape),
        **_patience(shape),
        **shape.extra,
    }
    return "".join(f"{key}={value}\n" for key, value in merged.items())


def _identity(me: Address, everyone: list[Address], data: Path) -> dict[str, str]:
    voters = ",".join(f"{node.node}@{HOST}:{node.controller_port}" for node in everyone)
    return {
        "process.roles": "broker,controller",
        "node.id": str(me.node),
        "controller.quorum.voters": voters,
        "controller.listener.names": "CONTROLLER",
        "listeners": f"PLAINTEXT://{HOST}:{me.port},CONTROLLER://{HOST}:{me.controller_port}",
        "advertised.listeners": f"PLAINTEXT://{HOST}:{me.port}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        "log.dirs": str(data),
    }


def _proxied(me: Address) -> dict[str, str]:
    behind, proxy = me.proxied
    if not proxy:
        return {}
    return {
        "listeners": f"PLAINTEXT://{HOST}:{me.port},CONTROLLER://{HOST}:{me.controller_port}"
        f",PROXIED://{HOST}:{behind}",
        "advertised.listeners": f"PLAINTEXT://{HOST}:{me.port},PROXIED://{HOST}:{proxy}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,PROXIED:PLAINTEXT",
    }


def _topics(shape: Shape) -> dict[str, str]:
    copies, in_sync = str(min(3, shape.nodes)), str(min(2, shape.nodes))
    internal = ("offsets.topic", "transaction.state.log", "share.coordinator.state.topic")
    return {
        **{f"{topic}.replication.factor": copies for topic in internal},
        "transaction.state.log.min.isr": in_sync,
        "share.coordinator.state.topic.min.isr": in_sync,
        "offsets.topic.num.partitions": str(shape.offsets_partitions),
        "transaction.state.log.num.partitions": "4",
        "share.coordinator.state.topic.num.partitions": "4",
        "auto.create.topics.enable": "false",
        "default.replication.factor": copies,
    }


def _groups(shape: Shape) -> dict[str, str]:
    found = {
        "group.initial.rebalance.delay.ms": str(shape.initial_delay_ms),
        "group.min.session.timeout.ms": "1000",
    }
    if shape.version >= (3, 7):
        for protocol in EPOCH_PROTOCOLS[: 1 if shape.version < (4, 1) else 3]:
            found |= _epoch_protocol(f"group.{protocol}", shape)
    if (3, 7) <= shape.version < (4, 0):
        found["group.coordinator.rebalance.protocols"] = "classic"
    if (4, 1) <= shape.version < (4, 2):
        found["group.coordinator.rebalance.protocols"] = "classic,consumer,share,streams"
        found["unstable.api.versions.enable"] = found["unstable.feature.versions.enable"] = "true"
    return found


def _epoch_protocol(prefix: str, shape: Shape) -> dict[str, str]:
    return {
        f"{prefix}.session.timeout.ms": str(shape.session_timeout_848_ms),
        f"{prefix}.min.session.timeout.ms": "1000",
        f"{prefix}.heartbeat.interval.ms": str(shape.heartbeat_848_ms),
        f"{prefix}.min.heartbeat.interval.ms": "100",
    }


def _patience(shape: Shape) -> dict[str, str]:
    # A lone broker on a starved machine must not be fenced: no other broker could take its groups over. After
    # a crash it may register only when the session of its former life has ended, so it must try for longer
    # than that.
    lone = {"broker.session.timeout.ms": "30000"} if shape.nodes == 1 else {}
    return {
        **lone,
        "initial.broker.registration.timeout.ms": "90000",
        "num.network.threads": "2",
        "num.io.threads": "4",
        "log.cleaner.threads": "1",
    }


def logging_options(version: tuple[int, ...], folder: Path) -> list[str]:
    """Write the logging configuration into `folder`; give the JVM options that select it."""
    modern = version >= (4, 0)
    path = folder / ("log4j2.properties" if modern else "log4j.properties")
    path.write_text(_log4j2(folder) if modern else _log4j1(folder), encoding="utf-8")
    key = "log4j2.configurationFile" if modern else "log4j.configuration"
    return [f"-D{key}={path.resolve().as_uri()}"]


def _log4j1(folder: Path) -> str:
    lines = ["log4j.rootLogger=INFO, server"]
    for name in ("server", "coordinator"):
        lines += [
            f"log4j.appender.{name}=org.apache.log4j.FileAppender",
            f"log4j.appender.{name}.File={folder}/{name}.log",
            f"log4j.appender.{name}.layout=org.apache.log4j.PatternLayout",
            f"log4j.appender.{name}.layout.ConversionPattern={LAYOUT}",
        ]
    lines += [f"log4j.logger.{logger}=INFO, coordinator" for logger in COORDINATOR_LOGGERS]
    return "\n".join(lines) + "\n"


def _log4j2(folder: Path) -> str:
    lines = ["status=error", "rootLogger.level=info", "rootLogger.appenderRef.0.ref=server"]
    for name in ("server", "coordinator"):
        lines += [
            f"appender.{name}.type=File",
            f"appender.{name}.name={name}",
            f"appender.{name}.fileName={folder}/{name}.log",
            f"appender.{name}.layout.type=PatternLayout",
            f"appender.{name}.layout.pattern={LAYOUT}",
        ]
    for index, logger in enumerate(COORDINATOR_LOGGERS):
        lines += [
            f"logger.c{index}.name={logger}",
            f"logger.c{index}.level=info",
            f"logger.c{index}.appenderRef.0.ref=coordinator",
        ]
    return "\n".join(lines) + "\n"
