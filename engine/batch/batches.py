"""One micro-batch as the driver takes it, from the coordinators' outputs or from the operator's rows.

The output is small by construction: findings, changed group summaries, and a few counters for each shard.
"""

from __future__ import annotations

import base64
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from rebalance_monitor.coordinator.commits import positions
from rebalance_monitor.coordinator.findings.bodies import data_of
from rebalance_monitor.coordinator.findings.finding import from_json
from rebalance_monitor.coordinator.findings.outputs import (
    FindingOut,
    GroupOut,
    PositionsOut,
    RemovedOut,
    StatOut,
)
from rebalance_monitor.coordinator.lag import committing
from rebalance_monitor.dashboard.tables.quarantine_table import Unreadable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from rebalance_monitor.coordinator.findings.finding import Finding
    from rebalance_monitor.coordinator.findings.outputs import Output
    from rebalance_monitor.coordinator.lag.board import Board
    from rebalance_monitor.coordinator.lag.committing import Committing
    from rebalance_monitor.coordinator.lag.costs.handovers import Handover
    from rebalance_monitor.coordinator.lag.following import Lag, News
    from rebalance_monitor.coordinator.lag.measured import GroupLag
    from rebalance_monitor.coordinator.state.positions import Positions
    from rebalance_monitor.engine.batch.step import OutRow

# The query id of batches that no query made.
MONITOR = "monitor"


class BatchKey(NamedTuple):
    """What makes a batch the same batch when it runs again."""

    query_id: str
    batch_id: int


@dataclass(slots=True)
class Batch:
    """One micro-batch. now: its timestamp (ms), -1 where no key had rows or a clock.

    groups: group -> summary. removed: groups that are gone at its end. stats: (shard, counters) of the
    coordinator. begins, positions: shard -> first and last offset. newest: shard -> time (ms) of its newest
    record that was read live. types: record type -> readable records. rows, state_bytes: totals. troubles:
    what went wrong inside the operator. committed: group -> its positions; shards: of these groups.
    committing: how these commit.
    commits_only: summaries of those of them without a record of their own, on change. forgotten: such whose
    last offset is gone. lags: of all groups, where the ends of topics are newer than at the batch before. The
    driver's parts fill these in.
    """

    findings: list[Finding] = field(default_factory=list)
    groups: dict[str, dict[str, Any]] = field(default_factory=dict)
    removed: list[str] = field(default_factory=list)
    stats: list[tuple[int, StatOut]] = field(default_factory=list)
    unreadable: list[Unreadable] = field(default_factory=list)
    troubles: list[dict[str, Any]] = field(default_factory=list)
    begins: dict[int, int] = field(default_factory=dict)
    positions: dict[int, int] = field(default_factory=dict)
    newest: dict[int, int] = field(default_factory=dict)
    types: Counter[int] = field(default_factory=Counter)
    now: int = -1
    rows: int = 0
    state_bytes: int = 0
    committed: dict[str, Positions] = field(default_factory=dict)
    shards: dict[str, int] = field(default_factory=dict)
    committing: dict[str, Committing] = field(default_factory=dict)
    commits_only: dict[str, dict[str, Any]] = field(default_factory=dict)
    forgotten: list[str] = field(default_factory=list)
    lags: Mapping[str, GroupLag] | None = None
    handed: dict[str, Handover] = field(default_factory=dict)


TROUBLES = frozenset({"operator_error", "state_lost", "state_not_kept"})


def batch_of(outputs: Iterable[tuple[int, Output]]) -> Batch:
    """Return what the coordinators' outputs amount to; they come shard by shard, each under its shard."""
    batch, removed = Batch(), dict[str, None]()
    for shard, output in outputs:
        # The most frequent first.
        match output:
            case PositionsOut(group, held):
                batch.committed[group], batch.shards[group] = held, shard
            case StatOut():
                _take_stat(batch, shard, output)
            case GroupOut(group, summary):
                # The last word counts: a group may be removed and made again within a batch.
                removed.pop(group, None)
                batch.groups[group] = summary
            case FindingOut(finding):
                batch.findings.append(finding)
            case RemovedOut(group):
                batch.groups.pop(group, None)
                batch.committed.pop(group, None)
                removed[group] = None
    batch.removed += removed
    return batch


def with_lag(findings: list[Finding], batch: Batch, lag: Lag, news: News) -> list[Finding]:
    """Return a batch's findings with their costs, and those about lag; `batch` gets the lags to show."""
    found = lag.on_batch(findings, news)
    publish_commits(batch, lag.board)
    found += lag.forget(batch.forgotten, news.wall)
    if news.samples:
        batch.lags = lag.lags()
    return found


def publish_commits(batch: Batch, board: Board) -> None:
    """Store in `batch` how the groups with positions commit; list groups without a record of their own.

    A group without offsets and without a record is removed.
    """
    known = board.groups
    trimmed = board.trim()
    batch.forgotten += trimmed
    for group in batch.committed:
        consumed = known.get(group)
        if consumed is None:
            if group not in trimmed and batch.committed[group].lone:
                batch.forgotten.append(group)
            continue
        batch.committing[group] = committing.committing(consumed)
        if consumed.lone and consumed.topics_changed:
            batch.commits_only[group] = committing.summarise(group, consumed)


def read_batch(rows: list[OutRow]) -> Batch:
    """Sort the operator's rows (`row_kind`, `shard`, `group`, `body`), in the order of their shards.

    `rows` is emptied on the way: of a long history they and what is made of them would be too much.
    """
    # Tasks finish in any order; what is written must not depend on it.
    rows.sort(key=lambda row: row[1])
    rows.reverse()
    return batch_of(_outputs(rows))


def _outputs(rows: list[OutRow]) -> Iterator[tuple[int, Output]]:
    while rows:
        kind, shard, group, body = rows.pop()
        match kind:
            case "finding":
                yield shard, FindingOut(from_json(body))
            case "group":
                yield shard, GroupOut(group, data_of(body))
            case "positions":
                yield shard, PositionsOut(group, positions.read(body))
            case "removed":
                yield shard, RemovedOut(group)
            case _:
                data = data_of(body)
                yield shard, StatOut(data.pop("kind"), data)


def _take_stat(batch: Batch, shard: int, stat: StatOut) -> None:
    if stat.kind == "batch":
        _take_summary(batch, shard, stat.data)
    elif stat.kind == "quarantine":
        batch.unreadable.append(_unreadable(shard, stat.data))
    elif stat.kind in TROUBLES:
        batch.troubles.append({"kind": stat.kind, "shard": shard, **stat.data})
    else:
        batch.stats.append((shard, stat))


def _take_summary(batch: Batch, shard: int, data: dict[str, Any]) -> None:
    batch.now = max(batch.now, data["now"])
    batch.rows += data["rows"]
    batch.state_bytes += data["state_bytes"]
    for number, count in data["types"].items():
        batch.types[int(number)] += count
    if data["last_offset"] >= 0:
        batch.positions[shard] = max(data["last_offset"], batch.positions.get(shard, -1))
        batch.begins[shard] = min(data["first_offset"], batch.begins.get(shard, data["first_offset"]))
    if data["newest"] >= 0:
        batch.newest[shard] = max(data["newest"], batch.newest.get(shard, -1))


def _unreadable(shard: int, data: dict[str, Any]) -> Unreadable:
    names = ("offset", "timestamp", "group", "reason", "part", "at", "field", "type")
    raw = {name: data[name] and base64.b64decode(data[name]) for name in ("key", "value")}
    fields: dict[str, Any] = {name: data[name] for name in names} | raw
    return Unreadable(partition=shard, **fields)
