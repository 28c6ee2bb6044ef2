"""History by events, and filters by team: nothing is lost between pages, and the table agrees with memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import pytest

from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.kinds import Kind, Severity
from rebalance_monitor.dashboard.web.api.alerting import NoAlerting
from tests.dashboard.web import known
from tests.dashboard.web.asking import ask, replay_client, table  # noqa: F401 - the fixture `real`
from tests.dashboard.web.serving import served

if TYPE_CHECKING:
    from collections.abc import Iterator

    import httpx


class Teams(NoAlerting):
    """Patterns of which the first that matches wins."""

    teams: ClassVar = {"crash-loop.confluent": "loops", "crash-*": "crashes", "healthy*": "fine"}


@pytest.fixture(name="stored", scope="module")
def stored_client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    past = table(tmp_path_factory.mktemp("table"))
    with served(known.snapshot_of(known.replayed()), past, live=False, alerting=Teams()) as client:
        yield client


@pytest.mark.parametrize("limit", [7, 60, 500])
def test_every_finding_is_in_an_event_of_some_page(stored: httpx.Client, limit: int) -> None:
    told = {one["id"] for one in everything(stored)}
    seen: dict[str, int] = {}
    before: str | None = ""
    while before is not None:
        page = ask(stored, "/history", limit=limit, **({"before": before} if before else {}))
        given = {one["id"] for one in page["findings"]}
        for row in page["rows"]:
            assert given.issuperset(row["findings"])
            for identity in row["findings"]:
                seen[identity] = seen.get(identity, 0) + 1
        before = page["next"]
    assert seen.keys() == told
    if limit > len(told):
        assert set(seen.values()) == {1}


def test_memory_and_table_have_the_same_events(real: httpx.Client, stored: httpx.Client) -> None:
    of_table = ask(stored, "/history", limit=500)
    assert of_table["source"] == "table"
    assert of_table["rows"] == ask(real, "/history", limit=500)["rows"]


def test_the_first_pattern_that_matches_says_whose_a_group_is(stored: httpx.Client) -> None:
    rows = ask(stored, "/groups", limit=500)["rows"]
    assert {row["team"] for row in rows} == {"", "loops", "crashes", "fine"}
    for team in ("loops", "crashes", "fine"):
        mine = {row["group"] for row in rows if row["team"] == team}
        assert {row["group"] for row in ask(stored, "/groups", team=team)["rows"]} == mine
        for path in ("/findings", "/history"):
            of_team = ask(stored, path, team=team, limit=500)
            named = {one["group"] for one in of_team["rows"] if one["group"] is not None}
            assert named
            assert named <= mine
        assert {one["group"] for one in ask(stored, "/incidents", team=team)["rows"]} <= mine
    assert ask(stored, "/choices")["teams"] == ["crashes", "fine", "loops"]


def test_groups_and_incidents_are_filtered_by_severity_and_cause(real: httpx.Client) -> None:
    groups, incidents = ask(real, "/groups", limit=500)["rows"], ask(real, "/incidents", limit=500)["rows"]
    for severity in Severity:
        wanted = [row["group"] for row in groups if row["severity"] == severity]
        assert [row["group"] for row in ask(real, "/groups", severity=severity)["rows"]] == wanted
        told = [row["id"] for row in incidents if row["severity"] == severity]
        assert [row["id"] for row in ask(real, "/incidents", severity=severity, limit=500)["rows"]] == told
    for cause in (Cause.SESSION_TIMEOUT, Cause.MEMBER_JOINED):
        wanted = [row["group"] for row in groups if row["last_cause"] == cause]
        assert wanted
        assert [row["group"] for row in ask(real, "/groups", cause=cause, limit=500)["rows"]] == wanted
        told = [row["id"] for row in incidents if row["cause"] == cause]
        assert [row["id"] for row in ask(real, "/incidents", cause=cause, limit=500)["rows"]] == told


def test_the_choices_are_those_that_the_parameters_take(real: httpx.Client) -> None:
    choices = ask(real, "/choices")
    assert choices["kinds"] == list(Kind)
    assert set(choices["causes"]) == set(Cause)
    assert choices["severities"][0] == Severity.CRITICAL
    assert choices["teams"] == []


def everything(client: httpx.Client) -> list[dict[str, object]]:
    found, before = [], ""
    while True:
        page = ask(client, "/findings", limit=500, **({"before": before} if before else {}))
        found += page["rows"]
        if page["next"] is None:
            return found
        before = page["next"]
