"""PagerDuty, Alertmanager and webhooks: what goes over the wire, and what is made of each answer."""

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

from rebalance_monitor.alerts.sinks.alertmanager import MAX_VALUE, AlertmanagerSink
from rebalance_monitor.alerts.sinks.base import Phase, SinkError
from rebalance_monitor.alerts.sinks.http import Net, retry_after
from rebalance_monitor.alerts.sinks.pagerduty import PagerDutySink
from rebalance_monitor.alerts.sinks.payload import MAX_BYTES, payload_of
from rebalance_monitor.alerts.sinks.sample import sample_notification
from rebalance_monitor.alerts.sinks.webhook import WebhookSink
from tests.alerts.sinks.contract import LimitedContract, Trouble
from tests.alerts.sinks.fakes import AlertmanagerFake, Answer, Fake, PagerDutyFake, WebhookFake, json_answer
from tests.alerts.sinks.notes import HOSTILE, NOW, note

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rebalance_monitor.alerts.sinks.base import Sink

NET = Net(timeout_s=5)
SECRET = "a-signing-secret"  # noqa: S105 - signs nothing but these tests
TOKEN = "Bearer a-token-in-a-header"  # noqa: S105 - opens nothing
TROUBLES = {
    Trouble.RETRYABLE: Answer(503, b"over capacity"),
    Trouble.SILENCE: Answer(cut=True),
    Trouble.RATE_LIMIT: Answer(429, b"slow down", {"Retry-After": "7"}),
    Trouble.PERMANENT: json_answer(400, {"errors": [SECRET, TOKEN, PagerDutyFake.KEY]}),
}


class HttpHarness:
    def __init__(self, fake: Fake, sink: Sink, *secrets: str) -> None:
        self.fake, self.sink, self.secrets = fake, sink, secrets
        self.troubles = tuple(Trouble)

    def received(self) -> list[str]:
        return [json.dumps(json.loads(call.body), ensure_ascii=False) for call in self.fake.calls]

    def goes_wrong(self, trouble: Trouble) -> None:
        self.fake.script.append(TROUBLES[trouble])


@pytest.fixture
def pagerduty() -> Iterator[PagerDutyFake]:
    with PagerDutyFake() as fake:
        yield fake


@pytest.fixture
def receiver() -> Iterator[WebhookFake]:
    with WebhookFake() as fake:
        yield fake


@pytest.fixture
def alertmanager() -> Iterator[AlertmanagerFake]:
    with AlertmanagerFake() as fake:
        yield fake


@pytest.fixture
def pager(pagerduty: PagerDutyFake) -> Iterator[PagerDutySink]:
    key = SecretStr(PagerDutyFake.KEY)
    with closing(PagerDutySink("oncall", key, base_url=pagerduty.url, net=NET)) as sink:
        yield sink


@pytest.fixture
def pusher(alertmanager: AlertmanagerFake) -> Iterator[AlertmanagerSink]:
    headers = {"Authorization": SecretStr(TOKEN)}
    with closing(AlertmanagerSink("am", (alertmanager.url,), headers=headers, net=NET)) as sink:
        yield sink


class TestPagerDuty(LimitedContract):
    @pytest.fixture
    def harness(self, pagerduty: PagerDutyFake, pager: PagerDutySink) -> HttpHarness:
        return HttpHarness(pagerduty, pager, PagerDutyFake.KEY)


class TestAlertmanager(LimitedContract):
    @pytest.fixture
    def harness(self, alertmanager: AlertmanagerFake, pusher: AlertmanagerSink) -> HttpHarness:
        return HttpHarness(alertmanager, pusher, TOKEN)


class TestWebhook(LimitedContract):
    @pytest.fixture
    def harness(self, receiver: WebhookFake) -> Iterator[HttpHarness]:
        url = SecretStr(f"{receiver.url}/hooks/secret-path")
        headers = {"Authorization": SecretStr(TOKEN)}
        template = '{"said": {{ text | tojson }}, "at": {{ alerts[0].finding.at }}}'
        sink = WebhookSink("hook", url, secret=SecretStr(SECRET), headers=headers, template=template, net=NET)
        with closing(sink):
            yield HttpHarness(receiver, sink, SECRET, TOKEN, "secret-path")


def test_pagerduty_keeps_one_incident_through_all_phases(
    pagerduty: PagerDutyFake, pager: PagerDutySink
) -> None:
    actions = []
    for phase in (Phase.OPENED, Phase.OPENED, Phase.UPDATED, Phase.ACKNOWLEDGED, Phase.RESOLVED):
        pager.send(note(phase), NOW)
        actions += pagerduty.incidents.values()
    assert actions == ["trigger", "trigger", "trigger", "acknowledge", "resolve"]
    assert len(pagerduty.incidents) == 1


