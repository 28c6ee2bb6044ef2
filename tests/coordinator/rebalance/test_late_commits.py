"""On a real broker: what members commit after they were evicted for work that outlasts their poll interval.

Each family has a group of one member, so the group is empty when the work is done, unless the client does not
enforce the interval. Whose client then commits anyway, and is heard, shows in the records; the others are
refused, or do not try.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rebalance_monitor.cluster.captures.capture import read_capture
from rebalance_monitor.config.detection import Detection
from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.kinds import Kind
from rebalance_monitor.decoders import GroupMetadataValue, decode_batch, decode_record
from rebalance_monitor.decoders.rows import COMMIT_RUN, made_rows, record
from rebalance_monitor.engine.replay.replaying import replay_capture
from rebalance_monitor.engine.settings import detection_settings
from rebalance_monitor.lab.scenario.runner import Run, Together
from rebalance_monitor.lab.scenario.scenario import load
from rebalance_monitor.lab.scenario.traffic import Traffic
from rebalance_monitor.lab.suite.suite import capture_broker
from rebalance_monitor.lab.workers.families import FAMILIES, why_not

if TYPE_CHECKING:
    from pathlib import Path

    from rebalance_monitor.decoders import Row
    from rebalance_monitor.lab.cluster.broker import LabBroker

pytestmark = [pytest.mark.broker, pytest.mark.slow]
SCENARIO = load("reported-late-commits")
FOREIGN = {Cause.OFFSETS_RESET, Cause.GROUP_ID_SHARED}


def test_what_evicted_members_commit_is_their_own_whatever_their_family(
    lab_broker: LabBroker, tmp_path: Path
) -> None:
    able = [name for name in SCENARIO.families if why_not(FAMILIES[name], (4, 1, 1)) is None]
    groups = {f"late.{name}": name for name in able}
    with Traffic(lab_broker.bootstrap) as traffic:
        runs = [
            Run(SCENARIO, FAMILIES[name], lab_broker, traffic, tmp_path, group)
            for group, name in groups.items()
        ]
        with Together(runs) as together:
            assert together.wait(300)
    capture = tmp_path / "capture"
    capture_broker(lab_broker, capture, [], [])
    late = late_commits(capture, groups)
    found = replay_capture(capture, detection_settings(Detection(), read_capture(capture).metadata))
    starts = [one for one in found if one.group in groups and one.kind is Kind.REBALANCE]
    for group, name in groups.items():
        said = {cause.cause for one in starts if one.group == group for cause in one.causes}
        assert not said & FOREIGN, (name, late[group], said)
    # aiokafka commits as one that is no member any more, and an empty group takes that.
    assert late["late.aiokafka"] > 0, late


def late_commits(capture: Path, groups: dict[str, str]) -> dict[str, int]:
    """Count the commits between the record of an empty group and its next generation."""
    late, empty = dict.fromkeys(groups, 0), set[str]()
    for row in rows_of(capture):
        if row.group not in groups:
            continue
        if row.row_kind == COMMIT_RUN:
            late[row.group] += row.group in empty
            continue
        value = getattr(decode_record(*record(row)), "value", None)
        if isinstance(value, GroupMetadataValue):
            (empty.discard if value.members else empty.add)(row.group)
    return late


def rows_of(capture: Path) -> list[Row]:
    with read_capture(capture).by_partition(100_000) as streams:
        return [
            row for batches in streams.values() for batch in batches for row in made_rows(decode_batch(batch))
        ]
