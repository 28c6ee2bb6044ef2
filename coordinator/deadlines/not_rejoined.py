"""The members that a join phase waits for, as findings name them.

`rejoining.py` says how likely each member of the generation before has not rejoined, by its commits. Here the
members come from a group's summary, with what positions and ends add to it, or from its state. A member that
is more likely missing than not is named. Else the smallest set is named that holds a missing member in nine
of ten cases, if that is three members at the most. It is suspected, never known.

A summary says this of a join phase that had lasted for a while when it was made; so one is made, once, of a
group in which a member that commits when idle has stopped for half of the time from which it is stuck.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from rebalance_monitor.coordinator.commits.client_families import process_of
from rebalance_monitor.coordinator.commits.trace import commits_when_idle
from rebalance_monitor.coordinator.deadlines import rejoining
from rebalance_monitor.coordinator.deadlines.member_deadlines import under_traffic
from rebalance_monitor.coordinator.deadlines.rejoining import UNKNOWN, Seen
from rebalance_monitor.coordinator.deadlines.stuck_limits import Limits, limits, warns_after
from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.finding import (
    HELD_BY,
    MAJORITY,
    MAX_KEPT,
    CauseEntry,
    MemberEntry,
)
from rebalance_monitor.coordinator.findings.wording import seconds
from rebalance_monitor.coordinator.state.group_state import NEVER
from rebalance_monitor.coordinator.state.membership import COOPERATIVE

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from rebalance_monitor.coordinator.findings.finding import Details, Finding
    from rebalance_monitor.coordinator.settings import DetectionSettings
    from rebalance_monitor.coordinator.state.group_state import GroupState, Member

    Listed = tuple[str, str, str, str]
    """Member id, instance id or "", client id, host, as the brokers list a member."""

_NAMED = 5
_TOGETHER = 2
_LIKELY, _ANY_OF, _ENOUGH = 0.6, 3, 0.9
_LIVES = frozenset({Cause.JOIN_DEADLINE_MISSED, Cause.POLL_INTERVAL_EXCEEDED})
_MOST, _UNJUDGED = 0.95, 0.6

# They go on committing the partitions that they keep while they wait; a client of franz-go commits any.
_SILENT_COOPERATIVE = frozenset({"java"})
_COMMITS_WAITING = frozenset({"franz-go"})


class Commits(NamedTuple):
    """What positions say of one member: its last commit (ms), and `waited` as of `rejoining.Seen`."""

    last: int
    waited: int = UNKNOWN


class Awaited(NamedTuple):
    """The members that a join phase waits for; `any_of`: for one of them at least, nobody knows which."""

    members: tuple[Seen, ...] = ()
    any_of: bool = False

    @property
    def ids(self) -> frozenset[str]:
        """Return the ids of the members."""
        return frozenset(member.member_id for member in self.members)


def awaited(
    members: Sequence[Seen], since: int, now: int, others: int = 0, *, exact: bool = False
) -> Awaited:
    """Return the members of the last generation that hold a join phase seen since `since` (ms).

    `now` (ms): until when their commits are known. `others`: members of which nothing is known. `exact`: the
    phase was seen to begin.
    """
    shares = rejoining.shares(members, since, now, others, exact=exact)
    ranked = sorted(zip(members, shares, strict=True), key=lambda one: (-one[1], one[0].last_commit))
    likely = [replace(one, confidence=round(min(share, _MOST), 2)) for one, share in ranked]
    named = tuple(one for one in likely if one.confidence >= _LIKELY)
    if named:
        return Awaited(named)
    for count in range(_TOGETHER, min(_ANY_OF, len(likely)) + 1):
        if sum(share for _, share in ranked[:count]) >= _ENOUGH:
            return Awaited(tuple(likely[:count]), any_of=True)
    return Awaited()


def by_summary(
    summary: Mapping[str, Any],
    since: int,
    now: int,
    listed: Collection[Listed] | None = None,
    commits: Mapping[str, Commits] | None = None,
    *,
    exact: bool = False,
) -> Awaited:
    """Return the members that, by the group's summary, hold a join phase seen since `since` (ms).

    Only members that are `listed`, where the brokers listed the group. `commits` of its members are known
    until `now` (ms); None: no more is known than the summary says, and only until it was made. `exact` as of
    `awaited`.
    """
    members = summary.get("member_list", ())
    until = int(summary.get("as_of", -1)) if commits is None else now
    protocol = summary.get("protocol", "")
    ids = None if listed is None else {one[0] for one in listed}
    there = [one for one in members if ids is None or one["member_id"] in ids]
    hidden = max(0, int(summary.get("members") or 0) - len(members))
    known = commits or {}
    seen = [_seen(one, known.get(one["member_id"]), _keeps(protocol, one["family"])) for one in there]
    if until < since + rejoining.MARGIN_MS:
        seen = [replace(one, last_commit=-1) for one in seen]
    before = {one["member_id"] for one in members}
    # Newcomers are known only where the summary lists all members.
    came = [] if hidden else [one for one in listed or () if one[0] not in before]
    return awaited(with_successors(seen, came), since, until, hidden, exact=exact)


def with_successors(members: Sequence[Seen], came: Iterable[Listed]) -> list[Seen]:
    """Return the members, with how many share the place of one that newcomers (`came`) have taken."""
    places = Counter((process_of(one.client_id), one.host) for one in members)
    clients = Counter(one.client_id for one in members)
    new = [(client, host) for _, _, client, host in came]
    taken = {(process_of(client), host) for client, host in new}
    again = {client for client, _ in new if clients[client] == 1}

    def of(one: Seen) -> int:
        place = process_of(one.client_id), one.host
        return places[place] if place in taken else int(one.client_id in again)

    return [replace(one, succeeded=of(one)) for one in members]


def _keeps(protocol: str, family: str) -> bool:
    """Whether a client may commit while it waits in a join phase."""
    return family in _COMMITS_WAITING or (protocol in COOPERATIVE and family not in _SILENT_COOPERATIVE)


def _seen(one: Mapping[str, Any], commits: Commits | None, keeps: bool) -> Seen:  # noqa: FBT001 - as named
    last, waited = commits or Commits(-1)
    return Seen(
        member_id=str(one["member_id"]),
        client_id=str(one["client_id"]),
        host=str(one["host"]),
        instance_id=one["instance_id"],
        last_commit=max(last, int(one["last_commit"])),
        cadence=int(one["cadence_ms"]),
        idle=bool(one["commits_idle"]),
        silent=bool(one.get("silent")),
        session=int(one.get("session_timeout_ms", -1)),
        steady=bool(one.get("steady")),
        usual=int(one.get("usual_ms", -1)),
        waited=waited,
        commits_on=keeps,
    )


def describe_member(state: GroupState, member: Member) -> Seen:
    """Describe a member of the group by its commits."""
    return Seen(
        member_id=member.member_id,
        client_id=member.client_id,
        host=member.host,
        instance_id=member.instance_id,
        last_commit=member.last_commit,
        cadence=member.cadence,
        idle=commits_when_idle(state, member),
        silent=bool(member.silent_id),
        session=member.session_timeout,
        steady=under_traffic(member),
        usual=usual(member),
        commits_on=_keeps(state.protocol, member.family),
    )


def usual(member: Member) -> int:
    """Return the longest of a member's last intervals between commits, ms; -1 where it had none."""
    return max(member.gaps, default=-1)


