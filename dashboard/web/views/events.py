"""Events: findings that say the same thing are one row.

These belong to one event: the phases of an incident; a rebalance, the departures that caused it, the failed
generations before it, the probe's view of it and what it cost; a silent member and its departure; a finding
about many groups and what it stands for in each. Events that are alike and come in one burst, of as many
groups or partitions, are one row with their number, as after a broker restart.
Pure: the order and the batches in which findings came do not matter.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

from rebalance_monitor.coordinator.findings.kinds import Kind, Severity
from rebalance_monitor.dashboard.web.views.trouble import LOUDNESS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rebalance_monitor.coordinator.findings.finding import Finding
    from rebalance_monitor.dashboard.web.views.shapes import EventRow

SETTLED_MS = 5_000
"""A rebalance's record may be a little later than the sample that no longer saw it."""

GROUPS = 20
"""Names of groups that a row of many lists."""
ALIKE = 5
"""So many events that are alike within a burst are one row."""
BURST_MS = 2_000
"""The longest pause within a burst."""
MOVED_ALIKE, MOVED_BURST_MS, MOVED_MS = 3, 15_000, 60_000
"""The same within `MOVED_MS` of a coordinator's move: a common cause is known, and it takes its time."""

_GENERATIONS = frozenset({Kind.REBALANCE, Kind.REBALANCE_FAILED, Kind.GROUP_EMPTY})
_DEPARTURES = frozenset({Kind.SESSION_TIMEOUT, Kind.POLL_INTERVAL_EXCEEDED})
_BESIDE = _DEPARTURES | {Kind.REBALANCE_COST}
_DISTURBED = _DEPARTURES | {Kind.REBALANCE, Kind.REBALANCE_FAILED}
_MOVES = frozenset({Kind.COORDINATOR_MOVED, Kind.BROKER_AWAY})
# What names an event among findings that are equally severe; any other kind stands before these.
_NAMING = (
    *(Kind.POLL_INTERVAL_EXCEEDED, Kind.SESSION_TIMEOUT, Kind.GROUP_EMPTY, Kind.REBALANCE),
    *(Kind.REBALANCE_FAILED, Kind.MEMBER_SILENT, Kind.REBALANCE_IN_PROGRESS, Kind.REBALANCE_COST),
)
_RANKS = {kind: rank for rank, kind in enumerate(_NAMING)}


@dataclass(frozen=True, slots=True)
class Event:
    """Findings of one event, oldest first; `head` names it. `parts`: the events of a burst, else none."""

    head: Finding
    findings: tuple[Finding, ...]
    parts: tuple[Event, ...] = ()

    @property
    def at(self) -> int:
        """When its newest finding happened, ms."""
        return self.findings[-1].at

    @property
    def since(self) -> int:
        """When it began, ms."""
        opened = [one.at if one.opened_at is None else one.opened_at for one in self.findings]
        return min(opened)


def events_of(findings: Iterable[Finding]) -> list[Event]:
    """Return the events of these findings, the newest first."""
    ordered = sorted(findings, key=lambda one: (one.at, one.id))
    moved = [one.at for one in ordered if one.kind in _MOVES]
    return sorted(_bursts(_joined(ordered), moved), key=lambda one: (one.at, one.head.id), reverse=True)


def event_row(event: Event, cut_at: int = -1) -> EventRow:
    """Return one event as a row; findings before `cut_at` (ms) were not read, -1 if all were."""
    head, all_groups = event.head, _groups(event)
    cause = head.causes[0] if head.causes else None
    brokers = {one.head.coordinator.broker for one in event.parts or (event,) if one.head.coordinator}
    return {
        "id": head.id,
        "at": event.at,
        "since": event.since,
        "kind": head.kind.value,
        "severity": head.severity.value,
        "phase": head.phase,
        "count": sum(int(one.head.details.get("moved", 1)) for one in event.parts or (event,)),
        "is_cut": bool(event.parts) and event.since <= cut_at + MOVED_BURST_MS,
        "group": head.group if len(all_groups) == 1 else None,
        "groups": all_groups[:GROUPS] if len(all_groups) > 1 else [],
        "groups_total": head.groups_total or len(all_groups),
        "generation": None if event.parts else head.generation,
        "cause": cause.cause.value if cause else "",
        "confidence": cause.confidence if cause else head.confidence,
        "clients": [] if event.parts else _clients(event),
        "with_kinds": sorted({one.kind.value for one in event.findings} - {head.kind.value}),
        "incident": None if event.parts else head.incident,
        "broker": brokers.pop() if len(brokers) == 1 and head.kind is Kind.COORDINATOR_MOVED else None,
        "waiting": max((int(one.details.get("waiting_peak", 0)) for one in event.findings), default=0),
        "findings": [one.id for one in event.findings],
    }


def _groups(event: Event) -> list[str]:
    named = [one.head.group for one in event.parts or (event,) if one.head.group is not None]
    return list(dict.fromkeys(named))


def _clients(event: Event) -> list[str]:
    """Return the clients that departures of the event name, or else its likeliest cause."""
    departures = [one for one in event.findings if one.kind in _DEPARTURES] or [event.head]
    named = (one.causes[0].client_id for one in departures if one.causes)
    return list(dict.fromkeys(filter(None, named)))


class _Sets:
    """Disjoint sets of findings, by their places in a list."""

    def __init__(self, size: int) -> None:
        self._parents = list(range(size))

    def root(self, place: int) -> int:
        """Return what stands for the set of one finding."""
        while self._parents[place] != place:
            self._parents[place] = place = self._parents[self._parents[place]]
        return place

    def join(self, one: int, other: int) -> None:
        """Make one set of two."""
        self._parents[self.root(one)] = self.root(other)