def test_pagerduty_pages_with_severity_source_and_links(
    pagerduty: PagerDutyFake, pager: PagerDutySink
) -> None:
    pager.send(note(), NOW)
    (event,) = pagerduty.events
    assert event["payload"]["severity"] == "critical"
    assert event["payload"]["source"] == "prod"
    assert event["payload"]["component"] == "orders"
    assert {each["href"] for each in event["links"]} == {
        "https://runbooks.example/page#storm",
        "https://monitor.example/groups/orders",
    }


def test_pagerduty_takes_a_thread_of_any_length(pagerduty: PagerDutyFake, pager: PagerDutySink) -> None:
    pager.send(note(thread="é" * 5_000), NOW)
    pager.send(note(Phase.RESOLVED, thread="é" * 5_000), NOW)
    assert list(pagerduty.incidents.values()) == ["resolve"]


def test_alertmanager_gets_an_end_that_moves_on_while_it_fires(
    alertmanager: AlertmanagerFake, pusher: AlertmanagerSink
) -> None:
    state = pusher.send(note(), NOW).state
    pusher.send(note(Phase.REPEATED, state=state), NOW + 60_000)
    pusher.send(note(Phase.RESOLVED, state=state), NOW + 90_000)
    ends = [json.loads(call.body)[0]["endsAt"] for call in alertmanager.calls]
    assert ends[0] < ends[1]
    assert ends[2] < ends[0]
    assert pusher.resend_ms == 60_000


def test_labels_that_change_end_the_alert_under_the_old_ones(
    alertmanager: AlertmanagerFake, pusher: AlertmanagerSink
) -> None:
    state = pusher.send(note(), NOW).state
    (alert,) = note().alerts
    changed = replace(alert, labels={**alert.labels, "cause": "member_left"})
    after = pusher.send(note(Phase.UPDATED, alerts=(changed,), state=state), NOW + 1_000).state
    new, old = json.loads(alertmanager.calls[-1].body)
    assert (new["labels"]["cause"], old["labels"]["cause"]) == ("member_left", "session_timeout")
    assert old["endsAt"] < new["endsAt"]
    pusher.send(note(Phase.UPDATED, alerts=(changed,), state=after), NOW + 2_000)
    assert len(json.loads(alertmanager.calls[-1].body)) == 1


def test_long_label_values_are_cut_but_stay_apart(
    alertmanager: AlertmanagerFake, pusher: AlertmanagerSink
) -> None:
    for last in "ab":
        pusher.send(note(group="x" * 5_000 + last), NOW)
    names = [json.loads(call.body)[0]["labels"]["group"] for call in alertmanager.calls]
    assert len(set(names)) == 2
    assert {len(name) for name in names} == {MAX_VALUE}


def test_one_member_of_an_alertmanager_cluster_is_enough(alertmanager: AlertmanagerFake) -> None:
    with closing(AlertmanagerSink("am", ("http://127.0.0.1:1", alertmanager.url), net=NET)) as sink:
        sink.send(note(), NOW)
    with closing(AlertmanagerSink("am", ("http://127.0.0.1:1",), net=NET)) as sink:  # noqa: SIM117 - one at a time
        with pytest.raises(SinkError, match="cannot be reached"):
            sink.send(note(), NOW)
    assert len(alertmanager.calls) == 1


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


def test_a_name_that_looks_like_a_template_is_not_run(receiver: WebhookFake) -> None:
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


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("7", 7.0),
        ("0.5", 0.5),
        ("-3", 0.0),
        ("999999999", 3_600.0),
        ("nan", None),
        ("inf", 3_600.0),
        ("soon", None),
        ("", None),
        (None, None),
        ("Thu, 01 Jan 1970 00:00:30 GMT", 20.0),
        ("Thu, 99 Jan 1970 00:00:30 GMT", None),
    ],
)
def test_retry_after_is_read_as_seconds_or_a_date_and_bounded(
    value: str | None, seconds: float | None
) -> None:
    assert retry_after(value, 10_000) == seconds


def test_a_test_says_so_to_every_service(
    pagerduty: PagerDutyFake,
    pager: PagerDutySink,
    alertmanager: AlertmanagerFake,
    pusher: AlertmanagerSink,
) -> None:
    for phase in (Phase.OPENED, Phase.RESOLVED):
        pager.send(sample_notification("prod", "oncall", NOW, phase), NOW)
        pusher.send(sample_notification("prod", "am", NOW, phase), NOW)
    assert "TEST" in pagerduty.events[0]["payload"]["summary"]
    assert list(pagerduty.incidents.values()) == ["resolve"]
    for call in alertmanager.calls:
        (alert,) = json.loads(call.body)
        assert "TEST" in alert["annotations"]["summary"]
        assert "degraded" not in call.body.decode()
