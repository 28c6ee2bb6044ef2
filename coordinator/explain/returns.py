"""Clients that come back as new members, with advice to their owner.

The order of records decides. A newcomer that joins before the old member of its client and host is removed is
a restarted process, or a second consumer beside a live one. A newcomer that joins after the old member's
session had ended is a restarted process, or a live one that was blocked: kafkajs heartbeats between messages,
aiokafka in an event loop. A Java client counts its consumers in the client id, so a larger number is the same
process. A dead thread of Kafka Streams is replaced by one with another number.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from rebalance_monitor.coordinator.commits.client_families import consumer_number, instance_of, process_of
from rebalance_monitor.coordinator.explain.facts import Advice, caused, named_by, times
from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.finding import CLAIMED, MAJORITY
from rebalance_monitor.coordinator.findings.kinds import Kind
from rebalance_monitor.coordinator.findings.wording import seconds

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rebalance_monitor.coordinator.explain.facts import Facts
    from rebalance_monitor.coordinator.findings.finding import CauseEntry, Finding, MemberEntry

_CHURN, _SEVERAL, _LEADS = 3, 2, 3
_LIVES = frozenset({Cause.JOIN_DEADLINE_MISSED, Cause.POLL_INTERVAL_EXCEEDED})
_REPLACED_MS, _TOGETHER_MS = 60_000, 10_000
_GENERATIONS = frozenset({Kind.REBALANCE, Kind.GROUP_EMPTY})
_STATIC_REMEDY = "above the time a restart takes"
_UNBLOCK = {
    "kafkajs": "its heartbeats stop while it handles a message: send them in between, or raise it above the "
    "longest message",
    "aiokafka": "its heartbeats stop while its event loop is blocked: move that work to a thread, or raise "
    "it above the longest block",
}
_PAUSED = "it paused (garbage collection, CPU limits, a frozen machine): raise it above the longest pause"


class How(StrEnum):
    """How a client came back."""

    LEFT = "left"
    """The old member had left, or departed for an unknown reason."""
    RESTARTED = "restarted"
    """It joined before the session of the old member had ended."""
    EXPIRED = "expired"
    """It joined after the session of the old member had ended: its process lives, or was restarted."""
    LIVES = "lives"
    """As before, and its process lives: the number in its client id went up."""
    STALLED = "stalled"
    """The old member had stopped polling, or missed the join deadline, before it joined."""
    UNCLOSED = "unclosed"
    """It joined while the group waited for the old member, which lived on."""
    THREAD = "thread"
    """A thread of Kafka Streams took the place of another."""


class Return(NamedTuple):
    """One newcomer in a departed member's place; `gap`: ms since the old one's last commit, -1 unknown."""

    client_id: str
    host: str
    how: How
    gap: int
    session: int | None


class _Away(NamedTuple):
    member: MemberEntry
    likely: CauseEntry | None
    at: int


def returns_of(findings: Iterable[Finding]) -> list[Return]:
    """Return every dynamic member that came in the place of a departed one, oldest first."""
    away: dict[tuple[str, str], list[_Away]] = defaultdict(list)
    found = []
    for finding in findings:
        if finding.kind not in _GENERATIONS or finding.phase == "resolved":
            continue
        likely = {one.member_id: one for one in reversed(finding.causes) if one.confidence >= MAJORITY}
        dynamic = [member for member in finding.members if member.instance_id is None]
        for member in dynamic:
            if member.role == "left":
                away[_place(member)].append(_Away(member, likely.get(member.member_id), finding.at))
        for member in dynamic:
            waiting = away[_place(member)] if member.role == "joined" else []
            if waiting:
                before = next(
                    (one for one in waiting if one.member.client_id == member.client_id), waiting[-1]
                )
                waiting.remove(before)
                found.append(_return(member, before, finding.at))
    return found


def _place(member: MemberEntry) -> tuple[str, str]:
    return process_of(member.client_id), member.host


def _return(now: MemberEntry, before: _Away, at: int) -> Return:
    seen = before.member.last_seen
    gap = -1 if seen is None else at - seen
    how = _how(now, before, same=at == before.at)
    return Return(now.client_id, now.host, how, gap, before.member.session_timeout_ms)


def _how(now: MemberEntry, before: _Away, *, same: bool) -> How:
    """Classify by the order; `same`: in one rebalance, so it joined before the old member was removed."""
    old = before.member.client_id
    if instance_of(old) != old and now.client_id != old:
        return How.THREAD
    likely = before.likely
    if likely is not None and likely.cause in _LIVES:
        return How.UNCLOSED if same else How.STALLED
    if likely is None or likely.cause is not Cause.SESSION_TIMEOUT or likely.confidence < CLAIMED:
        return How.LEFT
    if consumer_number(now.client_id) > consumer_number(old):
        return How.LIVES
    return How.RESTARTED if same else How.EXPIRED


def _often(facts: Facts, *hows: How, least: int = _SEVERAL) -> list[tuple[tuple[str, str], int]]:
    """Return (client id, host) of clients that came back so often in one of these ways, most often first."""
    counts = Counter((one.client_id, one.host) for one in returns_of(facts.findings) if one.how in hows)
    return [(who, count) for who, count in counts.most_common() if count >= least]


def _family(facts: Facts) -> str:
    """Return the client family that most members had, "" if unknown."""
    families = (finding.details.get("family") for finding in reversed(facts.findings))
    return next((str(name) for name in families if name), "")


def unclosed_clients(facts: Facts) -> set[tuple[str, str]]:
    """Return (client id, host) of applications that create consumers anew and do not close the old ones."""
    return {who for who, _ in _often(facts, How.UNCLOSED)}


def unclosed(facts: Facts) -> Iterable[Advice]:
    """Name applications that never close their old consumers."""
    for (client, host), count in _often(facts, How.UNCLOSED)[:1]:
        reason = f"{count} times a new member of it joined while the group waited for an old one"
        remedy = "if it makes a new consumer after an error, let it close the old one first"
        yield Advice("close()", remedy, reason, client, host)


def blocked(facts: Facts) -> Iterable[Advice]:
    """Name work or pauses that outlast the session."""
    for (client, host), count in _often(facts, How.EXPIRED, How.LIVES)[:1]:
        of_it = [one for one in returns_of(facts.findings) if (one.client_id, one.host) == (client, host)]
        gap, session = max(one.gap for one in of_it), of_it[-1].session
        reason = f"{count} times a new member of it joined after the session of the old one had ended"
        reason += f", up to {seconds(gap)} after its last commit" if gap >= 0 else ""
        reason += f"; the session timeout is {seconds(session)}" if session else ""
        remedy = _UNBLOCK.get(_family(facts), _PAUSED)
        if all(one.how is How.LIVES for one in of_it):
            remedy = f"its process lives on, as the number of its client id tells: {remedy}"
        else:
            remedy = f"compare the start time of its process: if it was not restarted, {remedy}"
        yield Advice("session.timeout.ms", remedy, reason, client, host)


def threads(facts: Facts) -> Iterable[Advice]:
    """Name Streams instances whose threads die."""
    replaced = [one for one in returns_of(facts.findings) if one.how is How.THREAD]
    counts = Counter((instance_of(one.client_id), one.host) for one in replaced)
    for (instance, host), count in counts.most_common(1):
        if count >= _SEVERAL:
            reason = f"{count} times a new thread of it joined before the session of the old one had ended"
            remedy = "find the exception that ends its threads in its log; a record that cannot be read or "
            remedy += "processed needs an exception handler"
            yield Advice("uncaught exception", remedy, reason, instance, host)


def leader(facts: Facts) -> Iterable[Advice]:
    """Name a leader that keeps rejoining."""
    asked = [one for one in named_by(facts, Cause.LEADER_REJOINED) if one.client_id]
    counts = Counter((one.client_id or "", one.host or "") for one in asked)
    for (client, host), count in counts.most_common(1):
        if count >= _LEADS:
            remedy = "find out why it rejoins: a handler that returns before its session ends, or a consumer "
            remedy += "that subscribes again"
            reason = f"as the leader it asked for {count} rebalances lately among the same members"
            yield Advice("leader", remedy, reason, client, host)


def static(facts: Facts) -> Iterable[Advice]:
    """Advise static membership where clients come back, or restart in turn."""
    blocks = _family(facts) in _UNBLOCK
    again = _often(facts, How.LEFT, How.RESTARTED, *([] if blocks else [How.EXPIRED]))
    strangers = {(one.client_id, one.host) for one in named_by(facts, Cause.CONNECT_CONFIGS_DIFFER)}
    again = [one for one in again if one[0] not in strangers]
    restarts = [f.details["restarted"] for f in facts.findings if f.kind is Kind.ROLLING_RESTART]
    timeout = "session.timeout.ms" if facts.state.group_type == "classic" else "consumer.session.timeout.ms"
    remedy = f"set it per process, and {timeout} {_STATIC_REMEDY}"
    able = {family.static for family in facts.families}
    remedy += "" if able == {True} else ", if the client supports it"
    has_ids = any(m.instance_id for m in facts.members) or bool(_instances(facts.findings, "left"))
    if facts.state.group_type == "share" or False in able or has_ids:
        pass
    elif sum(count for _, count in again) >= _CHURN:
        (client, host), count = again[0]
        reason = f"came back {count} times lately, each time with two rebalances"
        yield Advice("group.instance.id", remedy, reason, client, host)
    elif restarts:
        reason = f"a rolling restart of {restarts[-1]} members lately: two rebalances for each of them"
        yield Advice("group.instance.id", remedy, reason)
    expired = caused(facts, Cause.STATIC_MEMBER_EXPIRED)
    if expired and (changed := _changed_ids(facts)):
        remedy = "give each process one that stays the same over deployments, as the name of a StatefulSet's "
        remedy += "pod does and that of a Deployment's does not, or leave it out"
        reason = (
            f"{changed} instance ids expired lately, others came, none came back: the group waits for the "
        )
        reason += "session of each that is gone"
        yield Advice("group.instance.id", remedy, reason)
    elif expired and any(m.instance_id for m in facts.members):
        session = max(m.session_timeout for m in facts.members)
        reason = f"static members expired {times(expired)} lately; session timeout {seconds(session)}"
        yield Advice(timeout, f"raise it {_STATIC_REMEDY}", reason)


def _changed_ids(facts: Facts) -> int:
    """Count the instance ids that expired while another one came in their place, where none is back.

    A process is replaced within a minute before its old self stops, or after that has expired.
    """
    gone, came = _instances(facts.findings, "left"), _instances(facts.findings, "joined", "replaced")
    there = {member.instance_id for member in facts.members}
    if any(name in there or came.get(name, -1) > at for name, at in gone.items()):
        return 0
    longest = max((m.session_timeout_ms or 0 for f in facts.findings for m in f.members), default=0)
    taken: set[str] = set()
    for name, at in sorted(gone.items(), key=lambda one: one[1]):
        since = max(at - longest - _REPLACED_MS, came.get(name, -1) + _TOGETHER_MS)
        heirs = (one for one, when in came.items() if since <= when <= at + _REPLACED_MS and one not in taken)
        taken.update([heir] if (heir := next(heirs, "")) else [])
    return len(taken) if len(taken) >= _SEVERAL else 0


def _instances(findings: Iterable[Finding], *roles: str) -> dict[str, int]:
    """Return instance id -> when (ms) a member last departed or joined under it, as `roles` say."""
    return {
        member.instance_id: finding.at
        for finding in findings
        if finding.kind in _GENERATIONS
        for member in finding.members
        if member.role in roles and member.instance_id is not None
    }
