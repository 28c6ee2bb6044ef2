"""Members that have probably not rejoined a join phase yet, judged by their commits.

Neither records nor the admin API show which members have rejoined. An eager client commits when it rejoins,
and not again until the join phase ends. So:

- A member that goes on committing has not rejoined.
- A member that commits when idle, and that fell silent long before the join phase and before the others, is
  the one that the group waits for.
- The silence of any other member may mean that it had nothing to commit.

If all members are alike, none is named. In cooperative groups whose clients go on committing while they wait,
none is named either. The result is always suspected.

The driver judges by group summaries, so a summary must be newer than the silence. One is made, once, when a
member that commits when idle has been silent for half of the time after which the join phase is stuck.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from rebalance_monitor.coordinator.commits.trace import commits_when_idle
from rebalance_monitor.coordinator.deadlines.member_deadlines import under_traffic
from rebalance_monitor.coordinator.deadlines.stuck_limits import Limits, limits
from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.finding import MAJORITY, MAX_KEPT, CauseEntry, MemberEntry
from rebalance_monitor.coordinator.findings.wording import seconds
from rebalance_monitor.coordinator.state.group_state import NEVER
from rebalance_monitor.coordinator.state.membership import COOPERATIVE

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from rebalance_monitor.coordinator.findings.finding import Details, Finding
    from rebalance_monitor.coordinator.settings import DetectionSettings
    from rebalance_monitor.coordinator.state.group_state import GroupState, Member

_NAMED = 5
_TOGETHER = 2
_LIVES = frozenset({Cause.JOIN_DEADLINE_MISSED, Cause.POLL_INTERVAL_EXCEEDED})

MARGIN_MS = 2_000
"""Commits must be this far apart from the others', or twice the member's cadence, to be evidence."""

CONFIDENCE = 0.6
"""Confidence that a join phase waits for the members that are named."""

# Other clients go on committing the partitions that they keep while they wait.
_SILENT_COOPERATIVE = frozenset({"java"})


@dataclass(frozen=True, slots=True)
class Seen:
    """One member of the last generation: when it last committed (ms, -1 never), and how often (ms).

    idle: it commits when there is nothing new, so its silence is evidence. silent: a `member_silent` is open
    for it, perhaps because of its traffic. session: its session timeout, ms.
    """

    member_id: str
    client_id: str
    host: str
    instance_id: str | None
    last_commit: int
    cadence: int
    idle: bool
    silent: bool = False
    session: int = -1

    @property
    def margin(self) -> int:
        """Its commits must be this far (ms) from those of other members to be evidence."""
        return max(MARGIN_MS, 2 * self.cadence)


def missing(members: Iterable[Seen], since: int, now: int) -> list[Seen]:
    """Return the members that have not rejoined a join phase seen since `since` (ms), oldest commit first.

    `now` (ms): until when their commits are known.
    """
    known = sorted((m for m in members if m.last_commit >= 0), key=lambda m: (m.last_commit, m.member_id))
    if len(known) < _TOGETHER:
        return []
    working = [
        m for m in known if m.last_commit > since + m.margin and m.last_commit >= now - m.cadence - MARGIN_MS
    ]
    rest = [member for member in known if member not in working]
    newest = max((member.last_commit for member in rest), default=-1)
    stalled = [m for m in rest if (m.idle or m.silent) and m.last_commit < min(newest, since) - m.margin]
    return [*stalled, *working]


def by_summary(
    summary: Mapping[str, Any], since: int, limit: int, listed: Collection[str] | None = None
) -> list[Seen]:
    """Return the members that, by the group's summary, a join phase observed since `since` (ms) waits for.

    `limit`: duration (ms) from which on the join phase is stuck. `listed`: only these are in the group, if
    the brokers have listed its members.
    """
    told_at = int(summary.get("as_of", -1))
    members = summary.get("member_list", ())
    families = {one["family"] for one in members}
    commits_on = summary.get("protocol") in COOPERATIVE and not families <= _SILENT_COOPERATIVE
    if told_at < since + limit // 4 or commits_on:
        return []
    seen = [
        Seen(
            str(one["member_id"]),
            str(one["client_id"]),
            str(one["host"]),
            one["instance_id"],
            int(one["last_commit"]),
            int(one["cadence_ms"]),
            bool(one["commits_idle"]),
            bool(one.get("silent")),
            int(one.get("session_timeout_ms", -1)),
        )
        for one in members
        if listed is None or one["member_id"] in listed
    ]
    return missing(seen, since, told_at)


def describe_member(state: GroupState, member: Member) -> Seen:
    """Describe a member of the group by its commits."""
    return Seen(
        member.member_id,
        member.client_id,
        member.host,
        member.instance_id,
        member.last_commit,
        member.cadence,
        commits_when_idle(state, member),
        bool(member.silent_id),
        member.session_timeout,
    )


def has_new_silence(state: GroupState, settings: DetectionSettings, now: int) -> bool:
    """Whether a member has stopped committing by `now` (ms), but had not when the last summary was made."""
    quiet = limits_of(state, settings).warns // 2
    return any(
        state.last_summary < member.last_commit + quiet <= now for member in _regular_committers(state)
    )


def due(state: GroupState, settings: DetectionSettings, now: int) -> int:
    """Earliest clock (ms) after `now` at which a member that commits may be found to have stopped."""
    quiet = limits_of(state, settings).warns // 2
    ahead = (member.last_commit + quiet for member in _regular_committers(state))
    return min((at for at in ahead if at > now), default=NEVER)


def awaited_members(rebalance: Finding) -> list[Seen]:
    """Return the departed members that a stuck join phase waited for, by the generation that ended it.

    If only one member departed, the join phase waited for it: a member that leaves or is dead ends the phase
    sooner. Of several, it waited for the live members that did not rejoin.
    """
    gone = [member for member in rebalance.members if member.role == "left"]
    named = [member for member in gone if member.member_id == rebalance.details.get("held_by")]
    late = {
        entry.member_id
        for entry in rebalance.causes
        if entry.cause in _LIVES and entry.confidence >= MAJORITY
    }
    removed = [member for member in gone if member.member_id in late]
    one = named or removed or (gone if len(gone) == 1 else [])
    return [
        Seen(m.member_id, m.client_id, m.host, m.instance_id, m.last_seen or -1, -1, idle=False) for m in one
    ]


def limits_of(state: GroupState, settings: DetectionSettings) -> Limits:
    """Return from when on a join phase of the group is stuck."""
    sessions = [member.session_timeout for member in state.members]
    return limits(settings, sessions, [member.rebalance_timeout for member in state.members])


def _regular_committers(state: GroupState) -> Iterable[Member]:
    if state.group_type != "classic" or len(state.members) < _TOGETHER:
        return ()
    return (
        member
        for member in state.members
        if member.commits and (commits_when_idle(state, member) or under_traffic(member))
    )


def named(finding: Finding, waits: Sequence[Seen], lasted: int) -> Finding:
    """Return the finding with the members that the join phase waits for, so far for `lasted` ms."""
    if not waits:
        return finding
    names = ", ".join(dict.fromkeys(member.client_id for member in waits[:_NAMED]))
    members = tuple(
        MemberEntry(m.member_id, m.instance_id, m.client_id, m.host, False, "kept", last_seen=m.last_commit)  # noqa: FBT003 - the host is the member's own
        for m in waits[:MAX_KEPT]
    )
    causes = tuple(
        _cause(member, finding.at, lasted, is_over=finding.phase == "resolved") for member in waits[:_NAMED]
    )
    details: Details = {**finding.details, "waits_for": names, "waits_for_confidence": CONFIDENCE}
    return replace(finding, members=members, causes=causes, details=details)


def _cause(member: Seen, at: int, lasted: int, *, is_over: bool) -> CauseEntry:
    """Name a member that has not rejoined, with the numbers to check."""
    why = f"the join phase {'waited' if is_over else 'has waited'} for it for {seconds(lasted)}"
    if member.last_commit >= 0:
        why += f"; its last commit was {seconds(max(0, at - member.last_commit))} ago"
    named = (member.member_id, member.client_id, member.host, member.instance_id)
    return CauseEntry(Cause.MEMBER_NOT_REJOINED, CONFIDENCE, why, *named)