def has_new_silence(state: GroupState, settings: DetectionSettings, now: int) -> bool:
    """Whether a member has stopped committing by `now` (ms), but had not when the last summary was made."""
    quiet = quiet_ms(state, settings)
    return any(
        state.last_summary < member.last_commit + quiet <= now for member in _regular_committers(state)
    )


def quiet_ms(state: GroupState, settings: DetectionSettings) -> int:
    """Return how long a member that commits must have stopped until it is found to have (ms)."""
    # Asked of every group that is woken: the session timeouts do not matter here.
    longest = max([member.rebalance_timeout for member in state.members], default=-1)
    return warns_after(settings, longest) // 2


def due(state: GroupState, settings: DetectionSettings, now: int) -> int:
    """Earliest clock (ms) after `now` at which a member that commits may be found to have stopped."""
    quiet = quiet_ms(state, settings)
    ahead = (member.last_commit + quiet for member in _regular_committers(state))
    return min((at for at in ahead if at > now), default=NEVER)


def awaited_members(rebalance: Finding) -> Awaited:
    """Return the departed members that a stuck join phase waited for, by the generation that ended it.

    Had the only one that is gone left, or been dead, the join phase would have ended sooner: nobody else was
    missing. Of several it waited for those that lived on and did not rejoin.
    """
    gone = [member for member in rebalance.members if member.role == "left"]
    named = [member for member in gone if member.member_id == rebalance.details.get(HELD_BY)]
    late = removed_alive(rebalance)
    removed = [member for member in gone if member.member_id in late]
    found = named or removed or (gone if len(gone) == 1 else [])
    return Awaited(tuple(_departed(member, late.get(member.member_id, _UNJUDGED)) for member in found))


