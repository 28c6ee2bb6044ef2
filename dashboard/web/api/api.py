"""The answers of `/api/v1`, one method each, from one moment of the snapshot and the retained history."""

from __future__ import annotations

import time
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Any

from rebalance_monitor.config.teams import team_of
from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.finding import to_dict
from rebalance_monitor.coordinator.findings.kinds import Kind, Severity
from rebalance_monitor.dashboard.view.snapshot import Known, Update
from rebalance_monitor.dashboard.web.api.alerting import NoAlerting
from rebalance_monitor.dashboard.web.api.parameters import BadRequest
from rebalance_monitor.dashboard.web.past.past import (
    LATEST_MS,
    LOOKBACK_MS,
    Moments,
    Wanted,
    cursor,
    parse_cursor,
)
from rebalance_monitor.dashboard.web.views.board import Board, Boards, Query
from rebalance_monitor.dashboard.web.views.budget import within
from rebalance_monitor.dashboard.web.views.events import event_row, events_of
from rebalance_monitor.dashboard.web.views.group_page import group_detail
from rebalance_monitor.dashboard.web.views.incident_view import in_order, incident_detail, incident_row
from rebalance_monitor.dashboard.web.views.overview import health_of, overview

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rebalance_monitor.coordinator.findings.finding import Finding
    from rebalance_monitor.dashboard.view.incidents import Incident
    from rebalance_monitor.dashboard.view.snapshot import Snapshot
    from rebalance_monitor.dashboard.web.api.alerting import Alerting
    from rebalance_monitor.dashboard.web.past.past import Past
    from rebalance_monitor.dashboard.web.views.alerting_shapes import Choices, NotifiedPage, SilencesPage
    from rebalance_monitor.dashboard.web.views.shapes import (
        FindingsPage,
        GroupDetail,
        GroupsPage,
        HistoryPage,
        IncidentDetail,
        IncidentsPage,
        Overview,
    )

Values = dict[str, Any]
AROUND = 300
NOTIFIED = 100
BEYOND = 100
"""So many findings beyond a page of history are read for its events."""
_HISTORY = {"yes": True, "no": False, "": None}


class NotFound(Exception):  # noqa: N818 - the name that HTTP gives it
    """What was asked for is not known (any more)."""


# For so many changes of the snapshot, about one a second.
_KEPT_FOR = 300


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000


