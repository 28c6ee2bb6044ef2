"""`explain GROUP` as data: coordinator, members, what happened, the spread and its alternatives, advice.

Pure: from a dossier and what is known of the place (partition, broker). Everything is JSON-able; what is not
known is null, what is assumed stands in `notes`.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from rebalance_monitor.coordinator.assignors import compare
from rebalance_monitor.coordinator.assignors.model import Subscriber
from rebalance_monitor.coordinator.checks import assignment
from rebalance_monitor.coordinator.commits import positions, topic_names
from rebalance_monitor.coordinator.explain import advice
from rebalance_monitor.coordinator.explain.dossier import TOLD
from rebalance_monitor.coordinator.explain.facts import Facts
from rebalance_monitor.coordinator.findings.finding import HELD_BY
from rebalance_monitor.coordinator.findings.kinds import Kind
from rebalance_monitor.coordinator.findings.wording import counted, seconds
from rebalance_monitor.coordinator.lag.committing import COMMITS_ONLY
from rebalance_monitor.coordinator.lag.judging.continuing import STANDING
from rebalance_monitor.coordinator.state.membership import COOPERATIVE

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from rebalance_monitor.coordinator.explain.dossier import Dossier
    from rebalance_monitor.coordinator.findings.finding import Finding
    from rebalance_monitor.coordinator.settings import DetectionSettings
    from rebalance_monitor.coordinator.state.group_state import GroupState, Member

Json = dict[str, Any]
MAX_REBALANCES = 20
MAX_CAUSES = 5
_MAX_UNOWNED = 10


@dataclass(frozen=True, slots=True)
class Place:
    """Where the group is coordinated; broker and epoch -1 where unknown. `live_state`: the broker's word."""

    shard: int
    shards: int
    broker: int = -1
    leader_epoch: int = -1
    live_state: str = ""


def explain(
    dossier: Dossier, place: Place, settings: DetectionSettings, partitions: Mapping[str, int] | None = None
) -> Json:
    """Return all that is known of the group; `partitions`: topic -> partitions as the brokers report them.

    Raises ValueError where no record of the group was read.
    """
    state = dossier.known
    if state is None:
        raise ValueError(f"no record of the group {dossier.group} was read")
    members, counts, assumed = _membership(dossier, state, partitions or {})
    now = compare.current(members) if members else None
    epochs = state.group_type == "consumer"
    options = compare.alternatives(members, counts, epochs=epochs)
    facts = Facts(
        state,
        tuple(dossier.findings),
        dossier.gaps,
        settings.for_group(dossier.group),
        now,
        options,
        dossier.assignors,
        dossier.size,
        dossier.asked,
    )
    names = topic_names.named(state) or state.topics
    topics = [name or topic for name, topic in zip(names, state.topics, strict=True)]
    return {
        "group": dossier.group,
        "coordinator": _coordinator(place),
        **_group(state, place, dossier.asked),
        "commits_per_minute": dossier.commits_per_minute,
        "members": [_member(dossier, topics, member) for member in state.members],
        "rebalances": [_event_json(finding) for finding in _recent(dossier)],
        "spread": _spread(state, now, options, counts),
        "advice": [asdict(one) for one in advice.advise(facts)] if dossier.state else [],
        "notes": [
            *assumed,
            *_unowned(state, dossier.asked, partitions or {}),
            *_notes(dossier, state, settings, options),
        ],
    }


def _coordinator(place: Place) -> Json:
    return {
        "partition": place.shard,
        "of": place.shards,
        "broker": None if place.broker < 0 else place.broker,
        "leader_epoch": None if place.leader_epoch < 0 else place.leader_epoch,
    }


def _group(state: GroupState, place: Place, asked: Mapping[str, Sequence[str]]) -> Json:
    places = positions.places_of(state.positions)
    named = list(state.subscriptions.names or state.topics)
    named += sorted({topic for topics in asked.values() for topic in topics}.difference(named))
    return {
        "state": place.live_state or str(state.status),
        "recorded_state": str(state.status),
        "group_type": state.group_type,
        "protocol_type": state.protocol_type,
        "protocol": state.protocol or None,
        "generation": known(state.generation),
        "leader": state.leader or None,
        "since": known(state.cst),
        "last_commit": known(max(state.last_commit, positions.newest(places))),
        "topics": named or sorted(places),
    }


def known(value: int) -> int | None:
    """Return a number, None for what is not known."""
    return value if value >= 0 else None


