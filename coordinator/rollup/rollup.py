"""What no single shard can see: unreadable records by rate, and many groups with one cause at once.

Runs on the driver after each batch; its memory is JSON-able and bounded. Groups that rebalance among the
same members within seconds of each other share a coordinator that moved or restarted; groups that restart one
member after the other share a deployment; members of many groups that expire together share a host.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from rebalance_monitor.coordinator.findings.finding import make, record_anchor
from rebalance_monitor.coordinator.findings.kinds import Kind
from rebalance_monitor.coordinator.rollup.bursts import Bursts

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rebalance_monitor.coordinator.findings.finding import Details, Finding
    from rebalance_monitor.coordinator.findings.outputs import StatOut
    from rebalance_monitor.coordinator.settings import DetectionSettings

_TALLY_MS = 1_000


class Unreadable(msgspec.Struct):
    """Unreadable records of one reason in the window: [second, count] each; times in ms.

    `last` is when the newest was read, `incident` "" until there are enough, `opened` when there were.
    """

    last: int
    opened: int
    incident: str = ""
    counts: list[list[int]] = msgspec.field(default_factory=list)

    def add(self, at: int, number: int, window_ms: int) -> int:
        """Count `number` more; return how many there are in the window."""
        self.last = max(self.last, at)
        self.counts = [entry for entry in self.counts if entry[0] > self.last - window_ms]
        _count(self.counts, _second(at), number)
        return self.total

    @property
    def total(self) -> int:
        """How many there are."""
        return sum(count for _, count in self.counts)

    def set_back(self, now: int) -> None:
        """Go on from `now` where the clock that saw the rest was ahead of it."""
        if self.last > now:
            self.last, self.opened = now, min(self.opened, now)
            self.counts = [[_second(now), self.total]]


class RollUp:
    """The roll-up; `state` is what `snapshot` returned, None for a new start."""

    def __init__(
        self, settings: DetectionSettings, cluster: str, state: dict[str, Any] | None = None
    ) -> None:
        self._settings = settings
        self._cluster = cluster
        memory = state or {}
        self._bursts = Bursts(settings, cluster, memory.get("bursts"), memory.get("open"))
        self._reasons = msgspec.convert(memory.get("reasons", {}), dict[str, Unreadable])

    def snapshot(self) -> dict[str, Any]:
        """JSON-able memory for the ledger."""
        return {
            "bursts": self._bursts.snapshot(),
            "open": self._bursts.incidents.snapshot(),
            "reasons": msgspec.to_builtins(self._reasons),
        }

    def on_batch(self, findings: Iterable[Finding], stats: Iterable[StatOut], batch_ts: int) -> list[Finding]:
        """Take one batch's findings and counters; `batch_ts` (ms) only goes back with the driver's clock."""
        for unreadable in self._reasons.values():
            unreadable.set_back(batch_ts)
        found = self._bursts.on_batch(findings, batch_ts)
        for stat in stats:
            if stat.kind == "unreadable":
                found += self._unreadable(stat.data, min(int(stat.data["ts"]), batch_ts))
        return found + self._readable_again(batch_ts)

    def _unreadable(self, data: dict[str, Any], at: int) -> list[Finding]:
        reason, window = str(data["reason"]), self._settings.unreadable_window_ms
        unreadable = self._reasons.setdefault(reason, Unreadable(at, at))
        total = unreadable.add(at, int(data["count"]), window)
        if unreadable.incident or total < self._settings.unreadable_threshold:
            return []
        anchor = record_anchor(int(data["shard"]), int(data["first_offset"]), at) + f"/{reason}"
        unreadable.opened = at
        details: Details = {
            "reason": reason,
            "count": total,
            "window_ms": window,
            "sample": f"{data['shard']}/{data['first_offset']}",
        }
        opened = self._about(unreadable, at, anchor, details)
        unreadable.incident = opened.incident or ""
        return [opened]

    def _readable_again(self, now: int) -> list[Finding]:
        found = []
        for reason, unreadable in list(self._reasons.items()):
            over = unreadable.last + self._settings.unreadable_window_ms
            if now < over:
                continue
            del self._reasons[reason]
            if unreadable.incident:
                anchor = f"{unreadable.incident}/{over}"
                found.append(self._about(unreadable, over, anchor, {"reason": reason}))
        return found

    def _about(self, unreadable: Unreadable, at: int, anchor: str, details: Details) -> Finding:
        """Make the finding that opens the incident, or ends the open one."""
        return make(
            Kind.UNREADABLE_RECORDS,
            cluster=self._cluster,
            anchor=anchor,
            phase="resolved" if unreadable.incident else "opened",
            incident=unreadable.incident,
            evidence="read",
            at=at,
            opened_at=unreadable.opened,
            resolution="quiet" if unreadable.incident else None,
            details=details,
        )


def _second(at: int) -> int:
    """Return the last ms of the second of `at` (ms)."""
    return at - at % _TALLY_MS + _TALLY_MS - 1


def _count(counts: list[list[int]], at: int, number: int) -> None:
    """Add to the tally of a second: shards and batches do not multiply what is remembered."""
    for entry in counts:
        if entry[0] == at:
            entry[1] += number
            return
    counts.append([at, number])
