"""The page silences alerts as the command line does, for those who may alone, and says who was notified."""

from __future__ import annotations

import json
import time
from contextlib import contextmanager
from ipaddress import ip_network
from typing import TYPE_CHECKING, Any

import pytest
from jsonschema import Draft202012Validator

from rebalance_monitor.alerts.runtime.dispatcher import wall_ms
from rebalance_monitor.alerts.runtime.silences import SilenceFiles
from rebalance_monitor.config.model import Settings
from rebalance_monitor.dashboard.view.snapshot import Snapshot, Update
from rebalance_monitor.dashboard.web.api import openapi
from rebalance_monitor.dashboard.web.http.access import Access
from rebalance_monitor.engine.outputs.page_alerting import PageAlerting
from rebalance_monitor.engine.storage import Storage
from tests.alerts.support.memo import SECTION, Memo, dispatching, eventually, storm
from tests.dashboard.web.serving import served

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import httpx

Answer = Any
TOKEN = "correct-horse-battery"  # noqa: S105 - of no service
BEARER = {"authorization": f"Bearer {TOKEN}"}
SILENCES, NOTIFIED = "/api/v1/silences", "/api/v1/notified"
WANTED = {"matchers": 'group="orders",kind="storm"', "lasts": "1h", "comment": "known", "created_by": "ada"}


@contextmanager
def page(folder: Path, access: Access | None = None, **web: Answer) -> Iterator[httpx.Client]:
    """Serve the page of a job whose storage lies in `folder`, to holders of the token."""
    settings = Settings(alerts=SECTION, web=web or {"token": TOKEN})
    alerting = PageAlerting(settings, Storage(folder))
    snapshot = Snapshot("prod")
    snapshot.apply(Update(findings=[storm("opened"), storm("opened", "payments")], now=wall_ms()))
    with served(snapshot, access=access or Access(token=TOKEN), alerting=alerting) as client:
        yield client


def valid(method: str, path: str, answer: httpx.Response) -> Answer:
    """Return the answer, once the document's schema has taken it."""
    document = openapi.document()
    responses = document["paths"][path.removeprefix(openapi.PREFIX)][method]["responses"]
    shape = responses[str(answer.status_code)]["content"]["application/json"]["schema"]
    Draft202012Validator({**shape, "components": document["components"]}).validate(answer.json())
    return answer.json()


def test_a_running_job_honours_a_silence_of_the_page_until_the_page_ends_it(tmp_path: Path) -> None:
    sink = Memo()
    with page(tmp_path) as client, dispatching(tmp_path / "alerts", sink) as dispatcher:
        answer = client.post(SILENCES, json=WANTED, headers=BEARER)
        assert answer.status_code == 201
        made = valid("post", SILENCES, answer)
        assert made["created_by"] == "ada"
        time.sleep(0.5)
        dispatcher.put(("q", 0), [storm("opened"), storm("opened", "payments")])
        dispatcher.committed(("q", 0))
        assert eventually(lambda: bool(sink.told))
        assert [told.labels["group"] for told in sink.told] == ["payments"]
        covering = client.get(SILENCES, params={"incident": "i-orders"}, headers=BEARER)
        assert valid("get", SILENCES, covering)["rows"] == [made]
        other = client.get(SILENCES, params={"incident": "i-payments"}, headers=BEARER)
        assert valid("get", SILENCES, other) == {"refused": "", "rows": []}
        ended = client.delete(SILENCES, params={"id": made["id"]}, headers=BEARER)
        assert valid("delete", SILENCES, ended)["id"] == made["id"]
        assert eventually(lambda: len(sink.told) == 2)
        assert client.get(SILENCES, headers=BEARER).json()["rows"] == []
        # Who was notified, as it was sent: of each incident its own.

        def notified() -> Answer:
            return valid("get", NOTIFIED, client.get(NOTIFIED, params={"id": "i-orders"}, headers=BEARER))

        assert eventually(lambda: bool(notified()["rows"]))
        told = notified()
        assert [(row["receiver"], row["phase"]) for row in told["rows"]] == [("sre/slack", "opened")]
        assert told["is_on"]
        (arrived,) = told["rows"]
        assert arrived["title"] == sink.told[1].message.title


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"authorization": "Bearer wrong-wrong-wrong"}, 401),
        ({**BEARER, "sec-fetch-site": "cross-site"}, 403),
        ({**BEARER, "sec-fetch-site": "same-site"}, 403),
        ({**BEARER, "content-type": "text/plain"}, 415),
        ({**BEARER, "content-type": "application/x-www-form-urlencoded"}, 415),
    ],
)
def test_neither_a_foreign_page_nor_a_request_without_the_token_adds_a_silence(
    tmp_path: Path, headers: dict[str, str], status: int
) -> None:
    with page(tmp_path) as client:
        sent = {"content-type": "application/json", **headers}
        answer = client.post(SILENCES, content=json.dumps(WANTED), headers=sent)
        assert answer.status_code == status
        valid("post", SILENCES, answer)
        # A foreign page's browser asks first, and is not allowed to.
        asked = client.options(SILENCES, headers={"origin": "https://elsewhere.example"})
        assert asked.status_code >= 400
        assert not [name for name in asked.headers if name.startswith("access-control-")]
    assert SilenceFiles(tmp_path / "alerts").names() == frozenset()


