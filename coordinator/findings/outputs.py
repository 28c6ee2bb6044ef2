"""What the shard's coordinator hands out: findings, group summaries, positions, removals and counters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from rebalance_monitor.coordinator.findings.names import bounded, short

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rebalance_monitor.coordinator.findings.finding import Finding
    from rebalance_monitor.coordinator.state.positions import Positions
    from rebalance_monitor.coordinator.state.shard_state import ShardState
    from rebalance_monitor.decoders import Row


class FindingOut(msgspec.Struct, frozen=True, gc=False):
    """A finding, not yet stamped with the wall clock."""

    finding: Finding


class GroupOut(msgspec.Struct, frozen=True, gc=False):
    """A group's summary: a small JSON-able dict, on change and at most once per summary interval."""

    group: str
    summary: dict[str, Any]


class PositionsOut(msgspec.Struct, frozen=True, gc=False):
    """A group's committed offsets, whole, at most once in 5 s; `held` does not change any more."""

    group: str
    held: Positions


class RemovedOut(msgspec.Struct, frozen=True, gc=False):
    """The group is removed: forget its summary."""

    group: str


class StatOut(msgspec.Struct, frozen=True, gc=False):
    """Counters of one shard, once a clock row.

    Kinds: `shard`; `unreadable` for each reason; `served` where something was committed.
    """

    kind: str
    data: dict[str, Any]


Output = FindingOut | GroupOut | PositionsOut | RemovedOut | StatOut


def with_short_names(output: Output) -> Output:
    """Return the output with its long names cut; a summary's names are cut where it is made."""
    # The most frequent first.
    match output:
        case StatOut():
            return output
        case PositionsOut(group, held):
            return output if (name := short(group)) is group else PositionsOut(name, held)
        case GroupOut(group, summary):
            return output if (name := short(group)) is group else GroupOut(name, summary)
        case FindingOut(finding):
            cut = bounded(finding)
            return output if cut is finding else FindingOut(cut)
        case RemovedOut(group):
            return RemovedOut(short(group))


def read_until(stats: Iterable[StatOut]) -> dict[int, int]:
    """Shard -> time (ms) up to which all of it has been read, for the shards in `stats`."""
    found: dict[int, int] = {}
    for data in (stat.data for stat in stats if stat.kind == "shard" and "read_until" in stat.data):
        until = int(data["read_until"])
        found[data["shard"]] = min(until, found.get(data["shard"], until))
    return found


def served(stats: Iterable[StatOut]) -> dict[int, list[int]]:
    """Shard -> times (ms) of commits in it, some seconds apart: clients were served then."""
    found: dict[int, list[int]] = {}
    for data in (stat.data for stat in stats if stat.kind == "served"):
        found.setdefault(data["shard"], []).extend(data["times"])
    return found


def count(state: ShardState, reason: str, row: Row, sample: str) -> None:
    """Count one unreadable record by its reason."""
    seen = state.failures.setdefault(reason, [0, row.first_offset, row.record_ts, sample])
    seen[0] = int(seen[0]) + 1
    seen[2] = row.record_ts


def counters(state: ShardState) -> list[Output]:
    """Return what was counted since the last clock, and count from nothing again."""
    data = {
        "shard": state.shard,
        "bucket": state.bucket,
        "rows": state.rows,
        "records": state.records,
        "commits": state.commits,
        "groups": len(state.groups),
        "positions_dropped": state.lone_dropped,
        "last_offset": state.last_offset,
        "last_ts": state.last_ts,
        "read_until": state.now if state.catching_up_until is None else min(state.now, state.last_ts),
        "catching_up": int(state.catching_up_until is not None),
    }
    out: list[Output] = [StatOut("shard", data)]
    for reason, (count, first, ts, sample) in sorted(state.failures.items()):
        failure = {"shard": state.shard, "reason": reason, "count": count, "first_offset": first}
        out.append(StatOut("unreadable", {**failure, "ts": ts, "sample": sample}))
    state.rows = state.records = state.commits = 0
    state.failures = {}
    return out
