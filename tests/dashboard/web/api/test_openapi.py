"""The OpenAPI document: every answer is what it says, and it names every route and every status."""

from __future__ import annotations

import json
from ipaddress import ip_network
from typing import TYPE_CHECKING

from jsonschema import Draft202012Validator

from rebalance_monitor.dashboard.view.snapshot import Snapshot
from rebalance_monitor.dashboard.web.api import openapi
from rebalance_monitor.dashboard.web.api.api import Api
from rebalance_monitor.dashboard.web.http.access import Access
from rebalance_monitor.dashboard.web.http.app import make_app
from rebalance_monitor.dashboard.web.past.past import MemoryPast
from tests.dashboard.web import known
from tests.dashboard.web.asking import ask, replay_client  # noqa: F401 - the fixture `real`
from tests.dashboard.web.serving import served

if TYPE_CHECKING:
    import httpx


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