def test_without_a_token_nothing_is_changed_and_the_page_says_why(tmp_path: Path) -> None:
    with page(tmp_path, Access(), host="127.0.0.1") as client:
        assert "`web.token`" in client.get(SILENCES).json()["refused"]
        answer = client.post(SILENCES, json=WANTED)
        assert answer.status_code == 403
        assert "`web.token`" in valid("post", SILENCES, answer)["error"]
        assert client.delete(SILENCES, params={"id": "1a2b3c4d"}).status_code == 403
    assert SilenceFiles(tmp_path / "alerts").names() == frozenset()


def test_the_user_that_a_proxy_has_signed_in_is_the_author(tmp_path: Path) -> None:
    access = Access(proxy_header="X-User", proxies=(ip_network("127.0.0.0/8"),))
    with page(tmp_path, access, proxies=("127.0.0.0/8",)) as client:
        assert client.post(SILENCES, json=WANTED).status_code == 403
        made = client.post(SILENCES, json=WANTED, headers={"x-user": "grace"})
        assert made.status_code == 201
        assert made.json()["created_by"] == "grace"


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"matchers": 'nonsense="x"'}, "no alert has the label"),
        ({"matchers": 'group=~".*"'}, "everything"),
        ({"matchers": "group"}, ""),
        ({"lasts": "soon"}, ""),
        ({"lasts": "0s"}, ""),
        ({"lasts": "9000d"}, "five years"),
        ({"comment": 7}, "`comment` must be a text"),
        ({"comment": "x" * 3_000}, "`comment` must be a text"),
        ({"comment": "\ud800"}, "Unicode"),
        ({"more": ""}, "must be an object of"),
    ],
)
def test_a_silence_that_cannot_be_meant_is_refused_with_the_reason(
    tmp_path: Path, changes: dict[str, Any], why: str
) -> None:
    with page(tmp_path) as client:
        sent = {**BEARER, "content-type": "application/json"}
        answer = client.post(SILENCES, content=json.dumps({**WANTED, **changes}), headers=sent)
        assert answer.status_code == 400
        assert why in valid("post", SILENCES, answer)["error"]
        assert client.delete(SILENCES, params={"id": "nobody"}, headers=BEARER).status_code == 400
    assert SilenceFiles(tmp_path / "alerts").names() == frozenset()


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"[" * 16_000, b"x" * 20_000, b"\xff\xfe"])
def test_a_body_that_is_no_silence_is_refused(tmp_path: Path, body: bytes) -> None:
    with page(tmp_path) as client:
        sent = {**BEARER, "content-type": "application/json; charset=utf-8"}
        assert client.post(SILENCES, content=body, headers=sent).status_code == 400


def test_a_line_of_the_journal_that_a_crash_cut_short_is_passed_over(tmp_path: Path) -> None:
    sink = Memo()
    with page(tmp_path) as client, dispatching(tmp_path / "alerts", sink) as dispatcher:
        dispatcher.put(("q", 0), [storm("opened")])
        dispatcher.committed(("q", 0))
        file = tmp_path / "alerts" / "notifications.jsonl"
        assert eventually(lambda: file.exists() and file.read_bytes().endswith(b"\n"))
        whole = file.read_bytes()
        file.write_bytes(whole + whole[: len(whole) // 2] + b"\n\xff\xfe i-orders\n")
        found = client.get(NOTIFIED, params={"id": "i-orders"}, headers=BEARER).json()["rows"]
        assert len(found) == 1
        assert client.get(NOTIFIED, params={"id": "nothing"}, headers=BEARER).json()["rows"] == []
