"""What a group's owner should look at, each with its reason: one rule a function, one table of rules.

Advice is derived from what the records hold: timeouts, commit gaps, what happened lately, the spread.
heartbeat.interval.ms is in no record, so it is only said how large it may be. Nothing is said where nothing
is known.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rebalance_monitor.coordinator.causes import Cause
from rebalance_monitor.coordinator.families import FAMILIES
from rebalance_monitor.coordinator.kinds import Kind
from rebalance_monitor.coordinator.membership import COOPERATIVE
from rebalance_monitor.coordinator.reasons import seconds
from rebalance_monitor.coordinator.skew import KNOWN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from rebalance_monitor.coordinator.assignors.compare import Spread
    from rebalance_monitor.coordinator.dossier import Gap
    from rebalance_monitor.coordinator.findings import Finding
    from rebalance_monitor.coordinator.settings import DetectionSettings
    from rebalance_monitor.coordinator.state import GroupState, Member

SHORT_SESSION_MS = 10_000
USUAL_SESSION_MS = 45_000
LONG_SESSION_MS = 90_000
_NEAR = 0.5
_CHURN = 3
_EAGER_CHURN = 5
_EAGER = frozenset({"range", "roundrobin", "sticky"})


@dataclass(frozen=True, slots=True)
class Advice:
    """One piece of advice: what to do, the numbers that speak for it, and the client that they are of."""

    about: str
    advice: str
    reason: str
    client_id: str | None = None
    host: str | None = None


@dataclass(frozen=True, slots=True)
class Facts:
    """What the rules look at; `now` and `options` (spread now, and by assignor) as `explain` found them."""

    state: GroupState
    findings: tuple[Finding, ...]
    gaps: Mapping[str, Gap]
    settings: DetectionSettings
    now: Spread | None = None
    options: Mapping[str, Spread] = field(default_factory=dict)
    assignors: Mapping[str, str] = field(default_factory=dict)
    size: int = 0

    @property
    def members(self) -> list[Member]:
        """The group's members."""
        return self.state.members


def advise(facts: Facts) -> list[Advice]:
    """Return all that the rules say, in the order of the table."""
    return [advice for rule in RULES for advice in rule(facts)]


def _poll(facts: Facts) -> Iterable[Advice]:
    """Compare max.poll.interval with the time between commits, and with breaches."""
    breached = _caused(facts, Cause.POLL_INTERVAL_EXCEEDED)
    near = [
        (facts.gaps[m.member_id].ms, m)
        for m in facts.members
        if m.member_id in facts.gaps
        and FAMILIES[m.family].enforces_poll is not False
        and may_be_a_poll(facts.gaps[m.member_id].ms, m)
    ]
    remedy = "or fewer records a poll (max.poll.records), so that each batch is done sooner"
    if near:
        gap, member = max(near, key=lambda found: found[0])
        limit = seconds(member.rebalance_timeout)
        reason = f"{seconds(gap)} between two commits; max.poll.interval.ms is {limit}"
        more = f"raise it to at least {seconds(2 * gap)}, {remedy}"
        yield Advice("max.poll.interval.ms", more, reason, member.client_id, member.host)
    elif breached:
        reason = f"{breached} members lately stopped polling for max.poll.interval.ms"
        yield Advice("max.poll.interval.ms", f"raise it above the longest batch, {remedy}", reason)


def may_be_a_poll(gap: int, member: Member) -> bool:
    """Whether a gap of so many ms may be a long poll: over a longer one it polled, and committed nothing."""
    limit = member.rebalance_timeout
    return limit > 0 and _NEAR * limit <= gap < limit + max(member.cadence, 0)


def _session(facts: Facts) -> Iterable[Advice]:
    """Name session timeouts under 10 s, and those far over 45 s of groups without static members."""
    found = sorted({m.session_timeout for m in facts.members if m.session_timeout > 0})
    if facts.state.group_type != "classic" or not found:
        return
    usual = f"the default since Kafka 3.0 is {seconds(USUAL_SESSION_MS)}"
    if found[0] < SHORT_SESSION_MS:
        expired = _caused(facts, Cause.SESSION_TIMEOUT, Cause.STATIC_MEMBER_EXPIRED)
        reason = f"{seconds(found[0])}: a pause of a collector or of the network this long expires a member"
        reason += f"; {expired} expired lately" if expired else ""
        yield Advice("session.timeout.ms", f"raise it; {usual}", reason)
    if found[-1] > LONG_SESSION_MS and not any(m.instance_id for m in facts.members):
        reason = f"{seconds(found[-1])}: partitions of a member that crashed stand still that long"
        yield Advice("session.timeout.ms", f"lower it; {usual}", reason)


