"""Advice to the owner of a group, each with its reason: one rule a function, one table of rules.

Advice is derived from the records: timeouts, commit gaps, recent findings, the spread. heartbeat.interval.ms
is in no record, so only its upper bound is given. Nothing is advised without evidence. A setting is named
only if a client of the group has it.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from rebalance_monitor.coordinator.checks import applications
from rebalance_monitor.coordinator.checks.applications import TWO_APPLICATIONS
from rebalance_monitor.coordinator.checks.assignment import KNOWN
from rebalance_monitor.coordinator.commits.client_families import FAMILIES
from rebalance_monitor.coordinator.explain import returns, schedules
from rebalance_monitor.coordinator.explain.facts import Advice, Facts, caused, named_by, times
from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.finding import MAJORITY
from rebalance_monitor.coordinator.findings.kinds import Kind
from rebalance_monitor.coordinator.findings.wording import seconds
from rebalance_monitor.coordinator.rebalance import visits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from rebalance_monitor.coordinator.commits.client_families import Family
    from rebalance_monitor.coordinator.explain.dossier import Gap
    from rebalance_monitor.coordinator.state.group_state import Member

SHORT_SESSION_MS = 10_000
USUAL_SESSION_MS = 45_000
LONG_SESSION_MS = 90_000
_NEAR = 0.5
_EAGER_CHURN = 5
_LIVES = frozenset({Cause.JOIN_DEADLINE_MISSED, Cause.POLL_INTERVAL_EXCEEDED})
_EAGER = frozenset({"range", "roundrobin", "sticky"})
_COOPERATIVE = "cooperative-sticky"
_RECENT = 10
_NAMED = 3


def advise(facts: Facts) -> list[Advice]:
    """Return all that the rules say, in the order of the table."""
    return [advice for rule in RULES for advice in rule(facts)]


def _poll(facts: Facts) -> Iterable[Advice]:
    """Compare max.poll.interval with commits and breaches."""
    breached = caused(facts, Cause.POLL_INTERVAL_EXCEEDED, Cause.JOIN_DEADLINE_MISSED)
    breached *= not _who(facts, *_LIVES) <= returns.unclosed_clients(facts)
    longest = ((gap, one) for one in facts.members for gap in facts.gaps.get(one.member_id, {}).values())
    near = [(gap, member) for gap, member in longest if may_be_a_poll(gap, member)]
    if near:
        gap, member = max(near, key=lambda found: (found[0].proven, found[0].ms))
        remedy = _sooner([FAMILIES[member.family]])
        limit = seconds(member.rebalance_timeout)
        reason = f"{seconds(gap.ms)} between two commits; max.poll.interval.ms is {limit}"
        more = f"raise it to at least {seconds(2 * gap.ms)}, {remedy}"
        if not gap.proven:
            reason += "; that may be one batch, or a time without records"
            more = f"check its lag at that time: if it had records to read all that time, {more}"
        yield Advice("max.poll.interval.ms", more, reason, member.client_id, member.host)
    elif breached and (not _who(facts, Cause.POLL_INTERVAL_EXCEEDED) or _waits_on(facts)):
        reason = f"members did not rejoin within the rebalance timeout {times(breached)} lately"
        remedy = "end a batch, or a handler, when the group rebalances, or raise it above the longest batch"
        yield Advice("rebalance timeout", remedy, reason)
    elif breached:
        reason = f"members stopped polling for max.poll.interval.ms {times(breached)} lately"
        remedy = f"raise it above the longest batch, {_sooner(facts.families)}"
        yield Advice("max.poll.interval.ms", remedy, reason)


def _who(facts: Facts, *causes: Cause) -> set[tuple[str, str]]:
    """Return client id and host of the members of which a majority speaks for one of these causes."""
    named = [one for cause in causes for one in named_by(facts, cause) if one.confidence >= MAJORITY]
    return {(one.client_id or "", one.host or "") for one in named}


def _waits_on(facts: Facts) -> bool:
    """Whether no client of the group leaves by itself when its application does not poll."""
    return bool(facts.families) and all(one.enforces_poll is False for one in facts.families)


def _shared(facts: Facts) -> Iterable[Advice]:
    """Name applications that share this group id."""
    strangers = named_by(facts, Cause.CONNECT_CONFIGS_DIFFER)
    for client, host in sorted({(one.client_id or "", one.host or "") for one in strangers}):
        remedy = "give the worker's Connect cluster its own, or the config.storage.topic of the others"
        yield Advice("group.id", remedy, strangers[-1].why, client, host)
    apart = applications.apart(facts.subscriptions)
    if len(apart) > 1:
        reason = "members subscribe to sets of topics that have none in common: "
        reason += applications.described(facts.members, apart, facts.subscriptions)
        yield Advice("group.id", f"{TWO_APPLICATIONS}: give each one of its own", reason)
    elif shared := named_by(facts, Cause.GROUP_ID_SHARED):
        why = shared[-1].why
        remedy = "give the application that uses assign(), or only commits, one of its own"
        if TWO_APPLICATIONS in why:
            remedy = f"{TWO_APPLICATIONS}: give each one of its own"
        yield Advice("group.id", remedy, why)
    asked = {topic for topics in facts.subscriptions.values() for topic in topics}
    foreign = visits.unsubscribed(facts.state, asked)
    if foreign:
        reason = (
            f"offsets are committed for topics to which no member subscribes: {', '.join(foreign[:_NAMED])}"
        )
        yield Advice("group.id", "look for a member that assigns itself, or a transactional producer", reason)


def _sooner(families: list[Family]) -> str:
    """Say what makes a batch shorter, by its setting where all of these clients have the same."""
    settings = {family.batch for family in families}
    named = f" ({settings.pop()})" if len(settings) == 1 and "" not in settings else ""
    return f"or fewer records a poll{named}, so that each batch is done sooner"


def may_be_a_poll(gap: Gap, member: Member) -> bool:
    """Whether a gap may be a long poll: over a longer one it polled, and committed nothing."""
    limit, enforces = member.rebalance_timeout, FAMILIES[member.family].enforces_poll
    most = limit + max(member.cadence, 0) if gap.proven else limit
    return enforces is not False and limit > 0 and _NEAR * limit <= gap.ms < most


def _session(facts: Facts) -> Iterable[Advice]:
    """Name session timeouts under 10 s, or far over 45 s without static members."""
    found = sorted({m.session_timeout for m in facts.members if m.session_timeout > 0})
    if facts.state.group_type != "classic" or not found:
        return
    usual = f"the default since Kafka 3.0 is {seconds(USUAL_SESSION_MS)}"
    if found[0] < SHORT_SESSION_MS:
        expired = caused(facts, Cause.SESSION_TIMEOUT, Cause.STATIC_MEMBER_EXPIRED)
        reason = f"{seconds(found[0])}: a pause of a collector or of the network this long expires a member"
        reason += f"; members expired {times(expired)} lately" if expired else ""
        yield Advice("session.timeout.ms", f"raise it; {usual}", reason)
    if found[-1] > LONG_SESSION_MS and not any(m.instance_id for m in facts.members):
        reason = f"{seconds(found[-1])}: partitions of a member that crashed stand still that long"
        yield Advice("session.timeout.ms", f"lower it; {usual}", reason)


def _heartbeat(facts: Facts) -> Iterable[Advice]:
    """Say the largest heartbeat interval that the session timeouts allow."""
    sessions = [m.session_timeout for m in facts.members if m.session_timeout > 0]
    if facts.state.group_type == "classic" and sessions:
        most = seconds(min(sessions) // 3)
        reason = f"session.timeout.ms is {seconds(min(sessions))}; the interval itself is in no record"
        yield Advice("heartbeat.interval.ms", f"check in the client that it is at most {most}", reason)


def _mixed(facts: Facts) -> Iterable[Advice]:
    """Name timeouts and client families that differ within the group."""
    classic = facts.state.group_type == "classic"
    for about, values in (
        (
            "session.timeout.ms",
            {m.session_timeout for m in facts.members if classic and m.session_timeout > 0},
        ),
        ("max.poll.interval.ms", {m.rebalance_timeout for m in facts.members if m.rebalance_timeout > 0}),
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
    """Name assignors that differ between members, or change to and fro."""
    preferred = {name for name in facts.assignors.values() if name}
    if len(preferred) > 1:
        reason = f"members prefer {', '.join(sorted(preferred))}; the most wanted one is used"
        yield Advice("group.remote.assignor", "give all members the same one", reason)
    used = [f.protocol for f in facts.findings if f.kind is Kind.REBALANCE and f.protocol][-_RECENT:]
    # One change is a roll-out that was finished, for all that is known.
    if facts.state.group_type == "classic" and sum(old != new for old, new in pairwise(used)) > 1:
        reason = f"lately the group alternated between {', '.join(sorted(set(used)))}"
        yield Advice("partition.assignment.strategy", "finish the roll-out, or take it back", reason)


def _scheduled(facts: Facts) -> Iterable[Advice]:
    """Suggest to declare a schedule on which members come and go."""
    every = schedules.interval(facts.findings)
    if every is not None and not facts.settings.expected_churn:
        reason = f"members join, work and leave every {seconds(every)}, each time with a LeaveGroup"
        remedy = "if that is meant, declare expected_churn for the group: it is no storm then"
        yield Advice("groups", remedy, reason)


def _eager(facts: Facts) -> Iterable[Advice]:
    """Speak for cooperative rebalancing where an eager group rebalances often."""
    rebalances = sum(f.kind is Kind.REBALANCE for f in facts.findings)
    if facts.state.protocol in _EAGER and rebalances >= _EAGER_CHURN and _COOPERATIVE in _offered(facts):
        reason = f"{rebalances} rebalances lately, and {facts.state.protocol} stops all members for each"
        yield Advice("partition.assignment.strategy", _change(facts, _COOPERATIVE), reason)


def _offered(facts: Facts) -> set[str]:
    """Return the classic assignors that no member's client is known to lack."""
    known = [family.assignors for family in facts.families if family.assignors is not None]
    return set(KNOWN.intersection(*known))


