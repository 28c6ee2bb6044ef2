"""The API: every answer is what the OpenAPI document says, whatever names the groups have."""

from __future__ import annotations

import json
import weakref
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from ipaddress import ip_network
from threading import Event
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from jsonschema import Draft202012Validator

from rebalance_monitor.coordinator.kinds import Kind, Scope
from rebalance_monitor.dashboard.findings_table import write_findings
from rebalance_monitor.dashboard.snapshot import Known, Snapshot, Update
from rebalance_monitor.dashboard.web import openapi
from rebalance_monitor.dashboard.web.access import Access
from rebalance_monitor.dashboard.web.api import Api
from rebalance_monitor.dashboard.web.app import make_app
from rebalance_monitor.dashboard.web.past import MemoryPast
from rebalance_monitor.dashboard.web.table_past import TablePast
from tests.dashboard.web import known
from tests.dashboard.web.serving import served

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rebalance_monitor.coordinator.findings import Finding
    from rebalance_monitor.dashboard.web.past import Wanted

Answer = Any


@pytest.fixture(scope="module")
def real() -> Iterator[httpx.Client]:
    with served(known.snapshot_of(known.replayed()), live=False) as client:
        yield client


def valid(path: str, body: Answer) -> Answer:
    """Return the body once the document's schema has taken it."""
    validator(path).validate(body)
    return body


@cache
def validator(path: str) -> Draft202012Validator:
    document = openapi.document()
    shape = next(one.shape for one in openapi.PATHS if one.path == path)
    schema = document["paths"][path]["get"]["responses"]["200"]["content"]["application/json"]["schema"]
    assert schema["$ref"].endswith(shape.__name__)
    return Draft202012Validator({**schema, "components": document["components"]})


def ask(client: httpx.Client, path: str, **values: str | int) -> Answer:
    answer = client.get(openapi.PREFIX + path, params=values)
    assert answer.status_code == 200, answer.text
    return valid(path, answer.json())


def test_every_path_of_the_document_answers_by_its_schema(real: httpx.Client) -> None:
    groups = ask(real, "/groups")["rows"]
    incidents = ask(real, "/incidents")["rows"]
    ask(real, "/cluster")
    ask(real, "/findings", limit=120)
    for row in groups[:6]:
        ask(real, "/group", group=row["group"])
    for row in incidents[:6]:
        ask(real, "/incident", id=row["id"])
    assert len(groups) == len(known.replayed().groups)
    assert {path.path for path in openapi.PATHS} | {"/events"} == set(openapi.document()["paths"])


def test_the_document_is_served_and_valid(real: httpx.Client) -> None:
    document = real.get("/api/v1/openapi.json").json()
    assert document == json.loads(json.dumps(openapi.document()))
    for schema in document["components"]["schemas"].values():
        Draft202012Validator.check_schema(schema)


def test_the_document_names_every_route_and_every_status() -> None:
    snapshot = Snapshot("lab")
    app, _ = make_app(Api(snapshot, MemoryPast(snapshot)), Access())
    served_paths = {route.path for route in app.routes if route.path.startswith(openapi.PREFIX)}
    document = openapi.document()
    assert served_paths == {openapi.PREFIX + path for path in (*document["paths"], "/openapi.json")}
    proxied = Access(proxy_header="X-User", proxies=(ip_network("10.0.0.0/8"),))
    for access in (Access(), Access(token="t" * 20), proxied):
        with served(snapshot, access=access) as client:
            for path, operations in document["paths"].items():
                known_statuses = operations["get"]["responses"]
                for headers in ({}, {"host": "elsewhere"}):
                    query = "?nonsense=1" if path == "/events" else ""
                    answer = client.get(openapi.PREFIX + path + query, headers=headers)
                    assert str(answer.status_code) in known_statuses
                    told = answer.json()
                    shape = known_statuses[str(answer.status_code)]["content"]["application/json"]["schema"]
                    Draft202012Validator({**shape, "components": document["components"]}).validate(told)


def test_storms_stand_on_top_and_the_hour_adds_up(real: httpx.Client) -> None:
    seen = ask(real, "/cluster")
    assert seen["incidents"][0]["kind"] == "storm"
    assert sum(seen["minutes"]) == sum(one["count"] for one in seen["causes"])
    assert sum(one["count"] for one in seen["states"]) == seen["groups"]
    assert ask(real, "/groups")["rows"][0]["trouble"] == "storm"


