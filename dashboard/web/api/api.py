"""The answers of `/api/v1`, one method each, from one moment of the snapshot and the retained history."""

from __future__ import annotations

import time
from threading import Lock
from typing import TYPE_CHECKING, Any

from rebalance_monitor.coordinator.findings.finding import to_dict
from rebalance_monitor.dashboard.view.snapshot import Known, Update
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
from rebalance_monitor.dashboard.web.views.group_page import group_detail
from rebalance_monitor.dashboard.web.views.incident_view import in_order, incident_detail, incident_row
from rebalance_monitor.dashboard.web.views.overview import health_of, overview

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rebalance_monitor.coordinator.findings.finding import Finding
    from rebalance_monitor.dashboard.view.incidents import Incident
    from rebalance_monitor.dashboard.view.snapshot import Snapshot
    from rebalance_monitor.dashboard.web.past.past import Past
    from rebalance_monitor.dashboard.web.views.shapes import (
        FindingsPage,
        GroupDetail,
        GroupsPage,
        IncidentDetail,
        IncidentsPage,
        Overview,
    )

Values = dict[str, Any]
AROUND = 300
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
        self, snapshot: Snapshot, past: Past, *, live: bool = True, wall_ms: Callable[[], int] = _wall_ms
    ) -> None:
        self.snapshot = snapshot
        self._past = past
        self._moments = Moments(past)
        self._boards = Boards()
        self._asked = 0
        self._live = live
        self._wall_ms = wall_ms
        self._seen: tuple[Board, Overview] | None = None
        # As with boards: readers that come at once wait for one.
        self._overview_lock = Lock()
        snapshot.listen(self._on_change)

    def _on_change(self, known: Known, _update: Update) -> None:
        """Let go of what nobody looks at any more: a board holds all that was known at its moment."""
        if known.version > self._asked + _KEPT_FOR:
            self._boards, self._moments, self._seen = Boards(), Moments(self._past), None

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
        told = list(entry.facts.view.recent)
        return group_detail(board, entry, told, live=self._live and at is None, as_of=at)

    def incidents(self, values: Values) -> IncidentsPage:
        """Answer `/incidents`."""
        board = self._board(values)
        found = [one for one in in_order(board.known) if _is_wanted(one, values)]
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
        told = self._around(known, found) if found else self._find_past(identity)
        if found is None:
            if not told:
                raise NotFound("there is no incident of that id in the retained history")
            found = Known().after(Update(findings=told)).incidents.get(identity)
        if found is None:
            raise NotFound("the finding of that id is no incident")
        return incident_detail(found, told, now, live=self._live)

    def findings(self, values: Values) -> FindingsPage:
        """Answer `/findings`."""
        limit = values["limit"]
        found = self._past.find(_wanted(values, limit + 1))
        rows: list[Any] = within(map(to_dict, found[:limit]))
        more = len(found) > len(rows)
        return {
            "now": self.snapshot.known.health.now,
            "source": self._past.source,
            "rows": rows,
            "next": cursor(found[len(rows) - 1]) if more else None,
        }

    def board_of(self, known: Known) -> Board:
        """Return the board of one moment of the snapshot."""
        self._asked = self.snapshot.known.version
        return self._boards.of(known)

    def _board(self, values: Values) -> Board:
        self._asked = self.snapshot.known.version
        if values.get("at") is None:
            return self.board_of(self.snapshot.known)
        return self._moments.at(values["at"], self.snapshot.known.cluster)

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


def _is_wanted(incident: Incident, values: Mapping[str, Any]) -> bool:
    state = "open" if incident.closed_at is None else "closed"
    return values["state"] in {"", state} and values["kind"] in {"", incident.kind.value}


def _wanted(values: Mapping[str, Any], limit: int) -> Wanted:
    try:
        before = parse_cursor(values["before"]) if values["before"] else None
    except ValueError:
        raise BadRequest("`before` must be `next` of another answer") from None
    return Wanted(
        group=values["group"],
        pattern=values["pattern"],
        kind=values["kind"],
        severity=values["severity"],
        cause=values["cause"],
        incident=values["incident"],
        search=values["search"].casefold(),
        since=values["since"],
        until=values["until"],
        history=_HISTORY[values["history"]],
        before=before,
        limit=limit,
    )