def _change(facts: Facts, wanted: str) -> str:
    """Say how to change to the assignor that is `wanted`."""
    how = f"change to {wanted}"
    if wanted == _COOPERATIVE:
        mixed = all(family.mixes_assignors for family in facts.families)
        how += (
            ", in two roll-outs"
            if mixed
            else ", with all members stopped: librdkafka cannot mix it with another assignor"
        )
    known = all(family.assignors is not None for family in facts.families)
    return how if known else f"{how}, if all its clients support it"


def _spread(facts: Facts) -> Iterable[Advice]:
    """Name an assignor that would spread better, and members beyond the partitions."""
    now, state = facts.now, facts.state
    classic = state.group_type == "classic"
    if now is None or (classic and state.protocol not in KNOWN):
        # The assignor of Kafka Streams, for one, is not for its users to choose.
        return
    offered = _offered(facts) if classic else facts.options.keys()
    used = {state.protocol} if classic else set(facts.assignors.values())
    options = {name: option for name, option in facts.options.items() if name in offered | used}
    if not options:
        return
    best = min(options, key=lambda n: (options[n].most, -options[n].least, n not in used, n != _COOPERATIVE))
    option = options[best]
    if best not in used and option.most < now.most and now.most - now.least > option.most - option.least:
        reason = f"now {now.most} against {now.least} partitions; {best} gives {option.most} against "
        reason += f"{option.least} for {option.moves} moves"
        setting = "partition.assignment.strategy" if classic else "group.remote.assignor"
        yield Advice(setting, _change(facts, best) if classic else f"change to {best}", reason)
    elif now.idle and now.least == 0 and option.idle:
        reason = f"{now.idle} of {len(facts.members)} members have no partition, whatever the assignor"
        yield Advice("members", "run fewer of them, or give the topics more partitions", reason)


def _size(facts: Facts) -> Iterable[Advice]:
    """Warn of a record that nears the largest message."""
    limit = facts.settings.max_message_bytes
    if facts.size >= _NEAR * limit:
        reason = f"the group's record has {facts.size} of {limit} bytes; beyond, no assignment can be stored"
        yield Advice("max.message.bytes", "raise it for the offsets topic, or split the group", reason)


RULES: tuple[Callable[[Facts], Iterable[Advice]], ...] = (
    _poll,
    returns.unclosed,
    returns.blocked,
    returns.threads,
    returns.leader,
    _shared,
    _session,
    _heartbeat,
    _mixed,
    _assignors,
    returns.static,
    _scheduled,
    _eager,
    _spread,
    _size,
)
"""Every rule, in the order in which advice is given."""
