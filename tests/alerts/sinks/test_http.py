"""PagerDuty and Alertmanager: what goes over the wire, and what is made of each answer."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

import httpx
import pytest
from pydantic import SecretStr

from rebalance_monitor.alerts.gallery.sample import sample_notification
from rebalance_monitor.alerts.messages.notification import Phase, SinkError
from rebalance_monitor.alerts.sinks.alertmanager import MAX_VALUE, AlertmanagerSink
from rebalance_monitor.alerts.sinks.http import Response, refusal, retry_after
from rebalance_monitor.alerts.sinks.pagerduty import PagerDutySink
from tests.alerts.sinks.contract import LimitedContract
from tests.alerts.sinks.http_harness import NET, TOKEN, HttpHarness
from tests.alerts.sinks.notes import NOW, note
from tests.alerts.support.fakes import AlertmanagerFake, PagerDutyFake

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def pagerduty() -> Iterator[PagerDutyFake]:
    with PagerDutyFake() as fake:
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
    ("value", "seconds"),
    [
        ("7", 7.0),
        ("0.5", 0.5),
        ("-3", 0.0),
        ("999999999", 999_999_999.0),
        ("nan", None),
        ("inf", None),
        ("soon", None),
        ("", None),
        (None, None),
        ("Thu, 01 Jan 1970 00:00:30 GMT", 20.0),
        ("Thu, 99 Jan 1970 00:00:30 GMT", None),
    ],
)
def test_retry_after_is_read_as_seconds_or_a_date(value: str | None, seconds: float | None) -> None:
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


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 200_000,
        b"[]",
        b"7",
        b'{"retry_after": []}',
        b'{"retry_after": 1e999}',
        b'{"retry_after": NaN}',
        b'{"retry_after": -1}',
        b'{"parameters": "later"}',
        b"\xff",
    ],
)
def test_an_answer_whose_body_asks_for_no_time_to_wait_is_a_passing_refusal(body: bytes) -> None:
    found = refusal("the service", Response(429, httpx.Headers(), body), NOW)
    assert not found.permanent
    assert found.retry_after_s is None or 0 <= found.retry_after_s < float("inf")
