"""The list of groups: one moment, ready to be searched, filtered, sorted and paged.

What a group's row needs is worked out once per change of the group and kept; a board of 10,000 groups is then
some milliseconds per batch and a page of it less.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from itertools import pairwise
from threading import Lock
from typing import TYPE_CHECKING, Any

from rebalance_monitor.config.teams import nobodys
from rebalance_monitor.coordinator.findings.kinds import Kind, Severity
from rebalance_monitor.coordinator.lag.committing import COMMITS_ONLY
from rebalance_monitor.dashboard.view.incidents import by_group
from rebalance_monitor.dashboard.web.views.trouble import NO_TROUBLE, Trouble, breaches, of_incident, worst

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rebalance_monitor.coordinator.findings.finding import Finding
    from rebalance_monitor.dashboard.view.group_view import GroupView
    from rebalance_monitor.dashboard.view.incidents import Incident
    from rebalance_monitor.dashboard.view.snapshot import Known
    from rebalance_monitor.dashboard.web.views.shapes import GroupRow

HOUR_MS = 3_600_000
BARS = 12
LAG_STEP = 10
"""Of the samples of a group's lag every so many-th is drawn in its row: with one every 5 s, twelve points."""
TOPICS = 5
"""So many topics of a group stand in its row; its own page has more."""
_MOVING = frozenset({Kind.REBALANCE_IN_PROGRESS, Kind.REBALANCE_STUCK})


@dataclass(frozen=True, slots=True)
class Facts:
    """What changes only with the group. times: of its rebalances, ms ascending. words: for the search."""

    view: GroupView
    times: tuple[int, ...]
    breaches: tuple[Trouble, ...]
    cause: str
    confidence: float
    words: str
    team: str


@dataclass(frozen=True, slots=True)
class Entry:
    """One group at the board's moment."""

    facts: Facts
    trouble: Trouble | None
    incidents: int
    rebalances: int
    state: str

    @property
    def name(self) -> str:
        """The group's name."""
        return self.facts.view.name

    @property
    def members(self) -> int:
        """How many members it has."""
        return _count(self.facts.view.summary)

    @property
    def is_commits_only(self) -> bool:
        """Whether it has no record of its own: nothing but commits is known of it."""
        return self.facts.view.summary.get("group_type") == COMMITS_ONLY

    @property
    def is_troubled(self) -> bool:
        """Whether something is wrong that needs attention."""
        return self.trouble is not None and self.trouble.severity is not Severity.INFO


@dataclass(frozen=True, slots=True)
class Query:
    """Which groups, in which order; empty filters let everything pass."""

    search: str = ""
    state: str = ""
    trouble: str = ""
    severity: str = ""
    cause: str = ""
    team: str = ""
    kind: str = ""
    sort: str = "trouble"
    descending: bool = False


def _worst_first(entry: Entry) -> tuple[Any, ...]:
    order = entry.trouble.order if entry.trouble else NO_TROUBLE
    return (*order, -entry.rebalances, -_last(entry), entry.name)


def _generation(entry: Entry) -> int:
    generation = entry.facts.view.summary.get("generation")
    return -1 if generation is None else int(generation)


def _last(entry: Entry) -> int:
    return entry.facts.times[-1] if entry.facts.times else -1


SORTS: Mapping[str, Callable[[Entry], Any]] = {
    "trouble": _worst_first,
    "group": lambda entry: entry.name,
    "state": lambda entry: (entry.state, entry.name),
    "members": lambda entry: (entry.members, entry.name),
    "generation": lambda entry: (_generation(entry), entry.name),
    "rebalances": lambda entry: (entry.rebalances, _last(entry), entry.name),
    "last_rebalance": lambda entry: (_last(entry), entry.name),
    "cause": lambda entry: (entry.facts.cause, entry.name),
    "lag": lambda entry: entry.name,
}
"""Sort key by name; ascending, and `trouble` and `lag` ascend from the worst."""


