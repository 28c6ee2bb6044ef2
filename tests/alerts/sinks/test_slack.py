"""Slack: one thread per incident, whatever happens between us and the service; nothing that Slack refuses."""

from __future__ import annotations

import json
import time
from contextlib import closing
from dataclasses import replace
from email.utils import formatdate
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import SecretStr

from rebalance_monitor.alerts.messages.notification import Phase, SinkError
from rebalance_monitor.alerts.sinks.http import Net
from rebalance_monitor.alerts.sinks.slack import SlackSink
from rebalance_monitor.alerts.sinks.slack_webhook import SlackWebhookSink
from tests.alerts.sinks.contract import LimitedContract, Trouble
from tests.alerts.sinks.notes import HOSTILE, NOW, note
from tests.alerts.support.fakes import Answer
from tests.alerts.support.slack_fake import CHANNEL, HOOK, TOKEN, SlackFake, ratelimited, said_no

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rebalance_monitor.alerts.messages.notification import Sink

NET = Net(timeout_s=5)
TROUBLES = {
    Trouble.RETRYABLE: Answer(503, b"<html>over capacity</html>"),
    Trouble.SILENCE: Answer(cut=True),
    Trouble.RATE_LIMIT: ratelimited("7"),
}


class SlackHarness:
    def __init__(self, fake: SlackFake, sink: Sink, no: Answer, secrets: tuple[str, ...]) -> None:
        self.fake, self.sink, self.secrets = fake, sink, secrets
        self.troubles = tuple(Trouble)
        self._answers = {**TROUBLES, Trouble.PERMANENT: no}

    def received(self) -> list[str]:
        return [
            json.dumps(call.arguments(), ensure_ascii=False)
            for call in self.fake.calls
            if call.method == "POST"
        ]

    def goes_wrong(self, trouble: Trouble) -> None:
        self.fake.script.append(self._answers[trouble])


@pytest.fixture
def fake() -> Iterator[SlackFake]:
    with SlackFake() as running:
        yield running
        assert running.refused == []


@pytest.fixture
def sink(fake: SlackFake) -> SlackSink:
    return SlackSink("team", SecretStr(TOKEN), CHANNEL, base_url=fake.api, net=NET)


class TestSlackByToken(LimitedContract):
    @pytest.fixture
    def harness(self, fake: SlackFake, sink: SlackSink) -> SlackHarness:
        return SlackHarness(fake, sink, said_no("account_inactive"), (TOKEN,))


class TestSlackByWebhook(LimitedContract):
    @pytest.fixture
    def harness(self, fake: SlackFake) -> Iterator[SlackHarness]:
        with closing(SlackWebhookSink("hook", SecretStr(fake.hook), net=NET)) as sink:
            yield SlackHarness(fake, sink, Answer(404, b"no_service"), (HOOK, "loopbackhooksecret"))


def test_an_incident_is_one_message_edited_in_place_with_replies_and_ends_green(
    fake: SlackFake, sink: SlackSink
) -> None:
    state: dict[str, str] = {}
    for sequence, phase in enumerate((Phase.OPENED, Phase.UPDATED, Phase.UPDATED, Phase.RESOLVED)):
        state = sink.send(note(phase, sequence=sequence, state=state), NOW).state
    (parent,) = fake.parents()
    assert state == {"channel": CHANNEL, "ts": parent.ts}
    assert parent.edits == 3
    assert parent.content["attachments"][0]["color"] == "#12b76a"
    said = json.dumps(parent.content, ensure_ascii=False)
    for words in ("rebalance storm is over", "2 min", "12 completed, 3 failed", "orders-3, in 9 of 15"):
        assert words in said
    assert "https://runbooks.example/page#storm" in said
    assert "https://monitor.example/groups/orders" in said
    assert parent.content["text"].startswith("RESOLVED [prod] orders rebalance storm is over")
    assert len(fake.news(parent.ts)) == 3
    (details,) = fake.details(parent.ts)
    assert "no commit for 6.4 s" in json.dumps(details.content)


@pytest.mark.parametrize(
    ("phase", "words"),
    [(Phase.ACKNOWLEDGED, "Silenced: no further notification"), (Phase.REPEATED, "Still open.")],
)
def test_a_reply_says_why_it_comes(fake: SlackFake, sink: SlackSink, phase: Phase, words: str) -> None:
    state = sink.send(note(), NOW).state
    sink.send(note(phase, state=state, news=()), NOW)
    assert words in json.dumps(fake.news(state["ts"])[0].content)


def test_nothing_unfurls_and_the_fallback_text_stands_alone(fake: SlackFake, sink: SlackSink) -> None:
    sink.send(note(), NOW)
    content = fake.messages[0].content
    assert content["unfurl_links"] is False
    assert content["unfurl_media"] is False
    title, lead = content["text"].splitlines()
    assert title == "🔴 [prod] orders is in a rebalance storm"
    assert lead.startswith("Session timeout 93% of orders-3 on 10.1.2.3; since ")


def test_a_message_without_a_thread_has_its_details_below(fake: SlackFake) -> None:
    with closing(SlackWebhookSink("hook", SecretStr(fake.hook), net=NET)) as sink:
        sink.send(note(), NOW)
    assert "no commit for 6.4 s" in json.dumps(fake.messages[0].content)


