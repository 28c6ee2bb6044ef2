"""The consumer group of one scenario: its topics and its worker processes, as steps act on them."""

from __future__ import annotations

import re
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING
from zlib import crc32

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from rebalance_monitor.lab.cluster.node import wait_until
from rebalance_monitor.lab.cluster.quiet import quiet
from rebalance_monitor.lab.scenario.processes import WorkerProcess
from rebalance_monitor.lab.workers.families import FAMILIES
from rebalance_monitor.lab.workers.flags import Flags, typed
from rebalance_monitor.lab.workers.toolchains import why_no_hosts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from rebalance_monitor.lab.cluster.broker import LabBroker
    from rebalance_monitor.lab.scenario.model import Scenario
    from rebalance_monitor.lab.scenario.traffic import Traffic
    from rebalance_monitor.lab.workers.families import Family


@dataclass(frozen=True, slots=True)
class Done:
    """A step that was done: at what wall time (ms), to which member ids."""

    at: int
    planned_s: float
    verb: str
    who: tuple[str, ...]
    member_ids: tuple[str, ...]


def hosts_of(group: str) -> Iterator[str]:
    """Give loopback addresses for the pods of a group, which no other group has."""
    net = crc32(group.encode())
    return (f"127.{net % 250 + 1}.{net // 250 % 250}.{number}" for number in range(10, 250))


class GroupRun:
    """The group of one scenario with one family, on a broker. `group` is its name."""

    def __init__(
        self,
        scenario: Scenario,
        family: Family,
        broker: LabBroker,
        traffic: Traffic,
        folder: Path,
        group: str,
    ) -> None:
        self.scenario = scenario
        self.family = family
        self.group = group
        self.folder = folder / group
        self.admin = AdminClient(quiet(broker.bootstrap))
        self.done: list[Done] = []
        self.ended = threading.Event()
        self.stopping = threading.Event()
        self.broker = broker
        self.errors: list[str] = []
        self._kept: list[object] = []
        self._traffic = traffic
        self._processes: dict[str, WorkerProcess] = {}
        self._hosts: dict[str, str] = {}
        self._free_hosts = hosts_of(group)

    @property
    def groups(self) -> list[str]:
        """The group, or all groups of the herd."""
        return [one.group for one in self.flags("", self.family, {}).each()]

    def topic(self, name: str) -> str:
        """Give the full name of a topic of this scenario; patterns stay patterns."""
        return f"^{self.group}[.]{name[1:]}" if name.startswith("^") else f"{self.group}.{name}"

    def create_topic(self, name: str, partitions: int) -> None:
        """Create one topic and give it traffic, if the scenario has any."""
        topic = self.topic(name)
        copies = min(3, len(self.broker.nodes))
        futures = self.admin.create_topics([NewTopic(topic, partitions, copies)], request_timeout=20)
        futures[topic].result(timeout=25)
        # A kafka-go leader that does not see the topic yet assigns nothing until the next rebalance.
        if not wait_until(lambda: self._led(topic) == partitions, 20):
            raise TimeoutError(f"{topic}: the brokers do not show {partitions} partitions with leaders")
        self._traffic.add(topic, partitions, self.scenario.traffic)

    def _led(self, topic: str) -> int:
        """Count the partitions that have a leader in the brokers' metadata."""
        try:
            found = self.admin.list_topics(topic, timeout=5).topics[topic].partitions.values()
        except KafkaException:
            return 0
        return sum(one.leader >= 0 for one in found)

    def delete_topic(self, name: str) -> None:
        """Delete one topic and end its traffic."""
        self._traffic.remove(self.topic(name))
        self.admin.delete_topics([self.topic(name)], request_timeout=20)[self.topic(name)].result(timeout=25)

    def keep(self, thing: object) -> None:
        """Keep something alive until the run is over."""
        self._kept.append(thing)

    def start(self, member: str, overrides: Mapping[str, str], *, elsewhere: bool = False) -> None:
        """Start one member unless it runs: on the host that it had, or `elsewhere`."""
        running = self._processes.get(member)
        if running is None or not running.alive:
            flags = dict(overrides)
            family = FAMILIES[flags.pop("family", self.family.name)]
            self._processes[member] = WorkerProcess(
                member,
                family,
                self.flags(member, family, flags),
                self.folder,
                self._host(member, elsewhere=elsewhere),
            )

    def _host(self, member: str, *, elsewhere: bool) -> str:
        if not self.scenario.hosts or why_no_hosts() is not None:
            return ""
        if elsewhere or member not in self._hosts:
            self._hosts[member] = next(self._free_hosts)
        return self._hosts[member]

    def flags(self, member: str, family: Family, overrides: Mapping[str, str]) -> Flags:
        """Return the flags of one member's worker."""
        scenario = self.scenario
        chosen = {
            "topics": ",".join(self.topic(name) for name in scenario.topics),
            "client_id": f"{self.group}-{member}",
            "instance_id": f"{self.group}-{member}" if scenario.static else "",
            "session_ms": str(scenario.session_ms),
            "poll_ms": str(max(scenario.poll_ms, scenario.session_ms)),
            **family.flags,
            **self._guest(family),
            **scenario.settings,
            **overrides,
        }
        if "topics" in overrides:
            chosen["topics"] = ",".join(self.topic(name) for name in overrides["topics"].split())
        bootstrap = self.broker.proxied_bootstrap if scenario.proxied else self.broker.bootstrap
        return Flags(bootstrap=bootstrap, group=self.group, **typed(chosen))

    def _guest(self, family: Family) -> dict[str, str]:
        """Give what a member of another family must share with this group to be let in."""
        own = self.family.flags.get("assignor")
        return {"assignor": own} if own and family.name == "raw" else {}

    def alive(self, who: Iterable[str]) -> list[WorkerProcess]:
        """Give the living processes of these members; `leader` is the one the broker's log names."""
        names = [self.leader() if name == "leader" else name for name in who]
        found = (self._processes.get(name) for name in names)
        return [process for process in found if process is not None and process.alive]

    def leader(self) -> str:
        """Return the member whose assignment the broker's log took last."""
        text = "".join(log.read_text(errors="replace") for log in self.broker.coordinator_logs)
        pattern = rf"Assignment received from leader (\S+) for group {re.escape(self.group)} for generation"
        chosen = re.findall(pattern, text)
        holders = (name for name, one in self._processes.items() if chosen and chosen[-1] in one.member_ids)
        return next(holders, self.scenario.members[0])

    def finish(self) -> None:
        """Close every member that still lives, and stop its traffic."""
        for process in self._processes.values():
            process.finish()
        self._kept.clear()
        for name in self.scenario.topics:
            self._traffic.remove(self.topic(name))

    def member_ids(self, member: str) -> tuple[str, ...]:
        """Return the newest member id of one member; empty where it never had one."""
        process = self._processes.get(member)
        return process.member_ids[-1:] if process is not None else ()
