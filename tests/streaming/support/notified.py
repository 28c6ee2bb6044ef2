"""Incidents that begin and end whatever befalls the job, and what its receiver was notified of.

A group that must never be empty falls empty, which is critical, and is deleted, which ends it. Awaited
incidents last until their beginning was told: both must be told. Others last as long as the dice say: they
may be over before any process could tell them, but what was told as begun must be told as over.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from rebalance_monitor.lab.cluster.node import wait_until
from rebalance_monitor.lab.cluster.quiet import quiet

if TYPE_CHECKING:
    import random
    from collections.abc import Iterable

    from rebalance_monitor.coordinator.findings.finding import Finding
    from tests.alerts.support.fakes import WebhookFake

TOPIC = "incidents"
PREFIX = "always-"
DETECTION = {"always_on": [f"{PREFIX}*"]}
# How long an incident may last that nobody waits for, s.
LASTS_S = 60.0
JOIN_S = 300.0


def alerts_to(hook: WebhookFake) -> dict[str, object]:
    """The `alerts` section of a job that tells `hook` of each group by itself."""
    return {
        "receivers": [{"name": "hook", "webhook": {"url": hook.url, "per_minute": 600}}],
        "route": {"receiver": "hook", "group_wait": "0s", "group_interval": "1s", "group_by": ["group"]},
    }


@dataclass(slots=True)
class Told:
    """What the receiver got of one thread: phase -> how often each key came; groups and incidents named."""

    phases: dict[str, Counter[str]] = field(default_factory=dict)
    groups: set[str] = field(default_factory=set)
    incidents: set[str] = field(default_factory=set)

    def take(self, body: dict[str, Any]) -> None:
        """Take one notification."""
        self.phases.setdefault(body["phase"], Counter())[body["key"]] += 1
        self.groups.add(body["labels"].get("group", ""))
        findings = [alert["finding"] for alert in body["alerts"]]
        self.incidents |= {finding["incident"] or finding["id"] for finding in findings}

    def keys(self, phase: str) -> int:
        """How many different notifications of this phase there were."""
        return len(self.phases.get(phase, ()))


def told_to(hook: WebhookFake) -> dict[str, Told]:
    """Thread -> what the receiver got of it."""
    found: dict[str, Told] = {}
    for call in list(hook.calls):
        body = json.loads(call.body)
        found.setdefault(body["thread"], Told()).take(body)
    return found


def none_open(hook: WebhookFake) -> bool:
    """Whether the receiver knows of each of these incidents that it is over, if it knows of it at all."""
    ours = [told for told in told_to(hook).values() if any(group.startswith(PREFIX) for group in told.groups)]
    return all("resolved" in told.phases for told in ours)


def repeated(threads: Iterable[Told]) -> int:
    """How many notifications came again with the key that they had before."""
    return sum(count - 1 for told in threads for keys in told.phases.values() for count in keys.values())


class Incidents(threading.Thread):
    """One incident after the other, until `ended`; `names` are their groups."""

    def __init__(
        self, bootstrap: str, hook: WebhookFake, name: str, dice: random.Random, *, awaited: bool
    ) -> None:
        super().__init__(daemon=True)
        self._cluster, self._hook, self._dice = bootstrap, hook, dice
        self._title, self._awaited = name, awaited
        self._admin = AdminClient(quiet(bootstrap))
        self.ended = threading.Event()
        self.names: list[str] = []
        self._open = ""

    def run(self) -> None:
        while not self.ended.is_set():
            group = f"{PREFIX}{self._title}-{len(self.names)}"
            self.names.append(group)
            self._empty(group)
            if self._awaited:
                while not self._is_told(group) and not self.ended.wait(0.5):
                    pass
            self.ended.wait(self._dice.uniform(0, LASTS_S / 10 if self._awaited else LASTS_S))
            if not self._awaited or self._is_told(group):
                self._remove()

    def finish(self, patience_s: float) -> bool:
        """End; wait for the opening where it is due, then for the end. Say whether both were notified."""
        self.ended.set()
        self.join(JOIN_S)
        if not self._awaited:
            return True
        told = wait_until(lambda: self._is_told(self.names[-1]), patience_s, 0.5)
        if self._open:
            self._remove()
        return told and wait_until(lambda: all(map(self._is_over, self.names)), patience_s, 0.5)

    def _is_told(self, group: str, phase: str = "opened") -> bool:
        return any(group in told.groups and phase in told.phases for told in told_to(self._hook).values())

    def _is_over(self, group: str) -> bool:
        return self._is_told(group, "resolved")

    def _empty(self, group: str) -> None:
        """Let a member join and leave."""
        consumer = Consumer({**quiet(self._cluster), "group.id": group})
        consumer.subscribe([TOPIC])
        assert wait_until(lambda: bool(consumer.poll(0.2) or consumer.assignment()), JOIN_S)
        consumer.commit(offsets=[TopicPartition(TOPIC, 0, 1)], asynchronous=False)
        consumer.close()
        self._open = group

    def _remove(self) -> None:
        self._admin.delete_consumer_groups([self._open])[self._open].result()
        self._open = ""


def prepare(bootstrap: str) -> None:
    """Make the topic that the groups read."""
    admin = AdminClient(quiet(bootstrap))
    for future in admin.create_topics([NewTopic(TOPIC, 1, 1)]).values():
        future.result()


def require_told_once(hook: WebhookFake, found: Iterable[Finding], must: set[str], may: set[str]) -> None:
    """Of the incidents in `found` those of `must` are notified as begun and as over, all others not twice.

    The same notification may come again where a kill left open whether it had arrived: with the same key.
    """
    threads = told_to(hook)
    incidents: dict[str, str] = {
        finding.group or "": finding.incident or "" for finding in found if finding.kind == "group_empty"
    }
    wrong = {
        (thread, phase): dict(told.phases[phase])
        for thread, told in threads.items()
        for phase in ("opened", "resolved")
        if told.keys(phase) > 1
    }
    assert wrong == {}
    named = Counter(incident for told in threads.values() for incident in told.incidents)
    assert {incident: count for incident, count in named.items() if count > 1} == {}
    of_group = {group: told for told in threads.values() for group in told.groups}
    for group in must:
        assert set(of_group[group].phases) == {"opened", "resolved"}, group
        assert of_group[group].incidents == {incidents[group]}
    for group in may & of_group.keys():
        assert "resolved" in of_group[group].phases, group
        assert of_group[group].incidents == {incidents[group]}
