"""Positions that went back, records that a group lost unread, and records that it is about to lose.

Losses are judged at each sample with earliest offsets, once a minute. Positions that went back are judged at
every sample. A loss is reported if samples saw it happen: the earliest offset was no later than the position
at the sample before, and then passed it, or a commit jumped over what was deleted (`retention.py`). Deleting
records at or below a position (DeleteRecords) is no loss of the group's, and a single offset beyond it may be
a transaction's marker. A position beyond the end that its topic has now was one of another log: of a topic
made anew nothing is read again, and a log that was cut at its end is judged by `cuts.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from rebalance_monitor.coordinator.findings.kinds import Kind
from rebalance_monitor.coordinator.lag.incidents import Open, lag_finding, lag_resolved, place_of
from rebalance_monitor.coordinator.lag.judging.cuts import Cuts
from rebalance_monitor.coordinator.lag.retention import left_ms
from rebalance_monitor.coordinator.lag.windows import MARKER

if TYPE_CHECKING:
    from collections.abc import Sequence
    from collections.abc import Set as AbstractSet

    from rebalance_monitor.coordinator.findings.finding import Details, Finding
    from rebalance_monitor.coordinator.lag.consumed import Consumed
    from rebalance_monitor.coordinator.lag.ends import EndsSample
    from rebalance_monitor.coordinator.lag.measured import PartitionLag
    from rebalance_monitor.coordinator.settings import DetectionSettings


class Change(NamedTuple):
    """What became of one partition: by how many records, or ms, and the other offset that matters."""

    topic: str
    lag: PartitionLag
    amount: int
    other: int


class Losses:
    """Finds them; `state` and `cuts` are what `snapshot` returned of it and its `cuts`, None for a start."""

    def __init__(
        self,
        settings: DetectionSettings,
        cluster: str,
        state: dict[str, Any] | None = None,
        cuts: Any = None,  # noqa: ANN401 - JSON
    ) -> None:
        self._settings, self._cluster = settings, cluster
        self._open = msgspec.convert(state or {}, dict[str, Open])
        self.cuts = Cuts(cuts)

    def snapshot(self) -> dict[str, Any]:
        """JSON-able memory for the ledger."""
        found: dict[str, Any] = msgspec.to_builtins(self._open)
        return found

    @property
    def opened(self) -> frozenset[str]:
        """Incidents that are open."""
        return frozenset(one.incident for one in self._open.values())

    def concerned(self) -> AbstractSet[str]:
        """Return the groups that have something open, or not judged yet."""
        return self._open.keys() | self.cuts.concerned()

    def on_sample(
        self, group: str, consumed: Consumed, sample: EndsSample, lost: Sequence[tuple[int, int]] = ()
    ) -> list[Finding]:
        """Judge a group; `lost`: places of which records were deleted unread, and how many."""
        found = self._rewound(group, consumed, sample) if consumed.went_back else []
        consumed.went_back.clear()
        if sample.earliest:
            found += self._cut(group, consumed, sample)
            found += self._lost(group, consumed, sample, lost)
            found += self._expiring(group, consumed, sample)
        return found

    def end(self, group: str, at: int, resolution: str) -> list[Finding]:
        """Resolve what is open of a group that is gone."""
        self.cuts.forget(group)
        known = self._open.pop(group, None)
        return [] if known is None else [self._resolved(group, known, at, resolution)]

    def _rewound(self, group: str, consumed: Consumed, sample: EndsSample) -> list[Finding]:
        changes = []
        for (topic, partition), before in consumed.went_back.items():
            one = consumed.lag_of(topic, partition)
            if one is None or one.offset >= before or consumed.may_be_pending:
                continue
            place, topic_id = (topic, partition), sample.ids.get(topic, "")
            if self.cuts.deferred(group, place, before, one.offset):
                continue
            again = self.cuts.again(group, place, before, one.offset, topic_id)
            if again is None:
                again = before - one.offset if before <= one.end else 0
            if again:
                changes.append(Change(topic, one, again, one.offset + again))
        return self._read_again(group, changes, sample.at)

    def _read_again(self, group: str, changes: list[Change], at: int) -> list[Finding]:
        if not changes:
            return []
        worst = max(changes, key=lambda one: one.amount)
        anchor = f"rewound/{worst.topic}/{worst.lag.partition}/{worst.other}/{worst.lag.offset}"
        details = _place(worst, changes) | {
            "from_offset": worst.other,
            "to_offset": worst.lag.offset,
            "records": sum(one.amount for one in changes),
        }
        return [self._loss_finding(Kind.OFFSETS_REWOUND, group, anchor, at, changes, details=details)]

    def _cut(self, group: str, consumed: Consumed, sample: EndsSample) -> list[Finding]:
        """Return what a group lost, and reads again, because logs were cut at their end."""
        lost: list[Change] = []
        again: list[Change] = []
        for one in self.cuts.judged(group, consumed, sample):
            topic, _ = one.place
            lag = consumed.lag_of(*one.place)
            if lag is None:
                continue
            then = lag._replace(offset=one.furthest)
            if one.lost > MARKER:
                lost.append(Change(topic, then, one.lost, one.end))
            if one.again:
                again.append(Change(topic, lag._replace(offset=one.to), one.again, one.to + one.again))
        found = self._read_again(group, again, sample.at)
        if not lost:
            return found
        worst = max(lost, key=lambda one: one.amount)
        anchor = f"cut/{worst.topic}/{worst.lag.partition}/{worst.other}/{worst.lag.offset}"
        details: Details = {
            "records": sum(one.amount for one in lost),
            "committed_offset": worst.lag.offset,
            "cut_to": worst.other,
        }
        details = _place(worst, lost) | details
        return [
            *found,
            self._loss_finding(Kind.RECORDS_LOST, group, anchor, sample.at, lost, details=details),
        ]

    def _lost(
        self, group: str, consumed: Consumed, sample: EndsSample, lost: Sequence[tuple[int, int]]
    ) -> list[Finding]:
        changes = [found for one in lost if (found := _change(consumed, sample, *one)) is not None]
        if not changes:
            return []
        worst = max(changes, key=lambda one: one.amount)
        anchor = f"lost/{worst.topic}/{worst.lag.partition}/{worst.lag.offset}"
        counted: Details = {"records": sum(one.amount for one in changes)}
        details = _place(worst, changes) | counted | _offsets(worst)
        return [self._loss_finding(Kind.RECORDS_LOST, group, anchor, sample.at, changes, details=details)]

    def _expiring(self, group: str, consumed: Consumed, sample: EndsSample) -> list[Finding]:
        near = []
        for place, jumps in sorted(consumed.jumps.items()):
            if (one := _change(consumed, sample, place)) is None:
                continue
            gap = one.lag.offset - one.other
            left = left_ms(gap, sample.at, jumps)
            # Where the end is nearer than retention, the group keeps its distance.
            if gap < (one.lag.records or 0) and left <= self._settings.records_expiring_ms:
                near.append(one._replace(amount=left))
        known = self._open.get(group)
        if near and known is None:
            return [self._opened(group, near, sample.at)]
        if known is not None and not near and self._is_far(known, consumed):
            del self._open[group]
            return [self._resolved(group, known, sample.at, "quiet")]
        return []

    def _resolved(self, group: str, known: Open, at: int, resolution: str) -> Finding:
        kind = Kind.RECORDS_EXPIRING
        return lag_resolved(
            self._settings, self._cluster, kind, group, known, at, resolution, **place_of(known)
        )

    def _is_far(self, known: Open, consumed: Consumed) -> bool:
        """Whether the partition of the open incident has moved on, is read to its end, or was deleted."""
        track = consumed.track(known.topic, known.partition)
        return track is None or track.lag == 0 or track.offset != known.offset

    def _opened(self, group: str, near: list[Change], at: int) -> Finding:
        worst = min(near, key=lambda one: one.amount)
        anchor = f"expiring/{worst.topic}/{worst.lag.partition}/{worst.lag.offset}"
        left: Details = {"left_ms": worst.amount}
        details = _place(worst, near) | left | _offsets(worst)
        found = self._loss_finding(
            Kind.RECORDS_EXPIRING, group, anchor, at, near, details=details, phase="opened", opened_at=at
        )
        self._open[group] = Open(found.incident or "", at, worst.topic, worst.lag.partition, worst.lag.offset)
        return found

    def _loss_finding(
        self,
        kind: Kind,
        group: str,
        anchor: str,
        at: int,
        changes: list[Change],
        **fields: Any,  # noqa: ANN401 - the remaining fields of Finding, checked by its constructor
    ) -> Finding:
        topics = tuple(dict.fromkeys(one.topic for one in changes))
        return lag_finding(
            self._settings,
            self._cluster,
            kind,
            group,
            anchor,
            at,
            topics=topics,
            topics_total=len(topics),
            partitions_affected=len(changes),
            **fields,
        )


def _place(worst: Change, changes: list[Change]) -> Details:
    """Return which partition a finding is about, and how many there are."""
    return {"topic": worst.topic, "partition": worst.lag.partition, "partitions": len(changes)}


def _offsets(worst: Change) -> Details:
    return {"committed_offset": worst.lag.offset, "earliest_offset": worst.other}


def _change(consumed: Consumed, sample: EndsSample, place: int, amount: int = 0) -> Change | None:
    """Return what became of the partition at a place, beside its first offset."""
    topic, partition = consumed.places.layout.at(place)
    lag = consumed.lag_of(topic, partition)
    return None if lag is None else Change(topic, lag, amount, sample.begin(topic, partition))