def _member(dossier: Dossier, topics: list[str], member: Member) -> Json:
    gaps = dossier.gaps.get(member.member_id, {}).values()
    return {
        "member_id": member.member_id,
        "instance_id": member.instance_id,
        "client_id": member.client_id,
        "host": member.host,
        "host_is_stale": member.host_stale,
        "family": member.family,
        "session_timeout_ms": known(member.session_timeout),
        "rebalance_timeout_ms": known(member.rebalance_timeout),
        "largest_heartbeat_interval_ms": known(member.session_timeout // 3),
        "partitions": len(member.offsets),
        "assigned": {topics[place]: sorted(given) for place, *given in member.assigned},
        "commit_every_ms": known(member.cadence),
        "longest_commit_gap_ms": max((gap.ms for gap in gaps), default=None),
        "last_commit": known(member.last_commit),
        "epoch": None if member.epoch == -1 else member.epoch,
        "work": asdict(work) if (work := dossier.work.get(member.member_id)) else None,
        "server_assignor": dossier.assignors.get(member.member_id) or None,
    }


def _recent(dossier: Dossier) -> list[Finding]:
    over = {(one.incident, one.kind) for one in dossier.findings if one.resolution is not None}
    seen: set[tuple[str | None, Kind]] = set()
    kept = []
    for one in dossier.findings:
        if one.kind in TOLD and _is_representative(one, over, seen):
            kept.append(one)
        seen.add((one.incident, one.kind))
    return kept[-MAX_REBALANCES:][::-1]


def _is_representative(
    finding: Finding, over: Collection[tuple[str | None, Kind]], seen: Collection[tuple[str | None, Kind]]
) -> bool:
    """Whether this finding stands for its incident: the first, or the last where only that sums it up.

    Of a silence that is over the rebalance that followed says more, or there is nothing to say.
    """
    incident = finding.incident, finding.kind
    if finding.phase is None:
        return True
    if finding.kind in _SUMMED_UP and incident in over:
        return finding.phase == "resolved"
    is_first = finding.phase != "resolved" and incident not in seen
    return is_first and not (finding.kind is Kind.MEMBER_SILENT and incident in over)


_SUMMED_UP = frozenset({Kind.REBALANCE_STUCK, Kind.STORM})
_COST = ("rebalances", "arrived", "waiting_at_stop", "waiting_peak", "caught_up_at", "caught_up_ms")
"""What lag says a rebalance cost, as far as a finding carries it."""


def _event_json(finding: Finding) -> Json:
    roles = [member.role for member in finding.members]
    return {
        "at": finding.at,
        "kind": finding.kind.value,
        "generation": finding.generation,
        "history": finding.history,
        "joined": roles.count("joined"),
        "left": roles.count("left"),
        "replaced": roles.count("replaced"),
        "held_by": _holder(finding),
        "join_ms_min": finding.join_ms_min,
        "join_ms_max": finding.join_ms_max,
        "sync_ms": finding.sync_ms,
        "failed": finding.details.get("failed") if finding.kind is Kind.REBALANCE_FAILED else None,
        "stopped_ms": finding.stopped_ms_max,
        "about": _about(finding),
        "cost": {name: finding.details[name] for name in _COST if name in finding.details},
        "causes": [asdict(cause) | {"cause": cause.cause.value} for cause in finding.causes[:MAX_CAUSES]],
    }


def _about(finding: Finding) -> str | None:
    """Return what an incident without causes is about in words, None for any other finding."""
    details = finding.details
    if finding.kind is Kind.STORM and "count" in details:
        number, span = int(details["count"]), seconds(int(details.get("window_ms", 0)))
        return f"{counted(number, 'rebalance')} in {span}"
    if finding.kind not in STANDING:
        return None
    who = ", ".join(dict.fromkeys(one.client_id for one in finding.members))
    waiting = counted(int(details.get("waiting", 0)), "record")
    return f"{waiting} waited for {who}" if who else f"{waiting} waited"


def _holder(finding: Finding) -> str | None:
    """Return the client id of the departed member that the join phase waited for, None where not known.

    A stuck rebalance names the clients that it waits for, or waited for.
    """
    name = finding.details.get(HELD_BY)
    held = next((one.client_id for one in finding.members if one.member_id == name), None)
    waits_for = finding.details.get("waits_for")
    return held or (str(waits_for) if waits_for else None)


def _membership(
    dossier: Dossier, state: GroupState, partitions: Mapping[str, int]
) -> tuple[list[Subscriber], dict[str, int], list[str]]:
    """Return members as assignors take them, topic -> partitions, and what was assumed."""
    if not state.members:
        return [], {}, []
    if state.group_type == "classic":
        members = assignment.subscribers(state, dossier.subscriptions)
        topics = {topic for member in members for topic in member.topics}
        counts = {topic: partitions[topic] for topic in topics if partitions.get(topic, 0) > 0}
        handed = dict(zip(state.topics, state.totals, strict=True))
        unknown = sorted(topic for topic in topics if topic in handed and topic not in counts)
        counts |= {topic: handed[topic] for topic in unknown}
        note = "partition counts are those that were handed out, not asked of the brokers"
        return (members, counts, [note]) if unknown else (members, counts, [])
    return _epochs(state)


def _epochs(state: GroupState) -> tuple[list[Subscriber], dict[str, int], list[str]]:
    """Epoch-based groups: topics are ids, counted as handed out; only equal subscriptions can be compared."""
    if state.group_type != "consumer" or len({member.subscribed for member in state.members}) != 1:
        return [], {}, ["the spread is compared where all members subscribe to the same topics"]
    topics = tuple(state.topics)
    owned = [tuple((topics[t], p) for t, *given in m.assigned for p in given) for m in state.members]
    members = [
        Subscriber(member.member_id, topics, member.instance_id, owned=places)
        for member, places in zip(state.members, owned, strict=True)
    ]
    counts = {
        topic: 1 + max((p for places in owned for name, p in places if name == topic), default=-1)
        for topic in topics
    }
    return members, counts, ["records of this group name topics by id; counts are those handed out"]


def _spread(
    state: GroupState,
    now: compare.Spread | None,
    options: Mapping[str, compare.Spread],
    counts: Mapping[str, int],
) -> Json:
    return {
        "partitions": sum(counts.values()),
        "now": None if now is None else asdict(now) | {"protocol": state.protocol or None},
        "assignors": {name: asdict(option) for name, option in options.items()},
    }


def _unowned(
    state: GroupState, asked: Mapping[str, Sequence[str]], partitions: Mapping[str, int]
) -> list[str]:
    """Name subscribed topics that no member owns, with what the brokers report of them."""
    if state.group_type != "classic" or state.protocol_type != "consumer" or state.protocol in COOPERATIVE:
        return []
    every = {topic for topics in asked.values() for topic in topics}
    lines = []
    for topic in sorted(every.difference(state.topics))[:_MAX_UNOWNED]:
        names = sorted({one.client_id for one in state.members if topic in asked[one.member_id]})
        count = partitions.get(topic, -1)
        what = f"it has {count} partitions, which nobody reads" if count > 0 else "it does not exist"
        known = what if count >= 0 else "whether it exists was not asked of the brokers"
        lines.append(f"{topic} is subscribed to by {', '.join(names[:3])} and owned by no member: {known}")
    return lines


def _notes(
    dossier: Dossier, state: GroupState, settings: DetectionSettings, options: Mapping[str, compare.Spread]
) -> list[str]:
    notes = []
    if state.group_type == COMMITS_ONLY:
        notes.append(
            "the group has no record of its own, only commits: its consumers assign themselves partitions "
            "(assign()), or an application stores offsets under its name; nothing of it can rebalance"
        )
        if not state.positions.runs and not state.positions.table:
            notes.append(
                "it commits more partitions than are kept of such a group: its topics are not listed"
            )
    elif dossier.state is None:
        count, unreadable = counted(dossier.records, "record"), dossier.unreadable
        were = "was" if dossier.records == 1 else "were"
        ended = f"{unreadable:,} could not be decoded" if unreadable else "the last of them removed the group"
        notes.append(f"{count} of the group {were} read; {ended}")
    elif state.group_type not in {"classic", ""}:
        session, assumed = settings.session_timeout(dossier.group, state.group_type)
        whose = "is assumed" if assumed else "is the brokers' or configured"
        if assumed and settings.session_timeouts_unread:
            whose += ", for one of the group's own could not be read (DescribeConfigs on groups)"
        notes.append(f"session timeouts of this group are in no record: {session} ms {whose}")
    if dossier.state is not None and dossier.unreadable:
        of_group = counted(dossier.unreadable, "record")
        notes.append(
            f"{of_group} of the group could not be read, so this may be incomplete: `decode` shows why"
        )
    if options:
        notes.append("moves are counted from the present assignment; racks of replicas are not considered")
    return notes
