"""What the coordinator alone finds in a broker's topic, read once from the beginning: the job's truth."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rebalance_monitor.cluster.clients.admin import ClusterAdmin
from rebalance_monitor.cluster.clients.reader import Reading, read_records
from rebalance_monitor.coordinator import removal
from rebalance_monitor.coordinator.departure.verdicts import KIND_OF, kinds_by
from rebalance_monitor.coordinator.findings.finding import finding_id
from rebalance_monitor.coordinator.findings.kind_table import KINDS
from rebalance_monitor.coordinator.findings.kinds import DrivenBy, Kind, Scope
from rebalance_monitor.coordinator.findings.outputs import FindingOut
from rebalance_monitor.coordinator.settings import DetectionSettings
from rebalance_monitor.coordinator.shard import ShardCoordinator, new_shard_state
from rebalance_monitor.decoders import Row, decode_batch

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from rebalance_monitor.coordinator.findings.finding import CauseEntry, Finding
    from rebalance_monitor.coordinator.findings.outputs import Output

# Of one incident, by the ends.
MOST_UPDATES = 100
MESSAGE_BYTES = DetectionSettings().max_message_bytes
Decided = tuple[str, str, str]
"""Group, kind and id of a finding."""


def findings_of_topic(bootstrap: str) -> list[Finding]:
    """Findings of every shard, records only: no deadlines, no probe. Holds no records, however many.

    That nothing follows the last record counts: it says that a group whose tombstone that is was removed.
    """
    properties = {"bootstrap.servers": bootstrap}
    with ClusterAdmin(properties) as admin:
        begins, ends, cluster = admin.begin_offsets(), admin.end_offsets(), admin.cluster_id()
        # The job judges the size of records by what this broker allows.
        settings = DetectionSettings(max_message_bytes=admin.max_message_bytes() or MESSAGE_BYTES)
    shards = {shard: ShardCoordinator(new_shard_state(shard, 0, None), settings, cluster) for shard in begins}
    found = []
    for batch in read_records(properties, Reading(begins, until=ends)):
        for row in decode_batch(batch).to_pylist():
            found += _findings(shards[row["shard"]].on_row(Row(**row)))
    for shard in shards.values():
        # Whether the last group of a shard was removed or migrated is known once nothing has followed.
        found += _findings(shard.tick(shard.state.last_ts + removal.CLOSES_AFTER_MS))
    return found


def _tells_the_cost(finding: Finding) -> bool:
    """Whether the topics' ends, not records, updated an open incident: its consumers have caught up."""
    if finding.phase != "updated" or not finding.incident:
        return False
    anchor, phase = f"{finding.incident}/cost", finding.phase
    return finding.id in {
        finding_id(finding.cluster, finding.kind, finding.group or "", anchor, phase=phase, sequence=number)
        for number in range(1, MOST_UPDATES)
    }


def _findings(outputs: Iterable[Output]) -> list[Finding]:
    return [output.finding for output in outputs if isinstance(output, FindingOut)]


def both(
    told: Sequence[Finding], found: Sequence[Finding], groups: set[str]
) -> tuple[list[Decided], list[Decided]]:
    """What a job published and what the coordinator alone found, to be compared.

    Left out is by which limit a member went where the job knew more (see `require_by_samples`), and the end
    of a storm that no record followed: the clock decides it, and the job's ran on.
    """
    again = judged_again(told, found)
    newest: dict[str | None, int] = {}
    for one in found:
        if not _ends_a_storm(one):
            newest[one.group] = max(one.at, newest.get(one.group, one.at))

    def compared(findings: Sequence[Finding]) -> list[Decided]:
        by_records = [
            one for one in findings if not _ends_a_storm(one) or one.at <= newest.get(one.group, -1)
        ]
        return record_driven(by_records, groups, again)

    return compared(told), compared(found)


def _ends_a_storm(finding: Finding) -> bool:
    return finding.kind is Kind.STORM and finding.phase == "resolved"


def judged_again(told: Iterable[Finding], found: Iterable[Finding]) -> set[str]:
    """Ids of findings of which a job says otherwise than records alone why members went.

    Samples bound join phases and removals, show generations that failed, outages, and what waited for a
    member. What was sampled while no job ran is not known to anybody.
    """
    plain = {finding.id: _of_members(finding) for finding in found}
    return {one.id for one in told if _of_members(one) != plain.get(one.id, _of_members(one))}


def left_open(told: Sequence[Finding]) -> list[tuple[str, str]]:
    """Group and kind of what the probe or the clock opened of a group and nothing has ended.

    But offsets that are about to expire: these go on as long as the group is empty.
    """
    over = {finding.incident for finding in told if finding.phase == "resolved"}
    return [
        (finding.group or "", finding.kind.value)
        for finding in told
        if finding.phase == "opened"
        and finding.scope is Scope.GROUP
        and KINDS[finding.kind].driven_by is not DrivenBy.RECORD
        and finding.kind is not Kind.OFFSETS_EXPIRING
        and finding.incident not in over
    ]


def require_by_samples(told: Sequence[Finding], found: Sequence[Finding]) -> None:
    """What a job that knew more says of each member that went stands beside it, once, if it is sure."""
    again = judged_again(told, found)
    for rebalance in (finding for finding in told if finding.id in again):
        of_members = _of_members(rebalance)
        for name in {cause.member_id for cause in of_members}:
            causes = [cause for cause in of_members if cause.member_id == name]
            stands = [one.kind for one in told if _stands_beside(one, rebalance, name)]
            assert len(stands) <= 1
            # What was away meanwhile may have lowered confidences since.
            assert set(stands) <= {KIND_OF.get(cause.cause) for cause in causes}
            (sure,) = kinds_by([causes], 1, DetectionSettings())
            assert sure is None or stands == [sure[0]]


def _stands_beside(finding: Finding, rebalance: Finding, member: str | None) -> bool:
    # What a rebalance cost stands beside it too, and names no cause.
    about = [cause.member_id for cause in finding.causes[:1]]
    return finding.details.get("rebalance") == rebalance.id and about == [member]


def _of_members(finding: Finding) -> list[CauseEntry]:
    """The causes that name a member, of a finding beside which others stand about members that went."""
    if finding.kind not in {Kind.REBALANCE, Kind.GROUP_EMPTY}:
        return []
    return [cause for cause in finding.causes if cause.member_id]


def record_driven(found: Iterable[Finding], groups: set[str], without: Collection[str] = ()) -> list[Decided]:
    """What records alone decide about these groups, sorted; `without` what stands beside these rebalances."""
    return sorted(
        (finding.group or "", finding.kind.value, finding.id)
        for finding in found
        if finding.group in groups
        and finding.scope is Scope.GROUP
        and KINDS[finding.kind].driven_by is DrivenBy.RECORD
        # The probe may see a storm that completes no generation: that one is its own.
        and finding.details.get("rule") != "sightings"
        and not _tells_the_cost(finding)
        and finding.details.get("rebalance") not in without
    )
