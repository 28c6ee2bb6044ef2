"""State that earlier versions of the product wrote, kept as they wrote it: it is read on, or refused by name.

`codec-3.lane`: coordinators of the recording `faults-4.1.1`, each after the first half of its rows, as the
first release with this version of the codec wrote them; fields that came later take their defaults.
`codec-2.lane`, `codec-1.blob`: forms that are no longer read.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

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
from rebalance_monitor.decoders import Row, decode_batch

if TYPE_CHECKING:
    from rebalance_monitor.coordinator.state.shard_state import ShardState

FIXTURES = Path(__file__).parents[2] / "fixtures"
LANE = decode_lane((FIXTURES / "states" / "codec-3.lane").read_bytes())


@pytest.fixture(scope="module")
def rows() -> dict[int, list[Row]]:
    """The rows of each coordinator of the recording."""
    found: defaultdict[int, list[Row]] = defaultdict(list)
    recorded = FIXTURES / "scenarios" / "faults-4.1.1" / "capture" / "records.parquet"
    for batch in pq.ParquetFile(recorded).iter_batches():
        for row in decode_batch(batch).to_pylist():
            found[row["shard"]].append(Row(**row))
    return found


def told(state: ShardState, rows: list[Row]) -> list[str]:
    """The ids of what a coordinator with this state tells of these rows.

    But of who went, which rests on what the group has learned: an older state knows less of that.
    """
    coordinator = ShardCoordinator(state, DetectionSettings(), "recorded")
    outputs = [output for row in rows for output in coordinator.on_row(row)]
    found = [output.finding for output in outputs if isinstance(output, FindingOut)]
    return [finding.id for finding in found if finding.kind not in BESIDE]


def test_an_older_state_goes_on_as_if_this_version_had_written_it(rows: dict[int, list[Row]]) -> None:
    later = 0
    for (shard, _), (_, blob) in LANE.items():
        half = len(rows[shard]) // 2
        undisturbed = new_shard_state(shard, 0, None)
        before = told(undisturbed, rows[shard][:half])
        after = told(undisturbed, rows[shard][half:])
        assert told(decode_state(blob), rows[shard][half:]) == after
        assert not set(before) & set(after)
        later += len(after)
    assert later > 20


def test_an_older_state_is_kept_as_it_was_until_a_group_is_touched() -> None:
    for _, blob in LANE.values():
        again = decode_state(encode_state(decode_state(blob)))
        assert again.groups.frozen == decode_state(blob).groups.frozen
        state = decode_state(blob)
        groups = {name: state.groups[name] for name in state.groups}
        assert groups
        again = decode_state(encode_state(state))
        assert {name: again.groups[name] for name in again.groups} == groups


@pytest.mark.parametrize("version", [1, 2])
def test_a_state_that_is_no_longer_read_says_what_to_do(version: int) -> None:
    (place,) = (FIXTURES / "states").glob(f"codec-{version}.*")
    stored = place.read_bytes()
    blobs = [blob for _, blob in decode_lane(stored).values()] if place.suffix == ".lane" else [stored]
    for blob in blobs:
        with pytest.raises(
            StateVersionError, match=rf"version {version}, .* version {CODEC_VERSION}\. .*--rebuild-state"
        ):
            decode_state(blob)