def _joined(findings: Sequence[Finding]) -> list[Event]:
    """Return the events of findings, oldest first, before bursts are merged."""
    sets, first = _Sets(len(findings)), dict[object, int]()
    by_group: defaultdict[str, list[int]] = defaultdict(list)
    for place, finding in enumerate(findings):
        for key in _keys(finding):
            sets.join(place, first.setdefault(key, place))
        if finding.group is not None:
            by_group[finding.group].append(place)
    for places in by_group.values():
        for one, other in _observed(findings, places):
            sets.join(one, other)
    for place, finding in enumerate(findings):
        for other in (one for name in finding.groups for one in by_group.get(name, ())):
            if finding.group is None and _stands_for(finding, findings[other]):
                sets.join(other, place)
    found: defaultdict[int, list[Finding]] = defaultdict(list)
    for place, finding in enumerate(findings):
        found[sets.root(place)].append(finding)
    return [_event(one) for one in found.values()]


def _keys(finding: Finding) -> list[object]:
    """Return what findings of one event share."""
    keys: list[object] = [("id", finding.id)]
    if finding.incident is not None:
        keys.append(("id", finding.incident))
    if finding.kind in _BESIDE and finding.details.get("rebalance"):
        keys.append(("id", finding.details["rebalance"]))
    if finding.kind in {Kind.REBALANCE, Kind.REBALANCE_FAILED} and finding.generation is not None:
        keys.append(("generation", finding.group, finding.generation, finding.at))
    return keys


def _observed(findings: Sequence[Finding], places: Sequence[int]) -> Iterable[tuple[int, int]]:
    """Yield what the probe or the clock saw of a group's rebalance, and the finding of that rebalance."""
    for place in places:
        over = findings[place]
        if over.phase != "resolved" or over.opened_at is None:
            continue
        near = [
            other
            for other in places
            if over.opened_at < findings[other].at <= over.at + SETTLED_MS
            and _explains(findings[other], over)
        ]
        if near:
            # The newest: an incident may have lasted for several generations.
            yield place, near[-1]


def _explains(finding: Finding, over: Finding) -> bool:
    if over.kind is Kind.REBALANCE_IN_PROGRESS:
        return finding.kind in _GENERATIONS and finding.phase in {None, "opened"}
    if over.kind is Kind.MEMBER_SILENT and over.resolution == "confirmed":
        silent = {member.member_id for member in over.members[:1]}
        return finding.kind in _DEPARTURES and bool(silent & {one.member_id for one in finding.causes[:1]})
    return False


def _stands_for(many: Finding, one: Finding) -> bool:
    """Whether a finding about many groups says what this one says of one of them."""
    opened = many.at if many.opened_at is None else many.opened_at
    kinds = _DISTURBED if many.kind in _MOVES else {many.kind}
    return (
        many.phase != "resolved" and one.kind in kinds and opened - MOVED_MS <= one.at <= many.at + SETTLED_MS
    )


def _event(findings: list[Finding]) -> Event:
    """Name an event of findings, oldest first."""
    # Of an incident its newest finding counts, as loud as the incident ever was.
    newest = {one.incident or one.id: one for one in findings}
    loudest: dict[str, Severity] = {}
    for one in findings:
        name = one.incident or one.id
        loudest[name] = min(loudest.get(name, one.severity), one.severity, key=LOUDNESS.__getitem__)
    heads = [
        one if one.severity is loudest[name] else replace(one, severity=loudest[name])
        for name, one in newest.items()
    ]
    head = min(heads, key=lambda one: (LOUDNESS[one.severity], _RANKS.get(one.kind, -1), one.at, one.id))
    return Event(head, tuple(findings))


def _bursts(events: Sequence[Event], moved: Sequence[int]) -> list[Event]:
    """Return the events; alike ones that come at once are made one."""
    alike: defaultdict[tuple[bool, object], list[Event]] = defaultdict(list)
    found: list[Event] = []
    for event in events:
        head = event.head
        if head.severity is Severity.CRITICAL or head.groups_total:
            found.append(event)
            continue
        cause = head.causes[0].cause if head.causes else None
        before = bisect_right(moved, event.since + BURST_MS)
        near = before > 0 and moved[before - 1] >= event.since - MOVED_MS
        alike[near, (head.kind, cause, head.severity, head.phase)].append(event)
    for (near, _), same in alike.items():
        found += _of_kind(same, near=near)
    return found


def _of_kind(events: Sequence[Event], *, near: bool) -> list[Event]:
    least, pause = (MOVED_ALIKE, MOVED_BURST_MS) if near else (ALIKE, BURST_MS)
    ordered = sorted(events, key=lambda one: (one.since, one.head.id))
    runs: list[list[Event]] = [ordered[:1]]
    for before, event in pairwise(ordered):
        if event.since - before.since > pause:
            runs.append([])
        runs[-1].append(event)
    return [one for run in runs for one in _of_run(run, least)]


def _of_run(run: Sequence[Event], least: int) -> list[Event]:
    """Make one event of a run of as many subjects; subjects with several events in it stay apart."""
    subjects = Counter(map(_subject, run))
    once = [one for one in run if subjects[_subject(one)] == 1]
    if len(once) < least:
        return list(run)
    every = sorted((one for event in once for one in event.findings), key=lambda one: (one.at, one.id))
    burst = Event(max(once, key=lambda one: (one.at, one.head.id)).head, tuple(every), tuple(once))
    return [burst, *(one for one in run if subjects[_subject(one)] > 1)]


def _subject(event: Event) -> tuple[object, ...]:
    return event.head.group, event.head.shard
