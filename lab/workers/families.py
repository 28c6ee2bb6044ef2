"""The client families of the lab: which worker plays them, with which flags of its own.

A family that cannot run here (a library or a toolchain is absent, or only a Java runtime is installed) is
skipped with the reason, never silently.
"""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rebalance_monitor.cluster.errors import DependencyError
from rebalance_monitor.cluster.jars.java import find_java
from rebalance_monitor.lab.workers.flags import Flags
from rebalance_monitor.lab.workers.jvm import java_command
from rebalance_monitor.lab.workers.toolchains import go_command, node_command, why_no_go, why_no_node

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


@dataclass(frozen=True, slots=True)
class Family:
    """One client family.

    `language` says what its `worker` is: a Python module that needs `library`, a Java class, a client of the
    Go worker, or the Node worker. `flags` are what it sets itself. `only` names the scenarios that make sense
    with it, beside scenarios that name it themselves; nothing is all.
    """

    name: str
    worker: str
    language: str
    library: str = ""
    flags: Mapping[str, str] = field(default_factory=dict)
    needs_broker: tuple[int, ...] = (0,)
    only: tuple[str, ...] = ()

    @property
    def is_java(self) -> bool:
        """Whether the worker is a JVM, of which only few fit on a machine at once."""
        return self.language == "java"

    @property
    def group_type(self) -> str:
        """The type of its groups as findings name it: classic, consumer, share or streams."""
        return self.flags.get("protocol", "classic")


def _python(name: str, worker: str, library: str, since: tuple[int, ...] = (0,), **flags: str) -> Family:
    return Family(name, f"rebalance_monitor.lab.workers.{worker}", "python", library, flags, since)


def _java(
    name: str,
    since: tuple[int, ...] = (0,),
    worker: str = "ConsumerWorker",
    only: tuple[str, ...] = (),
    **flags: str,
) -> Family:
    return Family(name, worker, "java", "", flags, since, only)


SIMPLE = ("healthy", "clean-close", "sigkill", "freeze", "scale-out-in", "rolling-restart", "crash-loop")
STREAMS = (*SIMPLE, "slow-processing", "partitions-added", "static-restart", "static-gone", "network-cut")
NONE = ("",)
# What asks neither for static members nor for another subscription: these clients have neither.
PLAIN = (*SIMPLE, "network-cut", "leader-killed", "last-member-killed")


FAMILIES = {
    family.name: family
    for family in (
        _python("confluent", "confluent", "confluent_kafka", assignor="range"),
        _python("confluent-cooperative", "confluent", "confluent_kafka", assignor="cooperative-sticky"),
        _python("confluent-848", "confluent", "confluent_kafka", (4, 0), protocol="consumer"),
        _python("kafka-python", "kafkapython", "kafka", assignor="range"),
        _python("aiokafka", "aio", "aiokafka", assignor="roundrobin"),
        Family(
            "raw", "rebalance_monitor.lab.workers.raw", "python", "kafka", {"assignor": "range"}, (0,), NONE
        ),
        Family("sarama", "sarama", "go", "", {"assignor": "range"}),
        Family("franz-go", "franz-go", "go", "", {"assignor": "cooperative-sticky"}),
        Family("kafka-go", "kafka-go", "go", "", {"assignor": "range"}, only=PLAIN),
        Family("kafkajs", "kafkajs", "node", "", {"assignor": "roundrobin"}, only=PLAIN),
        _java("java-range", assignor="range"),
        _java("java-sticky", assignor="sticky"),
        _java("java-cooperative", assignor="cooperative-sticky"),
        _java("java-848", (4, 0), protocol="consumer"),
        _java("java-share", (4, 1), "ShareWorker", SIMPLE, protocol="share"),
        _java("streams", (0,), "StreamsWorker", STREAMS),
        _java("streams-1071", (4, 1), "StreamsWorker", (*SIMPLE, "slow-processing"), protocol="streams"),
        _java("connect", (0,), "ConnectWorker", SIMPLE, assignor="sessioned"),
    )
}


# No record holds its max.poll.interval; where it commits by hand, nothing shows that it stalls.
UNDISCLOSED = "aiokafka"
MANUAL = ", manual"
"""What a family's name ends with where its members commit by hand: their silences mean something else."""


IDLE = ", no traffic"
"""And where nothing is produced: a client that commits only what is new commits nothing."""


def plain(family: str) -> str:
    """Give the name of a family, however its members commit and whatever they get."""
    return family.removesuffix(IDLE).removesuffix(MANUAL)


def why_not(family: Family, broker: tuple[int, ...]) -> str | None:
    """Give the reason why this family cannot run here against that broker; None if it can."""
    if broker < family.needs_broker:
        return f"needs a broker from {'.'.join(map(str, family.needs_broker))} on"
    return _MISSING[family.language](family)


def why_not_built(family: Family) -> str | None:
    """Build what a worker of this family needs; give the reason where that is not possible."""
    try:
        command(family, Flags("", "", ""))
    except DependencyError as error:
        return error.what
    return None


def _no_library(family: Family) -> str | None:
    missing = importlib.util.find_spec(family.library) is None
    return f"the Python package {family.library} is not installed" if missing else None


def _no_java(_: Family) -> str | None:
    try:
        find_java(jdk=True)
    except DependencyError as error:
        return error.what
    return None


_MISSING: Mapping[str, Callable[[Family], str | None]] = {
    "python": _no_library,
    "java": _no_java,
    "go": lambda _: why_no_go(),
    "node": lambda _: why_no_node(),
}


def command(family: Family, flags: Flags) -> list[str]:
    """Give the command that starts a worker of this family. Raises DependencyError."""
    match family.language:
        case "python":
            return [sys.executable, "-P", "-m", family.worker, *flags.arguments()]
        case "java":
            return [*java_command(family.worker), *flags.spelled_out()]
        case "go":
            return [*go_command(family.worker), *flags.spelled_out()]
        case _:
            return [*node_command(), *flags.spelled_out()]