def _heartbeat(facts: Facts) -> Iterable[Advice]:
    """Say the largest heartbeat interval that the session timeouts allow; the interval is in no record."""
    sessions = [m.session_timeout for m in facts.members if m.session_timeout > 0]
    if facts.state.group_type == "classic" and sessions:
        most = seconds(min(sessions) // 3)
        reason = f"session.timeout.ms is {seconds(min(sessions))}; the interval itself is in no record"
        yield Advice("heartbeat.interval.ms", f"check in the client that it is at most {most}", reason)


def _mixed(facts: Facts) -> Iterable[Advice]:
    """Name timeouts and client families that differ within the group."""
    classic = facts.state.group_type == "classic"
    for about, values in (
        ("session.timeout.ms", {m.session_timeout for m in facts.members if classic}),
        ("max.poll.interval.ms", {m.rebalance_timeout for m in facts.members}),
    ):
        if len(values) > 1:
            listed = ", ".join(seconds(value) for value in sorted(values))
            reason = f"members have {listed}; the slowest one sets how long the group waits"
            yield Advice(about, "give all members the same value", reason)
    families = {m.family for m in facts.members} - {"unknown"}
    if len(families) > 1:
        reason = f"members look like {', '.join(sorted(families))}"
        yield Advice("clients", "check that all of them have the same list of assignors", reason)


def _assignors(facts: Facts) -> Iterable[Advice]:
    """Name assignors that differ: preferred by members of KIP-848 groups, or used one after the other."""
    preferred = {name for name in facts.assignors.values() if name}
    if len(preferred) > 1:
        reason = f"members prefer {', '.join(sorted(preferred))}; the most wanted one is used"
        yield Advice("group.remote.assignor", "give all members the same one", reason)
    used = {f.protocol for f in facts.findings if f.kind is Kind.REBALANCE and f.protocol}
    if facts.state.group_type == "classic" and len(used) > 1:
        reason = f"lately the group used {', '.join(sorted(used))}: members support different assignors"
        yield Advice("partition.assignment.strategy", "finish the roll-out, or take it back", reason)


def _static(facts: Facts) -> Iterable[Advice]:
    """Speak for static membership where clients go and come back, or all members are restarted in turn."""
    returns = Counter(
        (member.client_id, member.host)
        for finding in facts.findings
        if finding.kind is Kind.REBALANCE
        for member in finding.members
        if member.role == "joined" and member.instance_id is None
    )
    again = [who for who, times in returns.items() if times > 1]
    restarts = [f.details["restarted"] for f in facts.findings if f.kind is Kind.ROLLING_RESTART]
    timeout = "session.timeout.ms" if facts.state.group_type == "classic" else "consumer.session.timeout.ms"
    remedy = f"set it per process, and {timeout} above the time a restart takes"
    if facts.state.group_type == "share" or any(m.instance_id for m in facts.members):
        pass
    elif sum(returns[who] for who in again) >= _CHURN:
        client, host = max(again, key=lambda who: returns[who])
        reason = f"joined {returns[client, host]} times lately, each time with two rebalances"
        yield Advice("group.instance.id", remedy, reason, client, host)
    elif restarts:
        reason = f"a rolling restart of {restarts[-1]} members lately: two rebalances for each of them"
        yield Advice("group.instance.id", remedy, reason)
    expired = _caused(facts, Cause.STATIC_MEMBER_EXPIRED)
    if expired and any(m.instance_id for m in facts.members):
        session = max(m.session_timeout for m in facts.members)
        reason = f"{expired} static members expired lately; session timeout {seconds(session)}"
        yield Advice(timeout, "raise it above the time a restart takes", reason)


def _eager(facts: Facts) -> Iterable[Advice]:
    """Speak for cooperative rebalancing where an eager group rebalances often."""
    rebalances = sum(f.kind is Kind.REBALANCE for f in facts.findings)
    if facts.state.protocol in _EAGER and rebalances >= _EAGER_CHURN:
        reason = f"{rebalances} rebalances lately, and {facts.state.protocol} stops all members for each"
        yield Advice(
            "partition.assignment.strategy", "change to cooperative-sticky, in two roll-outs", reason
        )


def _spread(facts: Facts) -> Iterable[Advice]:
    """Name the assignor that would spread better, with its moves, and members beyond the partitions."""
    now, state = facts.now, facts.state
    classic = state.group_type == "classic"
    if now is None or not facts.options or (state.protocol in COOPERATIVE and now.moves):
        return
    if classic and state.protocol not in KNOWN:
        # The assignor of Kafka Streams, for one, is not for its users to choose.
        return
    best = min(facts.options, key=lambda n: (facts.options[n].most, -facts.options[n].least, n != "sticky"))
    option = facts.options[best]
    if option.most < now.most and now.most - now.least > option.most - option.least:
        reason = f"now {now.most} against {now.least} partitions; {best} gives {option.most} against "
        reason += f"{option.least} for {option.moves} moves"
        wanted = "cooperative-sticky" if best == "sticky" else best
        setting = "partition.assignment.strategy" if classic else "group.remote.assignor"
        yield Advice(setting, f"change to {wanted}", reason)
    elif now.idle and now.least == 0 and option.idle:
        reason = f"{now.idle} of {len(facts.members)} members have no partition, whatever the assignor"
        yield Advice("members", "run fewer of them, or give the topics more partitions", reason)


def _size(facts: Facts) -> Iterable[Advice]:
    """Warn of a record that nears the largest message."""
    limit = facts.settings.max_message_bytes
    if facts.size >= _NEAR * limit:
        reason = f"the group's record has {facts.size} of {limit} bytes; beyond, no assignment can be stored"
        yield Advice("max.message.bytes", "raise it for the offsets topic, or split the group", reason)


def _caused(facts: Facts, *causes: Cause) -> int:
    """Count the members of whom these are the likeliest cause, confidently."""
    sure = facts.settings.attribution_confidence
    kinds = {Kind.REBALANCE, Kind.GROUP_EMPTY}
    return len(
        {
            (finding.id, cause.member_id)
            for finding in facts.findings
            for cause in finding.causes
            if finding.kind in kinds and cause.cause in causes and cause.confidence >= sure
        }
    )


RULES: tuple[Callable[[Facts], Iterable[Advice]], ...] = (
    _poll,
    _session,
    _heartbeat,
    _mixed,
    _assignors,
    _static,
    _eager,
    _spread,
    _size,
)
"""Every rule, in the order in which advice is given."""
