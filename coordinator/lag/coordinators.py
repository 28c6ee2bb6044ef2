"""Coordinators that do not answer: no member of their groups can commit meanwhile, so no silence counts.

Ends come from the leaders of the topics, commits go to the group's coordinator: the leader of its partition
of the offsets topic. While that broker is away records arrive and no member can commit, however well the
members are. Such groups are not judged, and their windows begin anew when the coordinator is back.

The probe says which broker is away: a broker without an answer, or a partition without a leader, or with
another one than before. If a group of the partition commits all the same, clients reach what only the probe
does not.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from rebalance_monitor.coordinator.lag.arithmetic import SKEW_MS

NEVER = -1


class Sample(Protocol):
    """What matters here of a sample of the probe (`probe/sample.py`)."""

    @property
    def at(self) -> int:
        """Return when it was made (ms)."""

    @property
    def leaders(self) -> tuple[tuple[int, int, int], ...]:
        """Return partition of the offsets topic, broker (-1: none) and leader epoch of each."""

    @property
    def brokers(self) -> tuple[tuple[int, bool], ...]:
        """Return each broker, and whether it answered."""


class Leader(NamedTuple):
    """The leader of a partition of the offsets topic, and its epoch."""

    broker: int
    epoch: int


class Coordinators:
    """Follows the probe's samples and the newest commit of each partition of the offsets topic (shard)."""

    def __init__(self) -> None:
        self._leaders: dict[int, Leader] = {}
        self._away: dict[int, int] = {}
        self._committed: dict[int, int] = {}
        self._disturbed: set[int] = set()

    def on_sample(self, sample: Sample) -> None:
        """Take a sample of the probe."""
        answers = dict(sample.brokers)
        named = {shard: Leader(broker, epoch) for shard, broker, epoch in sample.leaders}
        for shard in self._leaders.keys() | named.keys():
            before, leader = self._leaders.get(shard), named.get(shard, self._leaders.get(shard))
            if leader is None or not self._answers(leader, answers):
                self._away.setdefault(shard, sample.at)
                continue
            self._leaders[shard] = leader
            if self._away.pop(shard, NEVER) != NEVER or before not in {None, leader}:
                self._disturbed.add(shard)

    def on_commit(self, shard: int, at: int) -> None:
        """Take the time (ms) of a commit: the first in an absence ends it, and says nothing of before."""
        since = self._away.get(shard, NEVER)
        away = since != NEVER and not self._serves(shard, since)
        if at > self._committed.get(shard, NEVER):
            self._committed[shard] = at
        if away and self._serves(shard, since):
            self._disturbed.add(shard)

    def take_away(self) -> set[int]:
        """Return the shards whose members could not commit at some time since the last call."""
        disturbed, self._disturbed = self._disturbed, set()
        return disturbed.union(one for one, since in self._away.items() if not self._serves(one, since))

    def _serves(self, shard: int, since: int) -> bool:
        """Whether a commit shows that clients reach a coordinator that has not answered since then (ms)."""
        return self._committed.get(shard, NEVER) >= since + SKEW_MS

    @staticmethod
    def _answers(leader: Leader, answers: dict[int, bool]) -> bool:
        """Whether the leader answered; a broker that was not asked is away where no other answered."""
        return leader.broker >= 0 and answers.get(leader.broker, any(answers.values()))
