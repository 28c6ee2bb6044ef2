"""Committed offsets of groups, as the brokers answer: one connection of kafka-python, made when it is needed.

librdkafka asks for one group a request. Nothing here raises: what a broker refuses is an answer too.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rebalance_monitor.cluster.clients.admin import ClusterAdmin
from rebalance_monitor.cluster.errors import DependencyError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rebalance_monitor.cluster.requests.fetch_offsets import Committed

TIMEOUT_MS = 4_000
NOT_CONNECTED = "_NOT_CONNECTED"


@dataclass(frozen=True, slots=True)
class Answers:
    """group -> its committed offsets; group -> why they are unknown."""

    offsets: dict[str, Committed] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)


class CommittedOffsets:
    """Asks the groups' coordinators. Not for several threads at once."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._properties = properties
        self._admin: ClusterAdmin | None = None

    def fetch(self, groups: Sequence[str]) -> Answers:
        """Ask for all committed offsets of these groups. Needs Describe on each."""
        try:
            self._admin = self._admin or ClusterAdmin(self._properties, TIMEOUT_MS, explains=False)
            answers = self._admin.committed_offsets(groups)
        except DependencyError:
            self.close()
            return Answers(refused=dict.fromkeys(groups, NOT_CONNECTED))
        refused = {group: why for group, why in answers.items() if isinstance(why, str)}
        if refused:
            # A coordinator that has moved is looked up by a new connection only.
            self.close()
        return Answers({group: one for group, one in answers.items() if not isinstance(one, str)}, refused)

    def close(self) -> None:
        """Close the connection; the next question makes another."""
        if self._admin is not None:
            with suppress(Exception):
                self._admin.close()
        self._admin = None
