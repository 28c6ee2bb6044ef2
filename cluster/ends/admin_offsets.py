"""ListOffsets for many partitions through kafka-python: for logins that librdkafka does not have.

The same contract as offsets.py, at some twenty times its CPU. Nothing here creates a topic, or raises for
what a broker refuses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from rebalance_monitor.cluster.clients.admin import ClusterAdmin
from rebalance_monitor.cluster.ends.offsets import Described, Offsets, Which
from rebalance_monitor.cluster.requests.list_offsets import EARLIEST, LATEST
from rebalance_monitor.cluster.requests.topology import Topic
from rebalance_monitor.coordinator.lag.ends import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

TIMEOUT_MS = 4_000
GONE = frozenset({"UNKNOWN_TOPIC_OR_PARTITION", "UNKNOWN_TOPIC_ID", "INVALID_TOPIC_EXCEPTION"})


class AdminOffsets:
    """One connection to the cluster; use as a context manager. Raises as ClusterAdmin."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._admin = ClusterAdmin(properties, TIMEOUT_MS, explains=False)
        self._known: dict[str, Topic] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._admin.close()

    def describe(self, topics: Collection[str]) -> Described:
        """Return which of the topics exist, with how many partitions. Needs Describe on each."""
        described = self._admin.describe_topics(sorted(topics))
        self._known |= {name: one for name, one in described.items() if isinstance(one, Topic)}
        wrong = {name: one for name, one in described.items() if isinstance(one, str)}
        return Described(
            {name: (one.partitions, one.id) for name, one in described.items() if isinstance(one, Topic)},
            frozenset(name for name, why in wrong.items() if why in GONE),
            {name: why for name, why in wrong.items() if why not in GONE},
        )

    def ends(self, topics: Mapping[str, int], which: Which = Which.LATEST) -> Offsets:
        """Return these offsets of all partitions of described topics."""
        known = {name: self._known[name] for name in topics if name in self._known}
        if not known:
            return Offsets()
        found = {name: [UNKNOWN] * count for name, count in topics.items()}
        errors: dict[str, int] = {}
        answers = self._admin.list_offsets(
            known, EARLIEST if which is Which.EARLIEST else LATEST, committed=which is Which.STABLE
        )
        for (name, partition), outcome in answers.items():
            if isinstance(outcome, str):
                errors[outcome] = errors.get(outcome, 0) + 1
            elif partition < len(found[name]):
                found[name][partition] = outcome
        return Offsets({name: tuple(offsets) for name, offsets in found.items()}, errors)