def test_a_hostile_group_is_escaped_in_the_fallback_text(fake: SlackFake, sink: SlackSink) -> None:
    sink.send(note(group=HOSTILE), NOW)
    assert "<" not in fake.messages[0].content["text"]
    assert "&lt;!channel&gt;" in fake.messages[0].content["text"]


@pytest.mark.parametrize("error", ["invalid_blocks", "msg_blocks_too_long", "invalid_attachments"])
def test_blocks_that_slack_refuses_are_left_out(fake: SlackFake, sink: SlackSink, error: str) -> None:
    fake.script.append(said_no(error))
    sink.send(note(), NOW)
    content = fake.messages[0].content
    assert not content["blocks"]
    assert "is in a rebalance storm" in content["text"]
    assert content["mrkdwn"] is False
    assert content["metadata"]


def test_a_webhook_leaves_refused_blocks_out(fake: SlackFake) -> None:
    fake.script.append(Answer(400, b"invalid_blocks"))
    with closing(SlackWebhookSink("hook", SecretStr(fake.hook), net=NET)) as sink:
        sink.send(note(), NOW)
    assert not fake.messages[0].content["blocks"]


@pytest.mark.parametrize(
    ("error", "permanent"),
    [
        ("invalid_auth", True),
        ("token_revoked", True),
        ("channel_not_found", True),
        ("is_archived", True),
        ("missing_scope", True),
        ("a_code_from_the_future", True),
        ("internal_error", False),
        ("fatal_error", False),
        ("service_unavailable", False),
        ("ratelimited", False),
    ],
)
def test_slack_error_codes_are_distinguished(
    fake: SlackFake, sink: SlackSink, error: str, *, permanent: bool
) -> None:
    fake.script.append(said_no(error))
    with pytest.raises(SinkError) as raised:
        sink.send(note(), NOW)
    assert (raised.value.why.partition(":")[0], raised.value.permanent) == (
        f"Slack answered {error}",
        permanent,
    )


@pytest.mark.parametrize(
    "answer",
    [
        Answer(200, b"<html>a proxy's page</html>", {"Content-Type": "text/html"}),
        Answer(200, b"\xff\xfe\x00"),
        Answer(200, b"[]"),
        Answer(200, b'{"ok":false,"error":{"token":"xoxb-0000-fake-loopback-token"}}'),
        Answer(200, b'{"ok":false,"error":"xoxb-0000-fake-loopback-token"}'),
        Answer(502, b""),
        Answer(403, b"forbidden by proxy"),
        Answer(302, b"", {"Location": "http://127.0.0.1:1/"}),
    ],
)
def test_answers_that_are_not_slacks_raise_nothing_but_sink_errors(
    fake: SlackFake, sink: SlackSink, answer: Answer
) -> None:
    fake.script.append(answer)
    with pytest.raises(SinkError) as raised:
        sink.send(note(), NOW)
    assert TOKEN not in str(raised.value)


def test_a_channel_name_is_refused(fake: SlackFake) -> None:
    with pytest.raises(ValueError, match="by its id"):
        SlackSink("team", SecretStr(TOKEN), "#alerts", base_url=fake.api)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(group=st.text(min_size=1, max_size=3_000))
def test_slack_takes_any_group_name(fake: SlackFake, sink: SlackSink, group: str) -> None:
    state = sink.send(note(group=group), NOW).state
    sink.send(note(Phase.UPDATED, group=group, state=state), NOW)
    assert fake.refused == []


@pytest.mark.parametrize(("status", "permanent"), [(429, False), (408, False), (502, False), (404, True)])
def test_a_status_without_slacks_own_words_is_judged_as_of_any_service(
    fake: SlackFake, sink: SlackSink, status: int, *, permanent: bool
) -> None:
    fake.script.append(Answer(status, b"no words of Slack"))
    with pytest.raises(SinkError, match=str(status)) as raised:
        sink.send(note(), NOW)
    assert raised.value.permanent is permanent


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("proxied", [False, True])
def test_the_token_goes_to_no_other_host_whatever_slack_or_a_proxy_answers(
    fake: SlackFake, status: int, *, proxied: bool
) -> None:
    with SlackFake() as other:
        net = replace(NET, proxy=SecretStr(fake.url)) if proxied else NET
        sink = SlackSink("team", SecretStr(TOKEN), CHANNEL, base_url=fake.api, net=net)
        fake.script.append(Answer(status, b"", {"Location": f"{other.api}chat.postMessage"}))
        with pytest.raises(
            SinkError, match=f"^Slack answered {status}, a redirect, which is not followed"
        ) as raised:
            sink.send(note(), NOW)
        assert other.calls == []
    assert raised.value.permanent
    assert len(fake.calls) == 1


def test_a_date_in_retry_after_is_waited_for_and_no_longer(fake: SlackFake, sink: SlackSink) -> None:
    fake.script.append(ratelimited(formatdate(time.time() + 30, usegmt=True)))
    with pytest.raises(SinkError) as raised:
        sink.send(note(), NOW)
    assert 20 < (raised.value.retry_after_s or 0) <= 30
