"""A leader that is named to have asked for a rebalance did so by its coordinator's log, in all recordings."""

import json
from pathlib import Path

import pytest

from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.kinds import Kind
from rebalance_monitor.coordinator.settings import DetectionSettings
from rebalance_monitor.engine.replay.replaying import replay_capture

FIXTURES = Path(__file__).parents[2] / "fixtures" / "scenarios"
NAMES = ("faults-4.1.1", "instances-4.1.1", "late-4.1.1", "matrix-2.8.2", "python-4.1.1")


@pytest.mark.parametrize("name", NAMES)
def test_a_leader_that_is_named_rejoined_by_its_coordinators_log(name: str) -> None:
    lines = map(json.loads, (FIXTURES / name / "truth.jsonl").read_text(encoding="utf-8").splitlines())
    rejoined = {(one["group"], one["generation"]): one["reason"] for one in lines if one["what"] == "started"}
    named = [
        (finding, finding.causes[0])
        for finding in replay_capture(FIXTURES / name / "capture", DetectionSettings())
        if finding.kind is Kind.REBALANCE and finding.causes and finding.causes[0].member_id
        if finding.causes[0].cause is Cause.LEADER_REJOINED
    ]
    for finding, cause in named:
        assert finding.generation is not None
        why = rejoined[(finding.group, finding.generation - 1)]
        assert f"eader {cause.member_id} re-joining group during Stable" in why
