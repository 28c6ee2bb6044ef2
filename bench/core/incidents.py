"""One group after the other stands empty that must not; a receiver is told of each by the job's alerts.

The records are written as they are, not by a coordinator: the load keeps each of those busy with loading.
"""

from __future__ import annotations

import json
import time
from collections import defaultdict
from typing import TYPE_CHECKING

from rebalance_monitor.decoders import coordinator_partition
from tests.chaos.support.rig import Record, inject
from tests.coordinator.support.timeline import Client, metadata
from tests.decoders.encode import group_key

if TYPE_CHECKING:
    from tests.alerts.support.fakes import WebhookFake

PREFIX = "always-"


class Incidents:
    """What is told of them comes to `hook`; `count` are begun."""

    def __init__(self, bootstrap: str, hook: WebhookFake, partitions: int) -> None:
        self._bootstrap, self._hook, self._partitions = bootstrap, hook, partitions
        self.count = 0

    def settings(self) -> dict[str, object]:
        """Give what the job's configuration says of the groups and of the receiver."""
        receiver = {"name": "hook", "webhook": {"url": self._hook.url, "per_minute": 600}}
        route = {"receiver": "hook", "group_wait": "0s", "group_interval": "1s", "group_by": ["group"]}
        return {
            "alerts": {"receivers": [receiver], "route": route},
            "detection": {"always_on": [f"{PREFIX}*"]},
        }

    def turn(self) -> None:
        """Let the incident under way be over, and the next one begin."""
        self.end()
        now = time.time_ns() // 1_000_000
        self.count += 1
        member = Client(f"{self._group}-1", (0,))
        self._write(metadata(1, [member], now), metadata(2, [], now))

    def end(self) -> None:
        """Delete the group that stands empty."""
        if self.count:
            self._write(None)

    def wrong(self) -> dict[str, list[str]]:
        """Give the groups that were not told just once as begun and just once as over: what was told."""
        told = defaultdict[str, list[str]](list)
        for call in list(self._hook.calls):
            body = json.loads(call.body)
            told[body["labels"].get("group", "")].append(body["phase"])
        groups = [f"{PREFIX}{number + 1}" for number in range(self.count)]
        return {group: told[group] for group in groups if told[group] != ["opened", "resolved"]}

    @property
    def _group(self) -> str:
        return f"{PREFIX}{self.count}"

    def _write(self, *values: bytes | None) -> None:
        shard = coordinator_partition(self._group, self._partitions)
        inject(self._bootstrap, [Record(shard, group_key(self._group), value) for value in values])
