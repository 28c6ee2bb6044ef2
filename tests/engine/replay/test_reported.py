"""What people reported is found in the recordings of it: `reported.py` says how its truth is written down."""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING

import pytest

from rebalance_monitor.cli.main import run
from rebalance_monitor.cluster.captures.capture import read_capture
from rebalance_monitor.config.detection import Detection
from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.kinds import Kind
from rebalance_monitor.coordinator.settings import DetectionSettings
from rebalance_monitor.dashboard.view.snapshot import Snapshot
from rebalance_monitor.dashboard.web.api.api import Api
from rebalance_monitor.dashboard.web.past.past import MemoryPast
from rebalance_monitor.engine.replay.feeding import Feed
from rebalance_monitor.engine.replay.replaying import replay_capture
from rebalance_monitor.engine.settings import detection_settings
from rebalance_monitor.lab.scoring.paging import counted_pages, worth_of
from rebalance_monitor.lab.truth.recorded_suite import read_suite
from tests.cli.support.reported import CASES, NAMES, expected, matching, unpacked, worth_a_page

if TYPE_CHECKING:
    from pathlib import Path

    from rebalance_monitor.coordinator.findings.finding import Finding

LIMIT_BYTES = 600_000
SCENARIOS = CASES.parent / "scenarios"


@pytest.fixture(scope="module")
def captures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cases")
    for name in NAMES:
        unpacked(name, folder)
    return folder


@cache
def replayed(capture: Path) -> list[Finding]:
    settings = detection_settings(Detection(), read_capture(capture).metadata)
    return list(replay_capture(capture, settings))


@pytest.mark.parametrize("name", NAMES)
def test_a_reported_case_is_published_as_it_was(name: str, captures: Path) -> None:
    found, truth = replayed(captures / name), expected(name)
    told = [(one.kind, one.phase, one.generation, [cause.cause for cause in one.causes]) for one in found]
    for pattern in truth["must"]:
        assert len(matching(pattern, found)) >= pattern.get("times", 1), (pattern, told)
    for pattern in truth["never"]:
        assert not matching(pattern, found), pattern


@pytest.mark.parametrize("name", NAMES)
def test_a_reported_case_pages_for_what_was_worth_it_and_for_nothing_else(name: str, captures: Path) -> None:
    pages = counted_pages(replayed(captures / name), worth_a_page(name))
    assert (pages.wrong, pages.missing) == ({}, {})


@pytest.mark.parametrize("name", [name for name in NAMES if "advice" in expected(name)])
def test_a_reported_case_gets_the_advice_that_helps(
    name: str, captures: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By the settings that it is about; `never`: words that made it worse."""
    assert (
        run(["explain", expected(name).get("group", name), "--capture", str(captures / name), "-o", "json"])
        == 0
    )
    advice, asked = json.loads(capsys.readouterr().out)["advice"], expected(name)["advice"]
    assert {one["about"] for one in advice} >= set(asked["must"])
    for words in asked["never"]:
        assert all(words not in f"{one['about']}: {one['advice']}" for one in advice)


@pytest.mark.parametrize("suite", sorted(path.name for path in SCENARIOS.iterdir() if path.is_dir()))
def test_no_other_recorded_group_has_unread_partitions_or_a_worker_of_another_cluster(
    suite: str,
) -> None:
    """And it pages for storms alone, by the broker's log and the script."""
    found = list(replay_capture(SCENARIOS / suite / "capture", DetectionSettings()))
    pages = counted_pages(found, worth_of(read_suite(SCENARIOS / suite).facts))
    assert (pages.wrong, pages.missing) == ({}, {})
    assert not [one for one in found if one.kind is Kind.PARTITIONS_UNASSIGNED]
    causes = {entry.cause for one in found for entry in one.causes}
    assert Cause.CONNECT_CONFIGS_DIFFER not in causes


def test_the_page_of_a_stuck_rebalance_and_explain_name_the_awaited_member(
    captures: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Not the newcomer that began it, which was there in the generation that ended it."""
    snapshot = Snapshot("c")
    path = captures / "exports"
    Feed(snapshot).run(path, detection_settings(Detection(), read_capture(path).metadata))
    api = Api(snapshot, MemoryPast(snapshot), live=False)
    any_of = dict.fromkeys(("state", "severity", "cause", "team"), "")
    (row,) = api.incidents({**any_of, "limit": 10, "kind": "rebalance_stuck"})["rows"]
    seen = api.incident({"id": row["id"]})
    parts = [(one["client_id"], one["role"]) for one in seen["offenders"]]
    assert (parts[0], parts[-1]) == (("export-2", "waited_for"), ("export-3", "joined"))
    assert seen["ended_by"] is not None
    assert (row["cause"], seen["ended_by"]["generation"]) == ("member_not_rejoined", 3)  # type: ignore[index]
    assert run(["explain", "exports", "--capture", str(path), "-o", "json"]) == 0
    told = json.loads(capsys.readouterr().out)["rebalances"]
    stuck = next(one for one in told if one["kind"] == "rebalance_stuck")
    assert [cause["client_id"] for cause in stuck["causes"]] == ["export-2"]
    assert stuck["held_by"] == "export-2"


def notified(capture: Path, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """What a receiver of everything is sent, one text a message."""
    assert run(["alerts", "preview", str(capture)]) == 0
    return capsys.readouterr().out.split("everyone/console ")[1:]


def test_the_last_message_about_a_stuck_rebalance_names_the_awaited_member_and_no_newcomer(
    captures: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    opened, closed = notified(captures / "exports", capsys)
    assert "Next: See what the named member is working on" in opened
    assert "the rebalance completed, after waiting for export-2" in closed
    assert "export-3" not in closed


@pytest.mark.parametrize("name", NAMES)
def test_no_message_of_a_case_blames_a_member_for_joining(
    name: str, captures: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A storm's newest rebalance may be one in which the crashed member came back."""
    assert not [one for one in notified(captures / name, capsys) if "ember joined" in one.split("Details")[0]]


def test_an_outage_of_a_broker_lasted_as_long_whenever_its_end_is_said(
    captures: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its alert fires on, because it explains those of its groups."""
    ends = [one for one in notified(captures / "frz-848", capsys) if "RESOLVED" in one]
    assert ends
    assert all("Lasted 38.1 s" in one for one in ends)


def test_explain_tells_static_members_of_one_client_id_apart(
    captures: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["explain", "statics", "--capture", str(captures / "statics")]) == 0
    shown = "".join(capsys.readouterr().out.split())
    assert all(f"ofapiasapi-7f9c-{number}" in shown for number in (1, 2))


def test_the_recorded_cases_stay_small() -> None:
    assert NAMES
    assert sum(path.stat().st_size for path in CASES.rglob("*") if path.is_file()) < LIMIT_BYTES
