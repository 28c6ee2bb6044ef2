"""The page comes with what it is going to ask first, for those who may read it and for nobody else."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from ipaddress import ip_network
from typing import TYPE_CHECKING, Any

import pytest

from rebalance_monitor.alerts.setup.receivers import links_of
from rebalance_monitor.config.model import Settings
from rebalance_monitor.config.web import Web
from rebalance_monitor.coordinator.findings.kinds import Kind
from rebalance_monitor.dashboard.view.snapshot import Snapshot, Update
from rebalance_monitor.dashboard.web.http.access import Access
from rebalance_monitor.dashboard.web.http.shell import load_files
from tests.alerts.support.findings import finding
from tests.dashboard.web import known
from tests.dashboard.web.serving import served

if TYPE_CHECKING:
    import httpx

TOKEN = "correct-horse-battery"  # noqa: S105 - of no service
BLOCK = re.compile(r'<script type="application/json" id="first">(.*?)</script>', re.DOTALL)


def first(client: httpx.Client, query: str = "", **headers: str) -> list[Any] | None:
    """What the page was given, None where it was given nothing."""
    found = BLOCK.search(client.get(f"/{query}", headers=headers).raise_for_status().text)
    return list(json.loads(found[1])) if found else None


@pytest.mark.parametrize(
    ("query", "asked"),
    [
        ("", ["cluster", "groups"]),
        ("?search=sigkill&sort=members&order=desc&page=1", ["cluster", "groups"]),
        ("?page=none", ["cluster", "groups"]),
        (f"?group={known.STORMY}", ["cluster", "group"]),
        ("?view=findings", ["cluster"]),
        # What is wrong is for the page to ask, and to say.
        ("?group=unknown", ["cluster"]),
        ("?state=" + "x" * 600, ["cluster"]),
    ],
)
def test_what_the_page_was_given_is_what_the_api_answers(query: str, asked: list[str]) -> None:
    with served(known.snapshot_of(known.replayed()), live=False) as client:
        given = first(client, query)
        assert given is not None
        assert [path for path, _, _ in given] == asked
        for path, params, answer in given:
            assert answer == client.get(f"/api/v1/{path}", params=params).json()


def test_an_answer_that_fails_leaves_a_whole_page(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise KeyError("a fault of ours")

    monkeypatch.setattr("rebalance_monitor.dashboard.web.api.api.Api.groups", fail)
    with served(known.snapshot_of(known.replayed()), live=False) as client:
        given = first(client)
        assert given is not None
        assert [path for path, _, _ in given] == ["cluster"]
        assert client.get("/").text.endswith("</html>\n")


def test_the_past_is_left_to_be_asked() -> None:
    with served(known.snapshot_of(known.replayed()), live=False) as client:
        assert first(client, "?at=1") is None


def test_a_caller_that_may_not_read_is_given_nothing() -> None:
    snapshot = known.snapshot_of(known.replayed())
    proxied = Access(proxy_header="X-Forwarded-User", proxies=(ip_network("127.0.0.0/8"),))
    for access, allowed in (
        (Access(token=TOKEN), {"authorization": f"Bearer {TOKEN}"}),
        (proxied, {"X-Forwarded-User": "ada"}),
    ):
        with served(snapshot, live=False, access=access) as client:
            assert first(client) is None
            assert known.STORMY not in client.get("/").text
            assert first(client, "", **allowed)
    with served(snapshot, live=False) as client:
        assert first(client, "", host="evil.example.com") is None


@pytest.mark.parametrize(
    "name", [*known.HOSTILE, "</script><script>alert(1)</script>", "<!--<script>", "\udcff"]
)
def test_no_name_ends_the_block(name: str) -> None:
    snapshot = Snapshot("lab")
    snapshot.apply(Update(groups={name: known.summary(name)}, now=known.T0, wall=known.T0))
    with served(snapshot) as client:
        page = client.get("/").text
        given = first(client)
    assert given is not None
    assert given[1][2]["rows"][0]["group"] == name
    assert page.count("<script") == page.count("</script") == 2
    assert "<!--" not in page


def test_files_are_kept_under_their_version_and_asked_for_again_without() -> None:
    version = load_files().version
    with served(Snapshot("lab")) as client:
        assert f'src="static/{version}/app.js"' in client.get("/").text
        assert client.get("/").headers["cache-control"] == "no-store"
        kept = client.get(f"/static/{version}/app.js")
        assert "immutable" in kept.headers["cache-control"]
        assert kept.headers["content-type"].startswith("text/javascript")
        asked = client.get("/static/app.js")
        assert (asked.content, asked.headers["cache-control"]) == (kept.content, "no-cache")
        for path in (
            "/static/other/app.js",
            "/static/none.js",
            f"/static/{version}/../../app.py",
            "/static/",
        ):
            assert client.get(path).status_code == 404


@pytest.mark.parametrize("kind", Kind)
def test_every_alert_leads_to_a_section_that_the_page_itself_serves(kind: Kind) -> None:
    settings = Settings(web=Web(url="https://monitor.example/kafka/"))
    (found,) = [links_of(settings).runbook_of(replace(finding(), kind=kind))]
    page, _, section = str(found).partition("#")
    assert page == "https://monitor.example/kafka/runbooks/"
    # Without a token: no group is named there, and whoever gets the message may have none.
    with served(Snapshot("lab"), access=Access(token=TOKEN)) as client:
        text = client.get("/runbooks/").raise_for_status().text
        assert client.get("/runbooks").headers["location"] == "runbooks/"
    assert f'id="{section}"' in text
    assert re.findall(r'(?:src|href)="(?!#|\.\./|https?:)([^"]*)"', text) == []
