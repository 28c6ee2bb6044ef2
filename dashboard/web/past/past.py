"""Findings for the API: from the retained table where there is one, else from what is in memory.

Going back in time is the same page made of the findings up to that moment: the groups, their members by
their last generation, and the incidents that were open then. What happened longer than `LOOKBACK_MS` before
is not looked for, so a group that was quiet for so long is not on it.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from fnmatch import fnmatchcase
from threading import Lock
from typing import TYPE_CHECKING, Protocol

from rebalance_monitor.config.teams import nobodys
from rebalance_monitor.dashboard.view.snapshot import Known, Update
from rebalance_monitor.dashboard.web.views.board import Board

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from rebalance_monitor.coordinator.findings.finding import Finding
    from rebalance_monitor.dashboard.view.snapshot import Snapshot

DAY_MS = 86_400_000
# The last moment that calendars have.
LATEST_MS = 253_402_300_799_999
LOOKBACK_MS = DAY_MS
MAX_PAST = 20_000
_MOMENTS_KEPT = 4


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which findings: empty filters let everything pass. since, until: ms, both inclusive.

    group: its whole name. pattern: a shell pattern over names of groups (`orders-*`). among: which names of
    groups are wanted, None for any.
    before: (at, id) of the last one of the page before.
    """

    group: str | None = None
    pattern: str = ""
    among: Callable[[str], bool] | None = None
    kind: str = ""
    severity: str = ""
    cause: str = ""
    incident: str = ""
    search: str = ""
    since: int = 0
    until: int = LATEST_MS
    history: bool | None = None
    before: tuple[int, str] | None = None
    limit: int = 100

    @property
    def last(self) -> int:
        """The last moment (ms) that a wanted finding may have."""
        until = self.until if self.before is None else min(self.until, self.before[0])
        return max(-1, min(until, LATEST_MS))

    def takes(self, finding: Finding) -> bool:
        """Whether the finding passes every filter."""
        return (
            self.since <= finding.at <= self.until
            and (self.before is None or (finding.at, finding.id) < self.before)
            and (self.group is None or self.group in _groups(finding))
            and (not self.pattern or any(fnmatchcase(one, self.pattern) for one in _groups(finding)))
            and (self.among is None or any(map(self.among, _groups(finding))))
            and (not self.kind or finding.kind.value == self.kind)
            and (not self.severity or finding.severity.value == self.severity)
            and (not self.incident or self.incident in {finding.incident, finding.id})
            and (self.history is None or finding.history == self.history)
            and (not self.cause or any(entry.cause.value == self.cause for entry in finding.causes))
            and (not self.search or self.search in _words(finding))
        )


class Past(Protocol):
    """A store of published findings; blocks for the disk."""

    source: str

    def find(self, wanted: Wanted) -> list[Finding]:
        """Return at most `wanted.limit` findings, newest first. Raises OSError."""


class MemoryPast:
    """The newest findings, as the snapshot holds them."""

    source = "memory"

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    def find(self, wanted: Wanted) -> list[Finding]:
        """Return at most `wanted.limit` findings, newest first."""
        known = self._snapshot.known
        recent = [finding for view in known.groups.values() for finding in view.recent]
        return newest([f for f in (*recent, *known.others) if wanted.takes(f)], wanted.limit)


class Moments:
    """The boards of moments of the past; the last few are kept. Blocks for the disk."""

    def __init__(self, past: Past, team_of: Callable[[str], str] = nobodys) -> None:
        self._past, self._team_of = past, team_of
        self._kept: OrderedDict[int, Board] = OrderedDict()
        self._lock = Lock()

    def at(self, moment: int, cluster: str) -> Board:
        """Return what was known at `moment` (ms). Raises OSError."""
        with self._lock:
            board = self._kept.pop(moment, None) or self._made(moment, cluster)
            self._kept[moment] = board
            while len(self._kept) > _MOMENTS_KEPT:
                self._kept.popitem(last=False)
            return board

    def _made(self, moment: int, cluster: str) -> Board:
        found = self._past.find(Wanted(since=moment - LOOKBACK_MS, until=moment, limit=MAX_PAST))
        update = Update(findings=found[::-1], now=moment, wall=moment)
        known = Known(cluster=cluster, version=0).after(update)
        return Board(known, known.health.now, team_of=self._team_of)


def cursor(finding: Finding) -> str:
    """Return what `before` is to be for the page after this finding."""
    return f"{finding.at}.{finding.id}"


def parse_cursor(text: str) -> tuple[int, str]:
    """Return the inverse of `cursor`. Raises ValueError for any other text."""
    at, _, identity = text.partition(".")
    return int(at), identity


def newest(findings: Iterable[Finding], limit: int) -> list[Finding]:
    """Return the newest findings, newest first; of one moment those with the greater id first."""
    return sorted(findings, key=lambda finding: (finding.at, finding.id), reverse=True)[:limit]


def _groups(finding: Finding) -> list[str]:
    return [*([] if finding.group is None else [finding.group]), *finding.groups]


def _words(finding: Finding) -> str:
    words = [finding.group or "", finding.kind.value, *finding.groups, *finding.topics]
    words += [f"{cause.cause.value} {cause.client_id or ''} {cause.host or ''}" for cause in finding.causes]
    words += [f"{one.client_id} {one.host} {one.instance_id or ''}" for one in finding.members]
    return "\n".join(words).casefold()