class Board:
    """The groups of one `Known` at `now` (ms); `team_of` says whose a group is."""

    def __init__(
        self, known: Known, now: int, before: Board | None = None, team_of: Callable[[str], str] = nobodys
    ) -> None:
        self.known, self.now, self._team_of = known, now, team_of
        open_of = by_group(known.incidents.open.values())
        old = before.by_name if before else {}
        hour = now - HOUR_MS
        self.by_name: dict[str, Entry] = {
            name: entry
            if (entry := old.get(name)) is not None and _stays(entry, view, hour) and name not in open_of
            else _entry(self._facts(entry, view), open_of.get(name, ()), now)
            for name, view in known.groups.items()
        }
        self.entries = list(self.by_name.values())
        self._worst_first: list[Entry] | None = None

    def _facts(self, entry: Entry | None, view: GroupView) -> Facts:
        if entry is not None and entry.facts.view is view:
            return entry.facts
        return facts_of(view, self._team_of(view.name))

    def get(self, name: str) -> Entry | None:
        """Return one group's entry."""
        return self.by_name.get(name)

    def worst_first(self) -> list[Entry]:
        """Return all entries in the order of the first page, worked out once."""
        if self._worst_first is None:
            self._worst_first = sorted(self.entries, key=_worst_first)
        return self._worst_first

    def select(self, query: Query) -> list[Entry]:
        """Return what the query's filters leave, in its order. Raises KeyError for an unknown order."""
        by_trouble = query.sort == "trouble"
        source = self.worst_first() if by_trouble else self.entries
        found = [entry for entry in source if self._matches(entry, query)]
        if query.sort == "lag":
            found.sort(key=self._most_first, reverse=query.descending)
        elif not by_trouble:
            found.sort(key=SORTS[query.sort], reverse=query.descending)
        elif query.descending:
            found.reverse()
        return found

    def _matches(self, entry: Entry, query: Query) -> bool:
        return (
            (not query.search or query.search in entry.facts.words)
            and (not query.state or entry.state == query.state)
            and (not query.kind or (entry.facts.view.summary.get("group_type") or "") == query.kind)
            and (not query.trouble or _has_trouble(entry, query.trouble))
            and (not query.severity or _severity(entry) == query.severity)
            and (not query.cause or entry.facts.cause == query.cause)
            and (not query.team or entry.facts.team == query.team)
        )

    def _most_first(self, entry: Entry) -> tuple[int, str]:
        lag = self.known.lags.get(entry.name)
        records = None if lag is None else lag.records
        return (1 if records is None else -records), entry.name

    def row(self, entry: Entry) -> GroupRow:
        """Return the row of one entry."""
        summary, trouble, times = entry.facts.view.summary, entry.trouble, entry.facts.times
        lag, committed = self.known.lags.get(entry.name), self.known.last_commit(entry.name)
        return {
            "group": entry.name,
            "team": entry.facts.team,
            "type": summary.get("group_type") or "",
            "state": entry.state,
            "generation": summary.get("generation"),
            "protocol": summary.get("protocol") or "",
            "members": entry.members,
            "trouble": trouble.kind.value if trouble else "",
            "severity": trouble.severity.value if trouble else "",
            "incident": trouble.incident if trouble else None,
            "incidents": entry.incidents,
            "since": trouble.since if trouble else None,
            "rebalances": entry.rebalances,
            "bars": bars(times, self.now),
            "last_rebalance": times[-1] if times else None,
            "last_cause": entry.facts.cause,
            "last_confidence": entry.facts.confidence,
            "at": summary.get("at", -1),
            "lag": lag.records if lag else None,
            "lag_age_ms": lag.age_ms if lag else None,
            "lag_unknown": lag.unknown if lag else 0,
            "lag_offsets": lag.source.value if lag else "",
            "lag_ends": lag.ends_source.value if lag else "",
            "lag_line": lag.totals.every(LAG_STEP) if lag else [],
            "topics": list(summary.get("topics", ())[:TOPICS]),
            "last_commit": committed if committed >= 0 else None,
            "commits_per_minute": self.known.commits_per_minute(entry.name),
        }


