"""Findings for the API: from the retained table where there is one, else from what is in memory.

Going back in time is the same page made of the findings up to that moment: the groups, their members by
their last generation, and the incidents that were open then. What happened longer than `LOOKBACK_MS` before
is not looked for, so a group that was quiet for so long is not on it.
"""

from __future__ import annotations

import re
from collections import OrderedDict, defaultdict
from dataclasses import dataclass
from itertools import chain
from threading import Lock
from typing import TYPE_CHECKING, Any, Protocol

from rebalance_monitor.dashboard.snapshot import Known, Update

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rebalance_monitor.checkpoints.places import Place
    from rebalance_monitor.coordinator.findings import Finding
    from rebalance_monitor.dashboard.snapshot import Snapshot

DAY_MS = 86_400_000
LOOKBACK_MS = DAY_MS
MAX_LIMIT = 1_000
MAX_PAST = 20_000
_MOMENTS_KEPT = 4
_AT_ONCE = 200
_DATE = re.compile(r"^date=\d{4}-\d{2}-\d{2}$")


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which findings: empty filters let everything pass. since, until: ms, both inclusive.

    before: (at, id) of the last one of the page before.
    """

    group: str | None = None
    kind: str = ""
    severity: str = ""
    cause: str = ""
    incident: str = ""
    search: str = ""
    since: int = 0
    until: int = 2**63 - 1
    history: bool | None = None
    before: tuple[int, str] | None = None
    limit: int = 100

    def takes(self, finding: Finding) -> bool:
        """Whether the finding passes every filter."""
        return (
            self.since <= finding.at <= self.until
            and (self.before is None or (finding.at, finding.id) < self.before)
            and (self.group is None or finding.group == self.group or self.group in finding.groups)
            and (not self.kind or finding.kind.value == self.kind)
            and (not self.severity or finding.severity.value == self.severity)
            and (not self.incident or self.incident in {finding.incident, finding.id})
            and (self.history is None or finding.history == self.history)
            and (not self.cause or any(entry.cause.value == self.cause for entry in finding.causes))
            and (not self.search or self.search in _words(finding))
        )


class Past(Protocol):
    """Where findings are looked up; blocks for the disk."""

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
        told = [finding for view in known.groups.values() for finding in view.recent]
        return _newest([f for f in (*told, *known.others) if wanted.takes(f)], wanted.limit)


class TablePast:
    """The findings table, date by date from the newest: only the dates asked for are read."""

    source = "table"

    def __init__(self, folder: Place) -> None:
        self._folder = folder

    def find(self, wanted: Wanted) -> list[Finding]:
        """Return at most `wanted.limit` findings, newest first. Raises OSError."""
        found: dict[str, Finding] = {}
        days = (_read(files, wanted) for files in self._days(wanted))
        for finding in filter(wanted.takes, chain.from_iterable(days)):
            found[finding.id] = finding
            if len(found) >= wanted.limit:
                break
        return _newest(found.values(), wanted.limit)

    def _days(self, wanted: Wanted) -> Iterator[list[Place]]:
        from rebalance_monitor.dashboard.table_files import date_of, files  # noqa: PLC0415 - brings pyarrow

        until = wanted.until if wanted.before is None else min(wanted.until, wanted.before[0])
        first, last = f"date={date_of(wanted.since)}", f"date={date_of(min(until, 253_402_300_799_000))}"
        days: defaultdict[str, list[Place]] = defaultdict(list)
        for path in files(self._folder):
            # Times that no calendar has stand under the first date of all.
            if _DATE.match(path.parent.name) and first <= path.parent.name <= last:
                days[path.parent.name].append(path)
        for day in sorted(days, reverse=True):
            yield days[day]


class Moments:
    """The monitor's knowledge at moments of the past; the last few are kept. Blocks for the disk."""

    def __init__(self, past: Past) -> None:
        self._past = past
        self._kept: OrderedDict[int, Known] = OrderedDict()
        self._lock = Lock()

    def at(self, moment: int, cluster: str) -> Known:
        """Return what was known at `moment` (ms). Raises OSError."""
        with self._lock:
            known = self._kept.pop(moment, None) or self._made(moment, cluster)
            self._kept[moment] = known
            while len(self._kept) > _MOMENTS_KEPT:
                self._kept.popitem(last=False)
            return known

    def _made(self, moment: int, cluster: str) -> Known:
        told = self._past.find(Wanted(since=moment - LOOKBACK_MS, until=moment, limit=MAX_PAST))
        update = Update(findings=told[::-1], now=moment, wall=moment)
        return Known(cluster=cluster, version=0).after(update)


def cursor(finding: Finding) -> str:
    """Return what `before` is to be for the page after this finding."""
    return f"{finding.at}.{finding.id}"


def parse_cursor(text: str) -> tuple[int, str]:
    """Return the inverse of `cursor`. Raises ValueError for any other text."""
    at, _, identity = text.partition(".")
    return int(at), identity


def _newest(findings: Iterable[Finding], limit: int) -> list[Finding]:
    return sorted(findings, key=lambda finding: (finding.at, finding.id), reverse=True)[:limit]


def _words(finding: Finding) -> str:
    words = [finding.group or "", finding.kind.value, *finding.groups, *finding.topics]
    words += [f"{cause.cause.value} {cause.client_id or ''} {cause.host or ''}" for cause in finding.causes]
    words += [f"{one.client_id} {one.host} {one.instance_id or ''}" for one in finding.members]
    return "\n".join(words).casefold()


def _read(files: list[Place], wanted: Wanted) -> Iterator[Finding]:
    """Yield the findings of one day that Parquet lets pass, newest first, made as they are asked for."""
    import pyarrow.compute as pc  # noqa: PLC0415 - only who asks for history pays for it
    import pyarrow.dataset as ds  # noqa: PLC0415 - as above

    # Brings pyarrow too.
    from rebalance_monitor.dashboard.findings_table import FINDINGS_SCHEMA, finding_of  # noqa: PLC0415
    from rebalance_monitor.dashboard.parquet import sources_of  # noqa: PLC0415

    if not files:
        return
    try:
        sources, system = sources_of(files)
        dataset = ds.dataset(sources, format="parquet", schema=FINDINGS_SCHEMA, filesystem=system)
        table = dataset.to_table(filter=_filter(wanted))
    except ValueError as error:
        raise OSError(f"a file of the findings table is damaged: {error}") from error
    order = pc.sort_indices(table.select(["at", "id"]), [("at", "descending"), ("id", "descending")])
    for first in range(0, table.num_rows, _AT_ONCE):
        yield from map(finding_of, table.take(order.slice(first, _AT_ONCE)).to_pylist())


def _filter(wanted: Wanted) -> Any:  # noqa: ANN401 - pyarrow has no types
    """Say to Parquet what it can judge by itself; the rest is for `Wanted.takes`."""
    import pyarrow.compute as pc  # noqa: PLC0415 - only who asks for history pays for it

    until = wanted.until if wanted.before is None else min(wanted.until, wanted.before[0])
    judged = (pc.field("at") >= wanted.since) & (pc.field("at") <= until)
    for name in ("kind", "severity"):
        if getattr(wanted, name):
            judged &= pc.field(name) == getattr(wanted, name)
    if wanted.history is not None:
        judged &= pc.field("history") == wanted.history
    return judged
