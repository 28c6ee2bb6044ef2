"""Webhooks: signatures, templates that stay in their sandbox, payloads, proxies and odd addresses."""

from __future__ import annotations

import base64
import hmac
import json
from contextlib import closing
from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING

import pytest
from pydantic import SecretStr

from rebalance_monitor.alerts.messages.notification import SinkError
from rebalance_monitor.alerts.sinks.http import Net
from rebalance_monitor.alerts.sinks.payload import MAX_BYTES, payload_of
from rebalance_monitor.alerts.sinks.webhook import WebhookSink
from tests.alerts.sinks.contract import LimitedContract
from tests.alerts.sinks.http_harness import NET, SECRET, TOKEN, HttpHarness
from tests.alerts.sinks.notes import HOSTILE, NOW, note
from tests.alerts.support.fakes import Answer, WebhookFake

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def receiver() -> Iterator[WebhookFake]:
    with WebhookFake() as fake:
        yield fake


class TestWebhook(LimitedContract):
    @pytest.fixture
    def harness(self, receiver: WebhookFake) -> Iterator[HttpHarness]:
        url = SecretStr(f"{receiver.url}/hooks/secret-path")
        headers = {"Authorization": SecretStr(TOKEN)}
        template = '{"said": {{ text | tojson }}, "at": {{ alerts[0].finding.at }}}'
        sink = WebhookSink("hook", url, secret=SecretStr(SECRET), headers=headers, template=template, net=NET)
        with closing(sink):
            yield HttpHarness(receiver, sink, SECRET, TOKEN, "secret-path")


@pytest.mark.parametrize(
    ("secret", "key"),
    [
        (SECRET, SECRET.encode()),
        ("whsec_" + base64.b64encode(b"thirty-two bytes of pure chance!").decode(), None),
    ],
)
def test_a_webhook_is_signed_as_standard_webhooks_has_it(
    receiver: WebhookFake, secret: str, key: bytes | None
) -> None:
    with closing(WebhookSink("hook", SecretStr(receiver.url), secret=SecretStr(secret), net=NET)) as sink:
        sink.send(note(), NOW)
        sink.send(note(), NOW + 5_000)
    first, second = receiver.calls
    named = (first.headers["webhook-id"], first.headers["webhook-timestamp"])
    signed = ".".join(named).encode() + b"." + first.body
    own = key if key is not None else b"thirty-two bytes of pure chance!"
    digest = base64.b64encode(hmac.new(own, signed, sha256).digest()).decode()
    assert first.headers["webhook-signature"] == f"v1,{digest}"
    assert first.headers["webhook-id"] == second.headers["webhook-id"]
    assert int(named[1]) == NOW // 1000


def test_a_webhook_without_template_posts_the_documented_payload(receiver: WebhookFake) -> None:
    with closing(WebhookSink("hook", SecretStr(receiver.url), net=NET)) as sink:
        sink.send(note(group=HOSTILE), NOW)
    posted = json.loads(receiver.calls[0].body)
    assert posted == json.loads(json.dumps(payload_of(note(group=HOSTILE), NOW)))
    assert posted["labels"]["group"] == HOSTILE
    assert posted["alerts"][0]["ends_at"] is None


@pytest.mark.parametrize(
    "template",
    [
        "{{ ''.__class__.__mro__ }}",
        "{{ alerts.__init__.__globals__ }}",
        "{{ no_such_key }}",
        "{{ labels.update({'x': 1}) }}",
        "{{ 1 / 0 }}",
        "{% for a in range(999999999) %}x{% endfor %}",
        '{"group": "{{ labels.group }}"}',
        "{{ ('x' * 1000 * 1000) | tojson }}",
    ],
)
def test_templates_cannot_leave_the_sandbox_nor_post_what_is_no_json(
    receiver: WebhookFake, template: str
) -> None:
    with closing(WebhookSink("hook", SecretStr(receiver.url), template=template, net=NET)) as sink:  # noqa: SIM117
        with pytest.raises(SinkError, match="template") as raised:
            sink.send(note(group=HOSTILE), NOW)
    assert raised.value.permanent
    assert receiver.calls == []


def test_a_name_in_the_form_of_a_template_is_not_run(receiver: WebhookFake) -> None:
    template = '{"group": {{ labels.group | tojson }}}'
    with closing(WebhookSink("hook", SecretStr(receiver.url), template=template, net=NET)) as sink:
        sink.send(note(group="{{ 7 * 7 }}"), NOW)
    assert json.loads(receiver.calls[0].body) == {"group": "{{ 7 * 7 }}"}


def test_a_template_with_a_mistake_is_refused_at_once_with_its_line() -> None:
    with pytest.raises(ValueError, match="line 2"):
        WebhookSink("hook", SecretStr("http://127.0.0.1:1"), template="{\n{{ }}")


def test_redirects_are_not_followed(receiver: WebhookFake) -> None:
    receiver.script.append(Answer(307, b"", {"Location": receiver.url}))
    with closing(WebhookSink("hook", SecretStr(receiver.url), net=NET)) as sink:  # noqa: SIM117 - one at a time
        with pytest.raises(SinkError, match="answered 307") as raised:
            sink.send(note(), NOW)
    assert raised.value.permanent
    assert len(receiver.calls) == 1


def test_an_answer_without_end_is_cut_off(receiver: WebhookFake) -> None:
    receiver.script.append(Answer(500, b"x" * 50_000_000))
    with closing(WebhookSink("hook", SecretStr(receiver.url), net=NET)) as sink:  # noqa: SIM117 - one at a time
        with pytest.raises(SinkError, match=r"answered 500$"):
            sink.send(note(), NOW)


def test_calls_go_through_the_configured_proxy(receiver: WebhookFake) -> None:
    net = Net(timeout_s=5, proxy=SecretStr(receiver.url))
    with closing(WebhookSink("hook", SecretStr("http://service.invalid/hook"), net=net)) as sink:
        sink.send(note(), NOW)
    assert receiver.calls[0].headers["host"] == "service.invalid"


@pytest.mark.parametrize("url", ["http://[::1", "ftp://127.0.0.1/", "not an address", "http://\x00/"])
def test_a_malformed_address_is_an_error_without_the_address(url: str) -> None:
    with closing(WebhookSink("hook", SecretStr(url), net=NET)) as sink:  # noqa: SIM117 - one at a time
        with pytest.raises(SinkError) as raised:
            sink.send(note(), NOW)
    assert url not in str(raised.value)


def test_a_payload_is_bounded_and_says_what_it_left_out() -> None:
    many = payload_of(replace(note(), alerts=note().alerts * 2_000), NOW)
    assert many["alerts_left_out"] == 2_000 - len(many["alerts"])
    assert len(json.dumps(many)) < MAX_BYTES + 10_000