class Api:
    """Answers for one snapshot. `live`: time goes on (a replay's stands still). Safe to share by threads."""

    def __init__(
        self,
        snapshot: Snapshot,
        past: Past,
        *,
        live: bool = True,
        wall_ms: Callable[[], int] = _wall_ms,
        alerting: Alerting | None = None,
    ) -> None:
        self.snapshot = snapshot
        self.alerting: Alerting = alerting or NoAlerting()
        self._team_of = partial(team_of, teams=self.alerting.teams)
        self._past = past
        self._moments = Moments(past, self._team_of)
        self._boards = Boards(self._team_of)
        self._asked = 0
        self._live = live
        self._wall_ms = wall_ms
        self._seen: tuple[Board, Overview] | None = None
        # As with boards: readers that come at once wait for one.
        self._overview_lock = Lock()
        snapshot.listen(self._on_change)

    def _on_change(self, known: Known, _update: Update) -> None:
        """Drop what no page shows any more: a board holds all that was known at its moment."""
        if known.version > self._asked + _KEPT_FOR:
            self._boards, self._seen = Boards(self._team_of), None
            self._moments = Moments(self._past, self._team_of)

    def cluster(self, values: Values) -> Overview:
        """Answer `/cluster`."""
        return self.overview(self._board(values))

    def overview(self, board: Board) -> Overview:
        """Return the overview of a board, worked out once; only the monitor's own age goes on."""
        live = self._live
        with self._overview_lock:
            seen = self._seen
            if seen is None or seen[0] is not board:
                self._seen = seen = (board, overview(board, self._wall_ms(), live=live))
        health = health_of(board.known, self._wall_ms(), live=live)
        return {**seen[1], "health": health}

    def groups(self, values: Values) -> GroupsPage:
        """Answer `/groups`."""
        board = self._board(values)
        query = Query(
            search=values["search"].casefold(),
            state=values["state"],
            trouble=values["trouble"],
            severity=values["severity"],
            cause=values["cause"],
            team=values["team"],
            kind=values["type"],
            sort=values["sort"],
            descending=values["order"] == "desc",
        )
        found = board.select(query)
        offset = values["offset"]
        return {
            "version": board.known.version,
            "now": board.now,
            "total": len(board.entries),
            "matched": len(found),
            "offset": offset,
            "rows": [board.row(entry) for entry in found[offset : offset + values["limit"]]],
        }

    def group(self, values: Values) -> GroupDetail:
        """Answer `/group`. Raises NotFound."""
        board, name, at = self._board(values), values["group"], values["at"]
        entry = board.get(name)
        if entry is None:
            when = "now; it may have been removed" if at is None else "in the day before that moment"
            raise NotFound(f"there is no group of that name {when}")
        recent = list(entry.facts.view.recent)
        return group_detail(board, entry, recent, live=self._live and at is None, as_of=at)

    def incidents(self, values: Values) -> IncidentsPage:
        """Answer `/incidents`."""
        board = self._board(values)
        found = [one for one in in_order(board.known) if self._is_wanted(one, values)]
        return {
            "version": board.known.version,
            "now": board.now,
            "open": len(board.known.incidents.open),
            "rows": within(incident_row(one) for one in found[: values["limit"]]),
        }

    def incident(self, values: Values) -> IncidentDetail:
        """Answer `/incident`. Raises NotFound."""
        known, identity = self.snapshot.known, values["id"]
        found = known.incidents.get(identity)
        now = known.health.now
        around = self._around(known, found) if found else self._find_past(identity)
        if found is None:
            if not around:
                raise NotFound("there is no incident of that id in the retained history")
            found = Known().after(Update(findings=around)).incidents.get(identity)
        if found is None:
            raise NotFound("the finding of that id is no incident")
        return incident_detail(found, around, now, live=self._live)

    def findings(self, values: Values) -> FindingsPage:
        """Answer `/findings`."""
        limit = values["limit"]
        found = self._past.find(self._wanted(values, limit + 1))
        rows: list[Any] = within(map(to_dict, found[:limit]))
        more = len(found) > len(rows)
        return {
            "now": self.snapshot.known.health.now,
            "source": self._past.source,
            "rows": rows,
            "next": cursor(found[len(rows) - 1]) if more else None,
        }

    def history(self, values: Values) -> HistoryPage:
        """Answer `/history`."""
        limit = values["limit"]
        # An event's findings come close together: findings that follow the page may belong to its last rows.
        found = self._past.find(self._wanted(values, limit + BEYOND))
        bodies: list[Any] = within(map(to_dict, found))
        size = min(limit, len(bodies))
        page = {finding.id for finding in found[:size]}
        cut_at = found[len(bodies) - 1].at if len(found) == limit + BEYOND else -1
        rows = [event_row(event, cut_at) for event in events_of(found[: len(bodies)])]
        rows = [row for row in rows if page.intersection(row["findings"])]
        shown = page.union(*(row["findings"] for row in rows))
        return {
            "now": self.snapshot.known.health.now,
            "source": self._past.source,
            "rows": rows,
            "findings": [finding for finding in bodies if finding["id"] in shown],
            "next": cursor(found[size - 1]) if len(found) > size else None,
        }

    def choices(self, _values: Values) -> Choices:
        """Answer `/choices`."""
        return {
            "kinds": [kind.value for kind in Kind],
            "causes": sorted(cause.value for cause in Cause),
            "severities": [severity.value for severity in reversed(Severity)],
            "teams": sorted(set(self.alerting.teams.values())),
        }

    def silences(self, values: Values) -> SilencesPage:
        """Answer `/silences`. Raises NotFound, OSError."""
        about = None
        if values["incident"]:
            found = self.snapshot.known.incidents.get(values["incident"])
            if found is None:
                return {"refused": self.alerting.refused, "rows": []}
            about = found.latest
        return {"refused": self.alerting.refused, "rows": list(self.alerting.silences(about))}

    def notified(self, values: Values) -> NotifiedPage:
        """Answer `/notified`. Raises OSError."""
        found = self.snapshot.known.incidents.get(values["id"])
        identities = {values["id"], *([found.latest.id] if found else [])}
        rows = self.alerting.notified(identities, NOTIFIED)
        return {"is_on": self.alerting.is_on, "rows": list(rows)}

    def board_of(self, known: Known) -> Board:
        """Return the board of one moment of the snapshot."""
        self._asked = self.snapshot.known.version
        return self._boards.of(known)

    def _board(self, values: Values) -> Board:
        self._asked = self.snapshot.known.version
        if values.get("at") is None:
            return self.board_of(self.snapshot.known)
        return self._moments.at(values["at"], self.snapshot.known.cluster)

    def _is_wanted(self, incident: Incident, values: Mapping[str, Any]) -> bool:
        causes = incident.latest.causes[:1]
        is_of = {
            "state": "open" if incident.closed_at is None else "closed",
            "kind": incident.kind.value,
            "severity": incident.latest.severity.value,
            "cause": causes[0].cause.value if causes else "",
            "team": self._team_of(incident.group) if incident.group is not None else "",
        }
        return all(values[name] in {"", value} for name, value in is_of.items())

    def _wanted(self, values: Mapping[str, Any], limit: int) -> Wanted:
        team = values["team"]
        return Wanted(
            group=values["group"],
            pattern=values["pattern"],
            among=(lambda group: self._team_of(group) == team) if team else None,
            kind=values["kind"],
            severity=values["severity"],
            cause=values["cause"],
            incident=values["incident"],
            search=values["search"].casefold(),
            since=values["since"],
            until=values["until"],
            history=_HISTORY[values["history"]],
            before=_before(values["before"]),
            limit=limit,
        )

    def _around(self, known: Known, incident: Incident) -> Sequence[Finding]:
        view = known.groups.get(incident.group or "")
        held = list(view.recent) if view else list(known.others)
        if held and held[0].at <= incident.opened_at:
            return held
        return self._past_around(incident.group, incident.opened_at, incident.closed_at) or held

    def _past_around(self, group: str | None, opened: int, closed: int | None) -> list[Finding]:
        until = LATEST_MS if closed is None else closed + LOOKBACK_MS // 24
        wanted = Wanted(group=group, since=opened - LOOKBACK_MS // 24, until=until, limit=AROUND)
        return self._past.find(wanted)[::-1]

    def _find_past(self, identity: str) -> list[Finding]:
        """Find an incident that the memory no longer holds."""
        own = self._past.find(Wanted(incident=identity, limit=AROUND))[::-1]
        if not own:
            return []
        around = self._past_around(own[0].group, own[0].at, own[-1].at)
        known = {finding.id for finding in own}
        both = [*own, *(finding for finding in around if finding.id not in known)]
        return sorted(both, key=lambda finding: finding.at)


def _before(text: str) -> tuple[int, str] | None:
    try:
        return parse_cursor(text) if text else None
    except ValueError:
        raise BadRequest("`before` must be `next` of another answer") from None
