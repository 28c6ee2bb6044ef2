"""One coordinator's share of a micro-batch: rows and time in, new state and outputs out. No Spark here.

Rows are put into the order of their offsets, the clock last: Spark promises no order inside a key. Nothing a
record causes may stop the query, so an error of the coordinator becomes a counted `operator_error` stat, and
state that cannot be read is begun anew with a `state_lost` stat. Only a state of an unknown version raises
(StateVersionError): going on would destroy it.

The clock of the coordinator is bounded by the records that were read. Spark takes a batch's timestamp after
it has fixed the offsets to read, so a record older than the timestamp may still be unread. Every record older
than the timestamp of the batch *before* has been read. So now = min(timestamp, timestamp before + grace). For
limited batches not even that holds: while they last, time goes on with the records of the shard alone.

Records also show a driver's clock that is ahead: they seem much older than the batch before theirs. Then time
goes on with the records, so that the state is not in the future when the clock is set back.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from rebalance_monitor.checkpoints.state.codec import (
    StateVersionError,
    Stored,
    decode_group,
    decode_state,
    encode_group,
    encode_state,
)
from rebalance_monitor.coordinator.commits import positions
from rebalance_monitor.coordinator.findings.bodies import body_of
from rebalance_monitor.coordinator.findings.finding import to_json
from rebalance_monitor.coordinator.findings.names import short
from rebalance_monitor.coordinator.findings.outputs import (
    FindingOut,
    GroupOut,
    Output,
    PositionsOut,
    RemovedOut,
    StatOut,
    with_short_names,
)
from rebalance_monitor.coordinator.shard import ShardCoordinator, new_shard_state
from rebalance_monitor.decoders import decode_record
from rebalance_monitor.decoders.rows import COMMIT_RUN, FAILURE, RECORD

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from rebalance_monitor.coordinator.settings import DetectionSettings
    from rebalance_monitor.coordinator.state.shard_state import ShardState
    from rebalance_monitor.decoders import Row
    from rebalance_monitor.decoders.batches.batch import Read

MAX_ERRORS = 20
AHEAD_MS = 10_000
"""What a clock is ahead, or set back, by that matters."""

PAUSE_MS = 120_000
"""After a pause as long, offsets without a record may have been cleaned: a segment takes longer to fill."""

QUARANTINE_BYTES = 256 * 1024
# A record's body begins with a version byte and the key's length; the key begins with its type.
_KEY_TYPE = slice(5, 7)
_OFFSET_COMMIT = 1
_FIRST_OFFSET, _LAST_OFFSET = attrgetter("first_offset"), attrgetter("last_offset")
_RECORD_TS = attrgetter("record_ts")


class OutRow(NamedTuple):
    """What leaves the operator: `row_kind` finding | group | positions | removed | stat.

    `body` is JSON, but for positions (coordinator/commits/positions.py).
    """

    row_kind: str
    shard: int
    group: str
    body: str


@dataclass(frozen=True, slots=True)
class Plan:
    """What every coordinator is started with.

    catching_up: shard -> end offset found when this state was begun. limited: batches leave records unread.
    reader: names the process that takes positions.
    """

    settings: DetectionSettings
    cluster: str
    catching_up: dict[int, int]
    limited: bool = False
    reader: int = -1


class Extent(StrEnum):
    """What a batch has read of the topic, which says how far its time can be trusted.

    usual: everything older than the batch before. limited: perhaps not even that. proven: everything older
    than the batch's own timestamp.
    """

    USUAL = "usual"
    LIMITED = "limited"
    PROVEN = "proven"


class OpenShard:
    """A coordinator between two commits of its state: rows and clocks in, outputs out.

    `stored` is what `close` gave before, None for a coordinator that is new. Raises StateVersionError. What
    opening it had to say comes with the first batch.
    """

    def __init__(
        self,
        plan: Plan,
        shard: int,
        bucket: int,
        stored: Stored | None,
        *,
        summaries: bool = True,
        read: Read = decode_record,
    ) -> None:
        self._plan = plan
        self._stored = stored
        self._errors = 0
        self._outputs: list[Output] = []
        self.now = stored.now if stored else None
        """Timestamp of the last batch (ms), None before the first."""
        self.state = self._opened(shard, bucket)
        end = plan.catching_up.get(shard, 0)
        self._coordinator = ShardCoordinator(
            self.state,
            plan.settings,
            plan.cluster,
            end,
            summaries=summaries,
            read=read,
            reader=plan.reader,
        )

    def advance(
        self,
        rows: Sequence[Row],
        now: int,
        *,
        ticks: bool,
        newest: int = -1,
        extent: Extent = Extent.USUAL,
    ) -> list[Output]:
        """Apply one batch's `rows` at its timestamp `now` (ms); `ticks`: deadlines are judged after them.

        `newest`: time (ms) of the newest record of any shard that was read with them.
        """
        before = now if self.now is None else self.now
        if extent is not Extent.PROVEN and now - before > PAUSE_MS:
            self.state.resumed_at = now
        self._take(sorted(rows, key=attrgetter("first_offset")))
        if now < before - AHEAD_MS:
            self._run("clock", "", lambda: self._coordinator.set_back(now))
            before = now
        if ticks:
            self._clock(now if extent is Extent.PROVEN else self._sure(now, before, newest, extent))
        self.now = max(now, before)
        found, self._outputs, self._errors = self._outputs, [], 0
        return list(map(with_short_names, found))

    def close(self, *, rests: bool = False) -> tuple[Stored, list[Output]]:
        """Return what is to be kept, and a stat where the state cannot be written; it stays usable.

        `rests`: groups without a row since the last call stay as bytes, which take a fraction of the memory.
        """
        now = -1 if self.now is None else self.now
        try:
            if rests:
                self.state.groups.freeze(self._coordinator.take_resting(), encode_group, decode_group)
            return Stored(now, encode_state(self.state)), []
        except Exception as error:  # noqa: BLE001 - the last good state is better than none
            kept = self._stored.blob if self._stored else b""
            return Stored(now, kept), [StatOut("state_not_kept", {"error": _said(error)})]

    def _opened(self, shard: int, bucket: int) -> ShardState:
        if self._stored is None or not self._stored.blob:
            return new_shard_state(shard, bucket, self._plan.catching_up.get(shard))
        try:
            return decode_state(self._stored.blob)
        except StateVersionError:
            raise
        except Exception as error:  # noqa: BLE001 - damaged state costs one shard's memory, not the monitor
            self._outputs.append(StatOut("state_lost", {"error": _said(error)}))
            return new_shard_state(shard, bucket, None)

    def _sure(self, now: int, before: int, newest: int, extent: Extent) -> int:
        """Return the time (ms) up to which everything has been read, by clocks that can be trusted."""
        state, grace = self.state, self._plan.settings.grace_ms
        sure = min(now, before + grace)
        if state.catching_up_until is not None:
            return sure
        if extent is Extent.LIMITED:
            return min(sure, max(state.last_ts, state.now))
        return min(sure, newest + grace) if 0 <= newest < before - AHEAD_MS else sure

    def _take(self, rows: Iterable[Row]) -> None:
        """Add what the coordinator gives for each row; its errors become stats."""
        coordinator = self._coordinator
        on_row, waiting = coordinator.on_row, coordinator.waiting
        for row in rows:
            until = self.state.catching_up_until
            is_early = until is not None and row.last_offset + 1 < until
            waits = is_early and row.row_kind == COMMIT_RUN
            if waiting and not waits:
                self._settle(waiting.keys() & {row.group} if is_early else list(waiting))
            try:
                found = on_row(row, waits=waits)
            except Exception as error:  # noqa: BLE001 - whatever a record provokes must not end the query
                self._fail(f"offset {row.first_offset}", row.group, error)
            else:
                if found:
                    self._outputs += found
        self._settle(list(waiting))

    def _settle(self, groups: Iterable[str]) -> None:
        """Take the commits that wait of some groups: a group whose commits fail costs the others nothing.

        The group that committed last comes last: of those without a record the shard keeps the last ones.
        """
        waiting = self._coordinator.waiting
        for group in sorted(groups, key=lambda one: waiting[one][-1].first_offset):
            self._run("commits", group, partial(self._coordinator.settle, group))

    def _clock(self, now: int) -> None:
        """Let each group fail alone: one that cannot be judged costs the others nothing."""
        coordinator = self._coordinator
        self._run("clock", "", lambda: coordinator.tick(now))
        for group in coordinator.due():
            self._run("clock", group, partial(coordinator.wake, group))
        self._run("clock", "", coordinator.stats)

    def _run(self, what: str, group: str, call: Callable[[], Iterable[Output]]) -> None:
        """Add what `call` gives; its error, if any, becomes a stat."""
        try:
            self._outputs.extend(call())
        except Exception as error:  # noqa: BLE001 - as above
            self._fail(what, group, error)

    def _fail(self, what: str, group: str, error: Exception) -> None:
        """Count an error, and report it if it is one of the first."""
        self._errors += 1
        if self._errors <= MAX_ERRORS:
            self._outputs.append(
                StatOut("operator_error", {"what": what, "group": short(group), "error": _said(error)})
            )


def step(
    plan: Plan,
    shard: int,
    bucket: int,
    rows: Sequence[Row],
    now: int,
    stored: Stored | None,
    *,
    ticks: bool,
    newest: int = -1,
) -> tuple[Stored, list[OutRow]]:
    """Open a coordinator, advance it by one batch and close it again: Spark keeps nothing but its state.

    Raises StateVersionError only. The arguments are those of `OpenShard.advance`.
    """
    extent = Extent.LIMITED if plan.limited else Extent.USUAL
    coordinator = OpenShard(plan, shard, bucket, stored)
    outputs = coordinator.advance(rows, now, ticks=ticks, newest=newest, extent=extent)
    kept, failed = coordinator.close()
    outputs += failed
    outputs += measured(coordinator.state, rows, now, len(kept.blob))
    return kept, [out_row(shard, output) for output in outputs]


def measured(state: ShardState, rows: Sequence[Row], now: int, state_bytes: int) -> Iterator[StatOut]:
    """Yield what a batch had for one coordinator: a summary, and a sample of the unreadable records."""
    yield _summary(rows, now, state_bytes, is_live=state.catching_up_until is None)
    yield from _quarantine(rows)


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:500]


def _summary(records: Sequence[Row], now: int, state_bytes: int, *, is_live: bool) -> StatOut:
    # Without a Counter, which is slow to make: there is one summary a shard.
    types = {_OFFSET_COMMIT: 0}
    for row in records:
        if row.row_kind == COMMIT_RUN:
            # It holds commits of type 1, rarely of the retired 0.
            types[_OFFSET_COMMIT] += row.count
        elif row.row_kind == RECORD:
            number = int.from_bytes(row.body[_KEY_TYPE], "big", signed=True)
            types[number] = types.get(number, 0) + 1
    data = {
        "now": now,
        "rows": len(records),
        "first_offset": min(map(_FIRST_OFFSET, records), default=-1),
        "last_offset": max(map(_LAST_OFFSET, records), default=-1),
        # History is no measure of a clock.
        "newest": max(map(_RECORD_TS, records), default=-1) if is_live else -1,
        "state_bytes": state_bytes,
        "types": {str(number): count for number, count in sorted(types.items()) if count},
    }
    return StatOut("batch", data)


def _quarantine(records: Sequence[Row]) -> Iterator[StatOut]:
    """Yield the newest unreadable records, as many as the sample's budget of bytes holds."""
    budget = QUARANTINE_BYTES
    unreadable = [row for row in records if row.row_kind == FAILURE]
    for row in sorted(unreadable, key=attrgetter("first_offset"), reverse=True):
        budget -= len(row.body)
        if budget < 0:
            return
        content: dict[str, Any] = json.loads(bytes(row.body[1:]))
        place = {"offset": row.first_offset, "timestamp": row.record_ts, "group": short(row.group)}
        yield StatOut("quarantine", {**content, **place})


def out_row(shard: int, output: Output) -> OutRow:
    """Return what leaves the operator for one output of a coordinator."""
    match output:
        case FindingOut(finding):
            return OutRow("finding", shard, finding.group or "", to_json(finding))
        case GroupOut(group, summary):
            return OutRow("group", shard, group, body_of(summary))
        case PositionsOut(group, held):
            return OutRow("positions", shard, group, positions.published(held))
        case RemovedOut(group):
            return OutRow("removed", shard, group, "{}")
        case StatOut(kind, data):
            return OutRow("stat", shard, "", body_of({"kind": kind, **data}))
