"""Whatever is asked is answered or refused with a sentence; names of groups are data, whatever they hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rebalance_monitor.dashboard.view.snapshot import Snapshot, Update
from tests.dashboard.web import known
from tests.dashboard.web.asking import ask, replay_client, table  # noqa: F401 - the fixture `real`
from tests.dashboard.web.serving import served

if TYPE_CHECKING:
    from pathlib import Path

    import httpx


@pytest.mark.parametrize(
    "query",
    [
        "groups?limit=0",
        "groups?limit=x",
        "groups?sort=size",
        "groups?color=red",
        "group",
        "cluster?at=soon",
        "findings?before=x",
        "findings?kind=nothing",
        "groups?search=" + "x" * 600,
        "events?since=-5",
    ],
)
def test_a_wrong_parameter_is_refused_with_a_sentence(real: httpx.Client, query: str) -> None:
    answer = real.get(f"/api/v1/{query}")
    assert answer.status_code == 400
    assert set(answer.json()) == {"error"}


def test_what_is_not_known_is_not_found(real: httpx.Client) -> None:
    for path in ("/api/v1/group?group=no", "/api/v1/incident?id=no", "/api/v1/nothing", "/static/../app.py"):
        assert real.get(path).status_code == 404
    assert real.post("/api/v1/cluster").status_code == 405


@pytest.mark.parametrize("name", known.HOSTILE)
def test_hostile_names_are_data(name: str) -> None:
    snapshot = Snapshot("lab")
    findings = [known.rebalance(name, 1, known.T0), known.storm(name, known.T0)]
    groups = {name: known.summary(name)}
    snapshot.apply(
        Update(findings=findings, groups=groups, now=known.T0, wall=known.T0, shards=[known.shard()])
    )
    with served(snapshot) as client:
        assert ask(client, "/groups")["rows"][0]["group"] == name
        assert ask(client, "/group", group=name)["row"]["group"] == name
        assert ask(client, "/groups", search=name[3:9])["matched"] == 1
        answer = client.get("/api/v1/group", params={"group": name})
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize(
    "query",
    [
        "/api/v1/findings?before=-99999999999999999999999999.x",
        "/api/v1/findings?before=99999999999999999999999999.%FF",
        "/api/v1/findings?since=9e99&until=x",
        "/api/v1/findings?limit=" + "9" * 5_000,
        "/api/v1/findings?search=%00%F0%9F%92%A5%20%5B(.*&group=%ED%A0%80",
        "/api/v1/groups?at=-9223372036854775809",
        "/api/v1/groups?offset=10000000&limit=500&search=" + "%E2%80%AE" * 512,
        "/api/v1/incident?id=" + "a" * 512,
        "/?page=" + "9" * 5_000,
        "/?group=%00&incident=%F0%9F%92%A5&page=%C2%B2",
    ],
)
def test_whatever_is_asked_is_answered_or_refused(query: str, tmp_path: Path) -> None:
    with served(known.snapshot_of(known.replayed()), table(tmp_path)) as client:
        assert client.get(query).status_code in {200, 400, 404}


def test_a_name_that_is_no_text_is_escaped() -> None:
    name = "bytes \udcff of another charset"
    snapshot = Snapshot("lab")
    snapshot.apply(Update(groups={name: known.summary(name)}, now=known.T0, wall=known.T0))
    with served(snapshot) as client:
        assert ask(client, "/groups")["rows"][0]["group"] == name