def test_groups_are_searched_filtered_sorted_and_paged(real: httpx.Client) -> None:
    everything = ask(real, "/groups")["rows"]
    assert {row["group"] for row in ask(real, "/groups", search="CRASH")["rows"]} == {
        row["group"] for row in everything if "crash" in row["group"]
    }
    by_host = ask(real, "/groups", search="127.0.0.1")["matched"]
    assert by_host <= len(everything)
    assert all(row["trouble"] == "storm" for row in ask(real, "/groups", trouble="storm")["rows"])
    assert all(row["state"] == "Empty" for row in ask(real, "/groups", state="Empty")["rows"])
    names = [row["group"] for row in ask(real, "/groups", sort="group")["rows"]]
    assert names == sorted(names)
    turned = [row["group"] for row in ask(real, "/groups", sort="group", order="desc")["rows"]]
    assert turned == names[::-1]
    pages = [ask(real, "/groups", sort="group", offset=at, limit=5)["rows"] for at in range(0, len(names), 5)]
    assert [row["group"] for page in pages for row in page] == names


def test_a_group_page_has_its_generations_members_and_causes(real: httpx.Client) -> None:
    seen = ask(real, "/group", group=known.STORMY)
    columns, lanes = seen["timeline"]["columns"], seen["timeline"]["lanes"]
    generations = [column["generation"] for column in columns]
    assert generations == sorted(generations)
    assert any(cause["cause"] == "session_timeout" for column in columns for cause in column["causes"])
    flapping = next(lane for lane in lanes if lane["label"].endswith("-d"))
    assert len({cell["member_id"] for cell in flapping["cells"]}) > 3
    assert {breach["kind"] for breach in flapping["breaches"]} >= {"session_timeout"}


def test_an_incident_names_who_is_behind_it(real: httpx.Client) -> None:
    storm = next(row for row in ask(real, "/incidents", kind="storm")["rows"] if row["group"] == known.STORMY)
    seen = ask(real, "/incident", id=storm["id"])
    assert seen["offenders"][0]["client_id"].endswith("-d")
    assert seen["findings"][0]["id"] == storm["id"]


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


def test_ready_only_once_history_is_read() -> None:
    snapshot = Snapshot("lab")
    with served(snapshot) as client:
        assert (client.get("/readyz").status_code, client.get("/healthz").status_code) == (503, 200)
        snapshot.apply(Update(shards=[known.shard(catching_up=True)], now=1, wall=1))
        answer = client.get("/readyz")
        assert (answer.status_code, answer.text) == (503, "not ready: 1 of 1 partitions still read history\n")
        snapshot.apply(Update(shards=[known.shard()], now=2, wall=2))
        assert client.get("/readyz").status_code == 200
        assert client.get("/metrics").text == "# EOF\n"


def found(client: httpx.Client, **values: str | int) -> Answer:
    """Return findings without holding them against the schema again."""
    return client.get("/api/v1/findings", params=values).raise_for_status().json()


def table(folder: Path) -> TablePast:
    """Write the replay's findings as a job does, in batches."""
    replayed = known.replayed()
    of_groups = (finding for view in replayed.groups.values() for finding in view.recent)
    told = sorted((*of_groups, *replayed.others), key=lambda finding: finding.at)
    for number in range(0, len(told), 60):
        write_findings(folder, told[number : number + 60], "0b31a4ad-56b8", number)
    return TablePast(folder)


def test_the_table_answers_as_the_memory_does_and_pages_lose_nothing(
    real: httpx.Client, tmp_path: Path
) -> None:
    queries = ({}, {"group": known.STORMY}, {"kind": "storm"}, {"cause": "session_timeout"}, {"search": "-d"})
    with served(known.snapshot_of(known.replayed()), table(tmp_path)) as disk:
        for query in queries:
            one, other = (found(client, limit=500, **query) for client in (real, disk))
            assert one["rows"] == other["rows"]
            assert (one["source"], other["source"]) == ("memory", "table")
        everything = [row["id"] for row in found(disk, limit=500)["rows"]]
        got, before = [], ""
        while before is not None:
            page = found(disk, limit=37, before=before)
            got += [row["id"] for row in page["rows"]]
            before = page["next"]
    assert got == everything
    assert len(got) == len(set(got)) > 200


def test_time_travel_shows_the_storm_while_it_was_open(tmp_path: Path) -> None:
    with served(known.snapshot_of(known.replayed()), table(tmp_path)) as client:
        opened = ask(client, "/findings", kind="storm", group=known.STORMY)["rows"][-1]["at"]
        before, after = (ask(client, "/groups", at=opened + shift) for shift in (-1, 1))
        page = ask(client, "/group", group=known.STORMY, at=opened + 1)
        assert client.get("/api/v1/group", params={"group": known.STORMY, "at": 5}).status_code == 404
    assert known.STORMY not in {row["group"] for row in before["rows"] if row["trouble"] == "storm"}
    assert after["rows"][0]["group"] == known.STORMY
    assert (page["as_of"], page["live"], page["row"]["trouble"]) == (opened + 1, False, "storm")
    assert len(page["members"]) == 3
    assert max(column["at"] for column in page["timeline"]["columns"]) <= opened + 1