def departed(rebalance: Finding, names: Collection[str]) -> Awaited:
    """Return the members of these ids that departed with a generation that the join deadline completed."""
    gone = (one for one in rebalance.members if one.role == "left" and one.member_id in names)
    return Awaited(tuple(_departed(member, _MOST) for member in gone))


def removed_alive(rebalance: Finding) -> dict[str, float]:
    """Return member id -> how likely it lived and was removed because it did not rejoin, where that leads."""
    return {
        entry.member_id or "": entry.confidence
        for entry in rebalance.causes
        if entry.cause in _LIVES and entry.confidence >= MAJORITY
    }


def _departed(member: MemberEntry, confidence: float) -> Seen:
    last = -1 if member.last_seen is None else member.last_seen
    names = member.member_id, member.client_id, member.host, member.instance_id
    return Seen(*names, last, -1, idle=False, confidence=confidence)


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


def named(finding: Finding, waits: Awaited, lasted: int) -> Finding:
    """Return the finding with the members that the join phase waits for, so far for `lasted` ms."""
    found = waits.members
    if not found:
        return finding
    names = ", ".join(dict.fromkeys(member.client_id for member in found[:_NAMED]))
    key, sure = "waits_for", min(member.confidence for member in found)
    if waits.any_of:
        key, sure = "waits_for_one_of", round(min(_MOST, sum(member.confidence for member in found)), 2)
    members = tuple(_entry(member) for member in found[:MAX_KEPT])
    causes = tuple(_cause(member, finding, lasted, waits) for member in found[:_NAMED])
    details: Details = {**finding.details, key: names, "waits_for_confidence": sure}
    return replace(finding, members=members, causes=causes, details=details)


def _entry(member: Seen) -> MemberEntry:
    last = None if member.last_commit < 0 else member.last_commit
    names = member.member_id, member.instance_id, member.client_id, member.host
    return MemberEntry(*names, host_is_stale=False, role="kept", last_seen=last)


def _cause(member: Seen, finding: Finding, lasted: int, waits: Awaited) -> CauseEntry:
    """Name a member that has not rejoined, with the numbers to check."""
    awaited = f"it, or another of {len(waits.members)} members," if waits.any_of else "it"
    verb = "waited" if finding.phase == "resolved" else "has waited"
    why = f"the join phase {verb} for {awaited} for {seconds(lasted)}"
    if member.last_commit >= 0:
        why += f"; its last commit was {seconds(finding.at - member.last_commit)} ago"
    names = (member.member_id, member.client_id, member.host, member.instance_id)
    return CauseEntry(Cause.MEMBER_NOT_REJOINED, member.confidence, why, *names)