class Boards:
    """Makes boards, keeping the newest one and what did not change since it. Safe to share by threads."""

    def __init__(self, team_of: Callable[[str], str] = nobodys) -> None:
        self._team_of = team_of
        self._board: Board | None = None
        # Readers that come at once wait for one board instead of each making their own.
        self._lock = Lock()

    def of(self, known: Known) -> Board:
        """Return the board of `known`, at the time of its newest batch."""
        with self._lock:
            board = self._board
            if board is not None and _is_same(board.known, known):
                # Only lag, last commits and what Spark measured of the batch have come since.
                board.known = known
                return board
            # Before the first batch it is the moment of what an earlier process kept.
            now = known.kept_at if known.health.now < 0 else known.health.now
            self._board = board = Board(known, now, board, self._team_of)
            return board


def _is_same(one: Known, other: Known) -> bool:
    return one.groups is other.groups and one.incidents is other.incidents and one.others is other.others


def bars(times: Sequence[int], now: int) -> list[int]:
    """Return how many of the ascending times (ms) fall into each twelfth of the hour before `now`."""
    step = HOUR_MS // BARS
    edges = [bisect_right(times, now - HOUR_MS + step * number) for number in range(BARS + 1)]
    return [after - before for before, after in pairwise(edges)]


def _stays(entry: Entry, view: GroupView, hour: int) -> bool:
    """Whether the entry of an earlier board is right from `hour` (ms) on, unless an incident is open now."""
    facts = entry.facts
    if facts.view is not view or facts.breaches or entry.incidents or entry.trouble is not None:
        return False
    return not facts.times or (facts.times[0] >= hour and entry.rebalances == len(facts.times))


def facts_of(view: GroupView, team: str) -> Facts:
    """Work out what the rows of a group need."""
    rebalances = [finding for finding in view.recent if finding.kind is Kind.REBALANCE]
    cause, confidence = _last_cause(view.summary, rebalances)
    return Facts(
        view,
        tuple(sorted(finding.at for finding in rebalances)),
        breaches(view.recent),
        cause,
        confidence,
        _words(view),
        team,
    )


def _last_cause(summary: Mapping[str, Any], rebalances: Sequence[Finding]) -> tuple[str, float]:
    newest = rebalances[-1] if rebalances else None
    if newest is not None and newest.causes:
        return newest.causes[0].cause.value, newest.causes[0].confidence
    for cause in summary.get("last_causes", ())[:1]:
        return str(cause["cause"]), float(cause["confidence"])
    return "", 0.0


def _words(view: GroupView) -> str:
    words = [view.name, *view.summary.get("topics", ())]
    for member in view.summary.get("member_list", ()):
        words += [member["client_id"], member["host"], member["instance_id"] or ""]
    return "\n".join(dict.fromkeys(words)).casefold()


def _entry(facts: Facts, incidents: Sequence[Incident], now: int) -> Entry:
    troubles = [trouble for incident in incidents if (trouble := of_incident(incident)) is not None]
    rebalances = len(facts.times) - bisect_left(facts.times, now - HOUR_MS)
    trouble = worst([*troubles, *facts.breaches], now) if troubles or facts.breaches else None
    return Entry(facts, trouble, len(incidents), rebalances, _state(facts.view.summary, incidents))


def _state(summary: Mapping[str, Any], incidents: Sequence[Incident]) -> str:
    moving = [incident for incident in incidents if incident.kind in _MOVING]
    if moving:
        return moving[-1].latest.state or "PreparingRebalance"
    return str(summary.get("state") or "Unknown")


def _count(summary: Mapping[str, Any]) -> int:
    return int(summary.get("members") or 0)


def _severity(entry: Entry) -> str:
    return entry.trouble.severity.value if entry.trouble else ""


def _has_trouble(entry: Entry, wanted: str) -> bool:
    """`any` stands for every trouble that needs attention, else a kind."""
    if wanted == "any":
        return entry.is_troubled
    return entry.trouble is not None and entry.trouble.kind.value == wanted