def test_an_incident_that_memory_forgot_is_found_in_the_table(real: httpx.Client, tmp_path: Path) -> None:
    storm = ask(real, "/incidents", kind="storm")["rows"][0]
    with served(Snapshot("lab"), table(tmp_path)) as forgetful:
        seen = ask(forgetful, "/incident", id=storm["id"])
    assert seen["incident"]["group"] == storm["group"]
    assert seen["around"]


def test_a_table_that_cannot_be_read_is_a_503(tmp_path: Path) -> None:
    day = tmp_path / "date=2026-11-21"
    day.mkdir()
    (day / "x-1.parquet").write_bytes(b"no parquet")
    with served(Snapshot("lab"), TablePast(tmp_path)) as client:
        assert client.get("/api/v1/findings?until=2026-11-22T00:00:00").status_code == 503


class Held(MemoryPast):
    """A disk that does not answer until it is let go."""

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__(snapshot)
        self.free = Event()

    def find(self, wanted: Wanted) -> list[Finding]:
        self.free.wait(20)
        return super().find(wanted)


def test_however_many_wait_for_the_disk_the_rest_is_answered() -> None:
    snapshot = known.snapshot_of(known.replayed())
    past = Held(snapshot)
    with ThreadPoolExecutor(60) as pool, served(snapshot, past) as client:
        url = str(client.base_url)
        try:
            asked = [f"{url}/api/v1/findings?limit={n}" for n in range(1, 51)]
            asked += [f"{url}/api/v1/groups?at={known.T0 + n}" for n in range(5)]
            asked += [f"{url}/?incident=unknown{n}" for n in range(5)]
            waiting = [pool.submit(httpx.get, one, timeout=30) for one in asked]
            for path in ("/healthz", "/api/v1/groups", "/api/v1/cluster", "/api/v1/incidents"):
                assert client.get(path).status_code == 200
            assert not any(one.done() for one in waiting)
        finally:
            past.free.set()
        assert {one.result().status_code for one in waiting} == {200}


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


def test_an_incident_about_no_group_has_its_page() -> None:
    identity = "feedfacefeedface"
    told = replace(
        known.rebalance("none", 1, known.T0, id=identity, incident=identity, phase="opened"),
        kind=Kind.MONITOR_DEGRADED,
        scope=Scope.MONITOR,
        group=None,
    )
    snapshot = Snapshot("lab")
    snapshot.apply(Update(findings=[told], now=known.T0, wall=known.T0))
    with served(snapshot) as client:
        (row,) = ask(client, "/incidents")["rows"]
        seen = ask(client, "/incident", id=row["id"])
        assert ask(client, "/cluster")["incidents_open"] == 1
    assert (seen["incident"]["scope"], len(seen["findings"])) == ("monitor", 1)


def test_a_name_that_is_no_text_is_escaped() -> None:
    name = "bytes \udcff of another charset"
    snapshot = Snapshot("lab")
    snapshot.apply(Update(groups={name: known.summary(name)}, now=known.T0, wall=known.T0))
    with served(snapshot) as client:
        assert ask(client, "/groups")["rows"][0]["group"] == name


def test_members_that_count_down_are_told_with_their_deadline() -> None:
    listed = [known.member("g", 0), known.member("g", 1, deadline=known.T0 + 9_000)]
    update = Update(groups={"g": known.summary("g", member_list=listed)}, now=known.T0, wall=known.T0)
    with served(known.snapshot_of(Known().after(update))) as client:
        seen = ask(client, "/group", group="g")
    assert seen["deadlines"] == [{"what": "session", "at": known.T0 + 9_000, "who": "g-c1"}]
    assert seen["spread"] == {"most": 3, "least": 3, "idle": 0, "partitions": 6}


def test_a_crowd_of_groups_is_paged() -> None:
    with served(known.snapshot_of(known.crowd(2_000))) as client:
        assert ask(client, "/groups", trouble="storm")["matched"] == 20
        page = ask(client, "/groups", limit=500)
    assert (page["total"], len(page["rows"])) == (2_000, 500)


class CountedPast(MemoryPast):
    """Counts how often it was searched."""

    searches = 0

    def find(self, wanted: Wanted) -> list[Finding]:
        self.searches += 1
        return super().find(wanted)


def test_boards_are_kept_while_somebody_looks_and_let_go_when_nobody_does_any_more() -> None:
    snapshot = Snapshot("c")
    past = CountedPast(snapshot)
    api, then = Api(snapshot, past), {"at": known.T0}
    board = weakref.ref(api.board_of(snapshot.known))
    for _ in range(2):
        api.cluster(then)
    for _ in range(300):
        assert board() is not None
        snapshot.apply(Update(now=known.T0, wall=known.T0))
    assert past.searches == 1
    snapshot.apply(Update(now=known.T0, wall=known.T0))
    assert board() is None
    api.cluster(then)
    assert past.searches == 2
