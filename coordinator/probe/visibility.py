"""Which groups the probe may see: ListGroups leaves out groups without Describe permission, without an error.

At the start and every few minutes one sample lists all groups. Groups that are alive by the topic and missing
in the list open `monitor_degraded` (probe_partial). For these groups the probe does not overrule commits. A
list that some broker did not answer is not compared.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.degraded import degraded
from rebalance_monitor.decoders import coordinator_partition

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from rebalance_monitor.coordinator.findings.finding import Details, Finding
    from rebalance_monitor.coordinator.probe.sample import ProbeSample

MAX_UNSEEN = 1_000
_SEVERAL, _DEAD_NAMED = 5, 3
SETTLED_MS = 30_000
"""A group whose record is younger than this may be newer than the listing."""


class Visibility:
    """Groups that the last list left out; `state` is what `snapshot` returned, None for a new start.

    If it left out more groups than can be remembered, the listed groups are stored instead, and all others
    count as left out.
    """

    def __init__(self, cluster: str, state: Mapping[str, Any] | None = None) -> None:
        memory = state or {}
        self._cluster = cluster
        self._opened: int = int(memory.get("opened", -1))
        self._unseen: list[str] = list(memory.get("unseen", ()))
        self._seen: list[str] | None = memory.get("seen")
        self._missing: int = int(memory.get("missing", 0))
        self._updates: int = int(memory.get("updates", 0))
        # A listing that came before anything was known of any group.
        self._waiting: ProbeSample | None = None
        self._compared: frozenset[str] = frozenset()

    def snapshot(self) -> dict[str, Any]:
        """JSON-able memory for the ledger."""
        return {
            "opened": self._opened,
            "unseen": self._unseen,
            "seen": self._seen,
            "missing": self._missing,
            "updates": self._updates,
        }

    def sees(self, group: str) -> bool:
        """Whether the brokers list the group to us, as far as is known."""
        return group not in self._unseen if self._seen is None else group in self._seen

    def on_sample(self, sample: ProbeSample, alive: Mapping[str, Mapping[str, Any]]) -> list[Finding]:
        """Compare a listing with the groups alive by the topic: group -> its summary."""
        if sample.listed is not None and all(answered for _, answered in sample.brokers):
            self._waiting, self._compared = sample, frozenset()
        listing = self._waiting
        # A group that was younger than the listing stays younger: only groups that are new may be older.
        if listing is None or listing.listed is None or alive.keys() == self._compared:
            return []
        self._compared = frozenset(alive)
        expected = [name for name, summary in alive.items() if _is_alive(summary, listing.at)]
        # Of no group is anything known yet: what an earlier listing left out is still left out.
        if not expected:
            return []
        self._waiting = None
        dead = dead_partitions(expected, listing.listed, len(listing.leaders))
        return self._turn(sample.at, sorted(set(expected) - listing.listed), expected, dead)

    def _turn(
        self, at: int, unseen: list[str], expected: Collection[str], dead: Mapping[int, int]
    ) -> list[Finding]:
        before, self._missing = self._missing, len(unseen)
        self._unseen, self._seen = unseen[:MAX_UNSEEN], None
        if len(unseen) > MAX_UNSEEN:
            self._seen = sorted(set(expected).difference(unseen))[:MAX_UNSEEN]
        if self._missing == before:
            return []
        goes_on = bool(unseen) and self._opened >= 0
        seen = len(expected) - len(unseen)
        why = f"the brokers list {seen} of {len(expected)} groups that have members by the topic's records"
        if dead:
            some = "; ".join(f"of partition {one} they list 0 of {count}" for one, count in dead.items())
            why += f"; {some}: its coordinator does not serve it"
        phase = ("updated" if goes_on else "opened") if unseen else "resolved"
        opened = at if phase == "opened" else self._opened
        self._updates = self._updates + 1 if goes_on else 0
        self._opened = opened if unseen else -1
        details: Details = {"seen": seen, "expected": len(expected)}
        if unseen:
            details["missing"] = unseen[0]
        return [
            degraded(
                self._cluster,
                Cause.PROBE_PARTIAL,
                why,
                opened_at=opened,
                at=at,
                phase=phase,
                details=details,
                sequence=self._updates,
            )
        ]


def dead_partitions(expected: Iterable[str], listed: Collection[str], partitions: int) -> dict[int, int]:
    """Return the partitions of the offsets topic of whose groups none is listed, with how many there are.

    Access to groups is granted by name, so groups that may not be described are spread over the partitions.
    """
    alive: Counter[int] = Counter()
    seen: set[int] = set()
    for group in expected if partitions > 0 else ():
        partition = coordinator_partition(group, partitions)
        alive[partition] += 1
        if group in listed:
            seen.add(partition)
    dead = {one: count for one, count in alive.items() if one not in seen and count >= _SEVERAL}
    return dict(sorted(dead.items())[:_DEAD_NAMED]) if seen else {}


def _is_alive(summary: Mapping[str, Any], now: int) -> bool:
    return (
        summary.get("state") not in {"Empty", "Dead", None} and int(summary.get("at", 0)) < now - SETTLED_MS
    )
