"""All that can be said of ONE group, gathered from its shard's rows: the ground that `explain` stands on.

Feeds the rows to a coordinator of its own and keeps beside its state what state has no room for: the last
record as it was written, the longest time between two commits of each member within a generation, which
assignors the members of an epoch-based group prefer, and the last findings.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rebalance_monitor.coordinator.commits import positions
from rebalance_monitor.coordinator.commits.trace import commits_when_idle
from rebalance_monitor.coordinator.findings.kinds import Kind
from rebalance_monitor.coordinator.findings.outputs import FindingOut
from rebalance_monitor.coordinator.lag.committing import COMMITS_ONLY, MINUTE_MS
from rebalance_monitor.coordinator.rebalance import subscriptions
from rebalance_monitor.coordinator.rebalance.baselines import CLASSIC
from rebalance_monitor.coordinator.rebalance.connect import is_connect
from rebalance_monitor.coordinator.removal import CLOSES_AFTER_MS
from rebalance_monitor.coordinator.shard import ShardCoordinator, new_shard_state
from rebalance_monitor.coordinator.state.group_state import GroupState
from rebalance_monitor.coordinator.state.state_machine import Status
from rebalance_monitor.decoders import Decoded, GroupMetadataValue, decode_record, rows
from rebalance_monitor.decoders.embedded.connect import (
    CONNECTOR,
    decode_connect_assignment,
    decode_connect_metadata,
)
from rebalance_monitor.decoders.embedded.consumer import decode_subscription
from rebalance_monitor.decoders.record import Failure

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from rebalance_monitor.coordinator.findings.finding import Finding
    from rebalance_monitor.coordinator.settings import DetectionSettings
    from rebalance_monitor.decoders import GroupMember, Row

MAX_FINDINGS = 200
TOLD = frozenset(
    {
        Kind.REBALANCE,
        Kind.REBALANCE_COST,
        Kind.REBALANCE_STUCK,
        Kind.GROUP_EMPTY,
        Kind.REBALANCE_FAILED,
        Kind.STATIC_MEMBER_REPLACED,
        Kind.STORM,
        Kind.MEMBER_SILENT,
        Kind.CONSUMPTION_STALLED,
        Kind.CONSUMPTION_STOPPED,
    }
)
"""Kinds that `explain` lists as what happened."""

_METADATA_848 = b"\0\5"


@dataclass(frozen=True, slots=True)
class Gap:
    """The longest time (ms) between two commits of a member within one generation, and when it ended.

    `proven`: its member commits when idle, and every record of its shard in between was read; else there may
    have been nothing to commit, or commits that were cleaned away.
    """

    ms: int
    until: int
    proven: bool = False


@dataclass(frozen=True, slots=True)
class Work:
    """What a Connect worker runs, and the config offset that it has read; -1 where that is none."""

    connectors: tuple[str, ...]
    tasks: int
    config_offset: int | None


Gaps = dict[str, dict[bool, Gap]]
"""Member id -> the longest that is proven, and the longest that is not."""


@dataclass(slots=True)
class Dossier:
    """One group's records as read so far; `history_end`: rows below this offset are history."""

    group: str
    coordinator: ShardCoordinator
    findings: deque[Finding] = field(default_factory=lambda: deque(maxlen=MAX_FINDINGS))
    subscriptions: dict[str, tuple[str, ...]] = field(default_factory=dict)
    assignors: dict[str, str] = field(default_factory=dict)
    gaps: Gaps = field(default_factory=dict)
    size: int = 0
    newest: int = -1
    last_offset: int = -1
    hole: int = -1
    records: int = 0
    unreadable: int = 0
    commits: deque[tuple[int, int]] = field(default_factory=deque)
    """When (ms), and how many offsets, of the commits of the last minute."""
    work: dict[str, Work] = field(default_factory=dict)

    @property
    def state(self) -> GroupState | None:
        """The group's state, None where it has no record, or no longer has."""
        return self.coordinator.state.groups.get(self.group)

    @property
    def known(self) -> GroupState | None:
        """The group's state, as far as known of a removed or committing one; None without records."""
        state = self.state
        if state is not None or not self.records:
            return state
        text = self.coordinator.state.lone.get(self.group)
        if text is None and self.coordinator.state.lone_dropped:
            # It has more partitions than are kept of a group without a record of its own.
            return GroupState(group_type=COMMITS_ONLY, status=Status.EMPTY, last_commit=self.commits[-1][0])
        if text is None:
            return GroupState()
        held = positions.read(text)
        if not positions.places_of(held):
            return GroupState()
        return GroupState(group_type=COMMITS_ONLY, status=Status.EMPTY, positions=held)

    @property
    def commits_per_minute(self) -> float | None:
        """How many offsets a minute it committed until its last commit, None where that is its only one."""
        if not self.commits or self.commits[0][0] == self.commits[-1][0]:
            return None
        first, last = self.commits[0], self.commits[-1]
        return (sum(count for _, count in self.commits) - first[1]) * MINUTE_MS / (last[0] - first[0])

    @property
    def asked(self) -> Mapping[str, Sequence[str]]:
        """Member id -> topics, of all members; empty where not all of them are known."""
        state = self.state
        if state is None or not state.members:
            return {}
        if state.group_type != CLASSIC:
            return subscriptions.of_members(state)
        asked = {one.member_id: self.subscriptions.get(one.member_id, ()) for one in state.members}
        return asked if all(asked.values()) else {}

    def on_rows(self, read: Iterable[Row]) -> None:
        """Take rows of the group's shard in offset order; rows of other groups are skipped."""
        for row in read:
            if row.first_offset > self.last_offset + 1:
                self.hole = row.record_ts
            self.last_offset = row.last_offset
            self.newest = max(self.newest, row.record_ts)
            if row.group == self.group:
                self.records += max(row.count, 1)
                self.unreadable += row.row_kind == rows.FAILURE
                self._on_row(row)

    def replace(self, findings: Iterable[Finding]) -> None:
        """Take the group's findings as probe samples complete them."""
        self.findings.clear()
        self.findings += [one for one in findings if one.group == self.group]

    def close(self) -> None:
        """Nothing follows: a tombstone that was the last word is a removal."""
        out = self.coordinator.tick(self.newest + CLOSES_AFTER_MS)
        self.findings += [output.finding for output in out if isinstance(output, FindingOut)]

    def _on_row(self, row: Row) -> None:
        state = self.state
        before = {m.member_id: (m.last_commit, m.commits) for m in state.members} if state else {}
        out = self.coordinator.on_row(row)
        self.findings += [output.finding for output in out if isinstance(output, FindingOut)]
        if row.row_kind == rows.COMMIT_RUN:
            self._count(min(row.commit_ts, row.record_ts), row.count)
            if state:
                self._measure(state, before)
        elif row.row_kind == rows.RECORD:
            self._keep(*rows.record(row))

    def _count(self, at: int, count: int) -> None:
        """Keep the commits of the last minute; those of one moment are one."""
        if self.commits and at <= self.commits[-1][0]:
            at, count = self.commits[-1][0], count + self.commits.pop()[1]
        self.commits.append((at, count))
        while self.commits[0][0] < at - MINUTE_MS:
            self.commits.popleft()

    def _measure(self, state: GroupState, before: dict[str, tuple[int, int]]) -> None:
        for member in state.members:
            last, commits = before.get(member.member_id, (-1, 0))
            gap = member.last_commit - last
            if not commits or gap <= 0 or last <= state.cst:
                continue
            proven = self.hole <= last and commits_when_idle(state, member)
            longest = self.gaps.setdefault(member.member_id, {})
            if proven not in longest or gap > longest[proven].ms:
                longest[proven] = Gap(gap, member.last_commit, proven)

    def _keep(self, key: bytes, value: bytes | None) -> None:
        found = decode_record(key, value)
        if not isinstance(found, Decoded) or found.value is None:
            return
        if isinstance(found.value, GroupMetadataValue):
            self.size = len(value or b"")
            read = {m.member_id: decode_subscription(m.subscription) for m in found.value.members}
            self.work = {one.member_id: _work(one) for one in found.value.members if is_connect(found.value)}
            self.subscriptions = {
                member: sub.topics for member, sub in read.items() if not isinstance(sub, Failure)
            }
        elif key[:2] == _METADATA_848:
            name = getattr(found.value, "server_assignor", None)
            self.assignors[str(getattr(found.key, "member_id", ""))] = name or ""


def _work(member: GroupMember) -> Work:
    given = decode_connect_assignment(member.assignment)
    metadata = decode_connect_metadata(member.subscription)
    runs = () if isinstance(given, Failure) else given.assignment
    offset = None if isinstance(metadata, Failure) else metadata.config_offset
    named = tuple(sorted(one.connector for one in runs if CONNECTOR in one.tasks))
    return Work(named, sum(task != CONNECTOR for one in runs for task in one.tasks), offset)


def open_dossier(
    group: str, shard: int, settings: DetectionSettings, cluster: str, history_end: int | None = None
) -> Dossier:
    """Begin a dossier of `group`, which lives in `shard`."""
    state = new_shard_state(shard, 0, history_end)
    return Dossier(group, ShardCoordinator(state, settings, cluster, history_end or 0))
