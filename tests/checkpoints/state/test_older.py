"""State that the version before wrote, kept as it wrote it: it is upgraded; what is older is refused by name.

`codec-7/*.lane`: coordinators of recordings, each up to the row after which most of its incidents were open.
`codec-1.blob`, `codec-2.lane`, `codec-3.lane`: forms that are no longer read.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pyarrow.parquet as pq
import pytest

from rebalance_monitor.checkpoints.state.codec import (
    StateVersionError,
    decode_lane,
    decode_state,
    encode_state,
)
from rebalance_monitor.checkpoints.state.versions import CODEC_VERSION
from rebalance_monitor.coordinator.findings.massed import BESIDE
from rebalance_monitor.coordinator.findings.outputs import FindingOut
from rebalance_monitor.coordinator.settings import DetectionSettings
from rebalance_monitor.coordinator.shard import ShardCoordinator, new_shard_state
from rebalance_monitor.coordinator.state.group_state import GroupState, Learned, Member
from rebalance_monitor.decoders import Row, decode_batch

if TYPE_CHECKING:
    from rebalance_monitor.coordinator.findings.finding import Finding
    from rebalance_monitor.coordinator.state.shard_state import ShardState

FIXTURES = Path(__file__).parents[2] / "fixtures"
LANES = sorted((FIXTURES / "states" / "codec-7").glob("*.lane"))
SETTINGS = DetectionSettings(storm_threshold=3, storm_quiet_ms=10_000, stuck_after_ms=5_000)
LATER_MS = 600_000


def rows_of(recording: str) -> dict[int, list[Row]]:
    """Return shard -> rows of a recording."""
    found: defaultdict[int, list[Row]] = defaultdict(list)
    records = FIXTURES / "scenarios" / recording / "capture" / "records.parquet"
    for batch in pq.ParquetFile(records).iter_batches():
        for row in decode_batch(batch).to_pylist():
            found[row["shard"]].append(Row(**row))
    return found


def findings(state: ShardState, rows: list[Row], later_ms: int = 0) -> list[Finding]:
    """Return what a coordinator with this state finds in these rows, and by a clock `later_ms` after them."""
    coordinator = ShardCoordinator(state, SETTINGS, "recorded", summaries=False)
    outputs = [
        output for row in rows for output in coordinator.on_row(row) + coordinator.on_clock(row.record_ts)
    ]
    outputs += coordinator.on_clock(state.now + later_ms)
    return [output.finding for output in outputs if isinstance(output, FindingOut)]


def comparable(state: ShardState) -> dict[str, GroupState]:
    """Return the groups without what the version before did not keep.

    It had another departure model, which gave departures other causes, learned no habit, kept only the last
    intervals of a member, and remembered neither expired members, nor since when some incidents are open, nor
    on what evidence members of a convergence under way were judged, nor what is blamed for a storm, nor when
    members worked last before a generation. It counted the members to restart also where no restart was under
    way, and judged a group that goes on as usual at its next deadline, not before.
    """
    replace = msgspec.structs.replace
    return {
        name: replace(
            group,
            wake=0,
            worked=-1,
            members=_without_orders(group.members),
            learned=Learned(group.learned.idle_families),
            storm=replace(
                group.storm,
                size=group.storm.size if group.storm.restarting >= 0 else -1,
                blamed=[],
                expired={},
            ),
            empty=replace(group.empty, expiring_at=-1, spells=[], followed_since=-1),
            rebalances=replace(group.rebalances, expired=[], causes=[]),
            changes=replace(
                group.changes, evidence={}, verdicts=[], departed=_without_orders(group.changes.departed)
            ),
            checks=replace(group.checks, too_large_at=-1, skewed_at=-1, unassigned_at=-1),
        )
        for name, group in state.groups.items()
    }


def _without_orders(members: list[Member]) -> list[Member]:
    return [msgspec.structs.replace(one, orders=[]) for one in members]


def said(found: list[Finding]) -> list[tuple[str, str | None]]:
    """Return the ids and phases of findings, without the ones that rest on the departure model."""
    return [(one.id, one.phase) for one in found if one.kind not in BESIDE]


def test_a_state_of_the_version_before_is_the_one_that_this_version_makes_of_the_same_rows() -> None:
    """And it goes on alike: no incident that is open is opened twice, none is left without its end."""
    ended: Counter[str] = Counter()
    for lane in LANES:
        rows = rows_of(lane.stem)
        for (shard, _), (_, blob) in decode_lane(lane.read_bytes()).items():
            upgraded, undisturbed = decode_state(blob), new_shard_state(shard, 0, None)
            first = [row for row in rows[shard] if row.last_offset <= upgraded.last_offset]
            rest = rows[shard][len(first) :]
            before = findings(undisturbed, first)
            assert comparable(decode_state(blob)) == comparable(undisturbed)
            after = findings(undisturbed, rest, LATER_MS)
            assert said(findings(upgraded, rest, LATER_MS)) == said(after)
            opened = {one.incident for one in before if one.phase == "opened"}
            ended.update(one.kind for one in after if one.phase == "resolved" and one.incident in opened)
    assert ended.keys() >= {
        *("storm", "group_empty", "member_silent", "rebalance_in_progress", "rebalance_stuck"),
        "assignment_skewed",
    }


def test_a_state_of_the_version_before_is_written_in_the_new_form() -> None:
    for lane in LANES:
        for _, blob in decode_lane(lane.read_bytes()).values():
            again = encode_state(decode_state(blob))
            assert again[0] == CODEC_VERSION
            assert dict(decode_state(again).groups) == dict(decode_state(blob).groups)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_state_that_is_no_longer_read_says_what_to_do(version: int) -> None:
    (place,) = (FIXTURES / "states").glob(f"codec-{version}.*")
    stored = place.read_bytes()
    blobs = [blob for _, blob in decode_lane(stored).values()] if place.suffix == ".lane" else [stored]
    for blob in blobs:
        with pytest.raises(
            StateVersionError, match=rf"version {version}, .* version {CODEC_VERSION}\. .*--rebuild-state"
        ):
            decode_state(blob)
