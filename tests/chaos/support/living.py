"""Groups whose members live through a fault: they poll and commit, and nobody may be accused of anything."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from rebalance_monitor.lab.scenario.processes import WorkerProcess
from rebalance_monitor.lab.scenario.traffic import Traffic
from rebalance_monitor.lab.workers.families import FAMILIES
from rebalance_monitor.lab.workers.flags import Flags, group_names
from tests.chaos.support.rig import TOPIC

if TYPE_CHECKING:
    from contextlib import ExitStack
    from pathlib import Path

    from rebalance_monitor.coordinator.findings.finding import Finding
    from tests.chaos.support.rig import Rig

# Long enough for clients that a busy machine starves, s.
SESSION_S = 30
# From where on a cause is a claim (docs/detection.md).
CLAIMED = 0.6
BLAME = frozenset(
    {"session_timeout", "poll_interval_exceeded", "join_deadline_missed", "sync_deadline_missed"}
)


class Living:
    """So many `groups` of confluent-kafka members, each with traffic to commit, on the rig's topic."""

    def __init__(self, rig: Rig, name: str, groups: int, folder: Path, stack: ExitStack) -> None:
        self._rig, self._folder, self._stack = rig, folder, stack
        self._flags = Flags(
            rig.bootstrap,
            name,
            TOPIC,
            session_ms=SESSION_S * 1_000,
            poll_ms=2 * SESSION_S * 1_000,
            commit_ms=500,
            groups=groups,
        )
        self.names = list(group_names(self._flags))
        rig.groups |= set(self.names)
        self._members: list[WorkerProcess] = []

    def feed(self, partitions: int) -> None:
        """Write into the topic until the stack ends."""
        self._stack.enter_context(Traffic(self._rig.bootstrap)).add(TOPIC, partitions)

    def start(self, member: str, group: str = "") -> WorkerProcess:
        """Start a process with a member in each group, or in the one that is named."""
        flags = replace(self._flags, client_id=member)
        flags = replace(flags, group=group, groups=1) if group else flags
        worker = WorkerProcess(member, FAMILIES["confluent"], flags, self._folder)
        self._stack.callback(worker.finish)
        self._members.append(worker)
        return worker

    def await_members(self, count: int, group: str = "") -> list[Finding]:
        """Await the finding of a generation of so many members, of each group or of the one that is named."""
        return [
            self._rig.await_told(
                lambda f, name=name: f.group == name and f.kind == "rebalance" and f.members_total == count
            )
            for name in ([group] if group else self.names)
        ]

    def told(self) -> list[Finding]:
        """The findings of these groups."""
        return [finding for finding in self._rig.told() if finding.group in self.names]

    def require_unaccused(self) -> None:
        """No member was taken for lost; one that was suspected has been cleared."""
        assert all(member.alive for member in self._members)
        told = self.told()
        assert [finding for finding in told if accuses(finding)] == []
        suspected = {f.incident for f in told if f.kind == "member_silent" and f.phase == "opened"}
        cleared = {f.incident for f in told if f.kind == "member_silent" and f.resolution == "withdrawn"}
        assert suspected <= cleared

    def suspicions(self) -> int:
        """How many members were suspected of being silent."""
        return sum(f.kind == "member_silent" and f.phase == "opened" for f in self.told())


def accuses(finding: Finding) -> bool:
    """Whether it claims that a member was lost, or was late."""
    claimed = {entry.cause.value for entry in finding.causes if entry.confidence >= CLAIMED}
    return finding.kind.value in BLAME or (finding.kind != "member_silent" and bool(claimed & BLAME))
