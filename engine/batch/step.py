"""One coordinator's share of a micro-batch: rows and time in, new state and outputs out. No Spark here.

Rows are put into the order of their offsets, the clock last: Spark promises no order inside a key. Nothing a
record causes may stop the query, so an error of the coordinator becomes a counted `operator_error` stat, and
state that cannot be read is begun anew with a `state_lost` stat. Only a state of an unknown version raises
(StateVersionError): going on would destroy it.

The time the coordinator is told is bounded by what has been read: Spark takes a batch's timestamp after it
has fixed the offsets to read, so a record older than the timestamp may still be unread. Everything older than
the timestamp of the batch *before* has been read, therefore now = min(timestamp, timestamp before + grace).
Of limited batches not even that is true: while they last, time goes on with the records of the shard alone.

That also shows a driver's clock that is ahead: records are newer than the batch before theirs. Where they
seem much older, time goes on with them; when the clock is set back the state does not stay in the future.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from rebalance_monitor.checkpoints.codec import StateVersionError, Stored, decode_state, encode_state
from rebalance_monitor.coordinator.findings.bodies import body_of
from rebalance_monitor.coordinator.findings.finding import to_json
from rebalance_monitor.coordinator.findings.outputs import (
    FindingOut,
    GroupOut,
    Output,
    PositionsOut,
    RemovedOut,
    StatOut,
)
from rebalance_monitor.coordinator.shard import ShardCoordinator, new_shard_state
from rebalance_monitor.decoders.rows import COMMIT_RUN, FAILURE, RECORD

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from rebalance_monitor.coordinator.settings import DetectionSettings
    from rebalance_monitor.coordinator.state.shard_state import ShardState
    from rebalance_monitor.decoders import Row

MAX_ERRORS = 20
AHEAD_MS = 10_000
"""What a clock is ahead, or set back, by that matters."""

PAUSE_MS = 120_000
"""After a pause as long, offsets without a record may have been cleaned: a segment takes longer to fill."""

QUARANTINE_BYTES = 256 * 1024
# A record's body begins with a version byte and the key's length; the key begins with its type.
_KEY_TYPE = slice(5, 7)
_OFFSET_COMMIT = 1


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


@dataclass(slots=True)
class _Work:
    """Outputs of one step, with its errors counted and the first of them kept."""

    outputs: list[Output] = field(default_factory=list)
    errors: int = 0

    def run(self, group: str, call: Callable[[], Iterable[Output]]) -> None:
        """Add what `call` of the clock gives; its error, if any, becomes a stat."""
        try:
            self.outputs.extend(call())
        except Exception as error:  # noqa: BLE001 - whatever a record provokes must not end the query
            self.fail("clock", group, error)

    def take(self, rows: Iterable[Row], on_row: Callable[[Row], list[Output]]) -> None:
        """Add what `on_row` gives for each row; its errors become stats."""
        for row in rows:
            try:
                found = on_row(row)
            except Exception as error:  # noqa: BLE001 - as above
                self.fail(f"offset {row.first_offset}", row.group, error)
            else:
                if found:
                    self.outputs += found

    def fail(self, what: str, group: str, error: Exception) -> None:
        """Count an error, and tell of it if it is one of the first."""
        self.errors += 1
        if self.errors <= MAX_ERRORS:
            data = {"what": what, "group": group, "error": f"{type(error).__name__}: {error}"[:500]}
            self.outputs.append(StatOut("operator_error", data))


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
    """Apply one batch's `rows` at its timestamp `now` (ms); `ticks`: deadlines are judged after them.

    `newest`: time (ms) of the newest record of the whole lane. Raises StateVersionError only.
    """
    work = _Work()
    state = _state(plan, shard, bucket, stored, work)
    history = plan.catching_up.get(shard, 0)
    coordinator = ShardCoordinator(state, plan.settings, plan.cluster, history, reader=plan.reader)
    records = sorted(rows, key=attrgetter("first_offset"))
    if stored is not None and now - stored.now > PAUSE_MS:
        state.resumed_at = now
    work.take(records, coordinator.on_row)
    before = stored.now if stored else now
    if now < before - AHEAD_MS:
        work.run("", lambda: coordinator.set_back(now))
        before = now
    if ticks:
        _clock(coordinator, _sure(plan, state, now, before, newest), work)
    blob = _blob(state, stored, work)
    work.outputs.append(_summary(records, now, blob, is_live=state.catching_up_until is None))
    work.outputs.extend(_quarantine(records))
    return Stored(max(now, before), blob), [out_row(shard, o) for o in work.outputs]


def _sure(plan: Plan, state: ShardState, now: int, before: int, newest: int) -> int:
    """Return the time (ms) up to which everything has been read, by clocks that can be trusted."""
    grace = plan.settings.grace_ms
    sure = min(now, before + grace)
    if state.catching_up_until is not None:
        return sure
    if plan.limited:
        return min(sure, max(state.last_ts, state.now))
    return min(sure, newest + grace) if 0 <= newest < before - AHEAD_MS else sure


def _clock(coordinator: ShardCoordinator, now: int, work: _Work) -> None:
    """Let each group fail alone: one that cannot be judged costs the others nothing."""
    work.run("", lambda: coordinator.tick(now))
    for group in coordinator.due():
        work.run(group, partial(coordinator.wake, group))
    work.run("", coordinator.stats)


def _state(plan: Plan, shard: int, bucket: int, stored: Stored | None, work: _Work) -> ShardState:
    if stored is not None and stored.blob:
        try:
            return decode_state(stored.blob)
        except StateVersionError:
            raise
        except Exception as error:  # noqa: BLE001 - damaged state costs one shard's memory, not the monitor
            data = {"error": f"{type(error).__name__}: {error}"[:500]}
            work.outputs.append(StatOut("state_lost", data))
            return new_shard_state(shard, bucket, None)
    return new_shard_state(shard, bucket, plan.catching_up.get(shard))


def _blob(state: ShardState, stored: Stored | None, work: _Work) -> bytes:
    try:
        return encode_state(state)
    except Exception as error:  # noqa: BLE001 - the last good state is better than none
        data = {"error": f"{type(error).__name__}: {error}"[:500]}
        work.outputs.append(StatOut("state_not_kept", data))
        return stored.blob if stored else b""


def _summary(records: list[Row], now: int, blob: bytes, *, is_live: bool) -> StatOut:
    last = max((row.last_offset for row in records), default=-1)
    # What is read as history is no measure of anybody's clock.
    newest = max((row.record_ts for row in records), default=-1) if is_live else -1
    counts = {"now": now, "rows": len(records), "last_offset": last, "newest": newest}
    return StatOut("batch", {**counts, "state_bytes": len(blob), "types": _types(records)})


def _types(records: list[Row]) -> dict[str, int]:
    """Count the readable records by type; a commit run holds commits of type 1, rarely of the retired 0."""
    found: Counter[int] = Counter()
    for row in records:
        if row.row_kind == COMMIT_RUN:
            found[_OFFSET_COMMIT] += row.count
        elif row.row_kind == RECORD:
            found[int.from_bytes(row.body[_KEY_TYPE], "big", signed=True)] += 1
    return {str(number): count for number, count in found.items()}


def _quarantine(records: list[Row]) -> Iterable[StatOut]:
    """Give the newest unreadable records, as many as the sample's budget of bytes holds."""
    budget = QUARANTINE_BYTES
    for row in reversed(records):
        if row.row_kind != FAILURE:
            continue
        budget -= len(row.body)
        if budget < 0:
            return
        content: dict[str, Any] = json.loads(bytes(row.body[1:]))
        place = {"offset": row.first_offset, "timestamp": row.record_ts, "group": row.group}
        yield StatOut("quarantine", {**content, **place})


def out_row(shard: int, output: Output) -> OutRow:
    """Return what leaves the operator for one output of a coordinator."""
    match output:
        case FindingOut(finding):
            return OutRow("finding", shard, finding.group or "", to_json(finding))
        case GroupOut(group, summary):
            return OutRow("group", shard, group, body_of(summary))
        case PositionsOut(group, body):
            return OutRow("positions", shard, group, body)
        case RemovedOut(group):
            return OutRow("removed", shard, group, "{}")
        case StatOut(kind, data):
            return OutRow("stat", shard, "", body_of({"kind": kind, **data}))
