"""The ready-made webhook templates against stand-ins that check requests and answer as the services document.

Telegram: core.telegram.org/bots/api. Discord: docs.discord.com, webhooks and rate limits. Opsgenie and Jira
Service Management: Alert API v2. Teams: the Workflows trigger `When a Teams webhook request is received`.
"""

from __future__ import annotations

import json
import re
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from rebalance_monitor.alerts.messages.notification import Phase, SinkError
from rebalance_monitor.alerts.render.services import SERVICES
from rebalance_monitor.alerts.sinks.webhook import WebhookSink
from tests.alerts.sinks.contract import LimitedContract, Trouble
from tests.alerts.sinks.http_harness import NET, HttpHarness
from tests.alerts.sinks.notes import HOSTILE, NOW, note
from tests.alerts.support.fakes import Answer, Call, Fake, json_answer

if TYPE_CHECKING:
    from collections.abc import Iterator

SECRET = "bot-token-in-an-address"  # noqa: S105 - opens nothing
GENIE = "GenieKey 11111111-2222"
_ESCAPED = re.compile(r"\\([^0-9A-Za-z\s])")


class ServiceFake(Fake):
    """Refuses what the service refuses; `shown` is what people read there."""

    name = ""
    at = ""
    troubles: ClassVar[dict[Trouble, Answer]]

    def shown(self) -> list[str]:
        raise NotImplementedError


def _units(text: str) -> int:
    """Return the length as Telegram and Teams count it."""
    return len(text.encode("utf-16-le")) // 2


class TelegramFake(ServiceFake):
    name, at = "telegram", f"/bot{SECRET}/sendMessage?chat_id=-1001234"
    troubles: ClassVar = {
        Trouble.RETRYABLE: json_answer(502, {"ok": False, "error_code": 502, "description": "Bad Gateway"}),
        Trouble.SILENCE: Answer(cut=True),
        # The wait stands in the body only.
        Trouble.RATE_LIMIT: json_answer(
            429,
            {
                "ok": False,
                "error_code": 429,
                "description": "Too Many Requests: retry after 7",
                "parameters": {"retry_after": 7},
            },
        ),
        Trouble.PERMANENT: json_answer(
            403, {"ok": False, "error_code": 403, "description": "Forbidden: bot was kicked from the group"}
        ),
    }

    def handle(self, call: Call) -> Answer:
        asked = call.arguments()
        text = asked.get("text")
        if not asked.get("chat_id") or not text or _units(text) > 4_096 or "parse_mode" in asked:
            return json_answer(400, {"ok": False, "error_code": 400, "description": "Bad Request"})
        return json_answer(200, {"ok": True, "result": {"message_id": len(self.calls)}})

    def shown(self) -> list[str]:
        return [json.loads(call.body)["text"] for call in self.calls]


class DiscordFake(ServiceFake):
    name, at = "discord", f"/api/webhooks/123/{SECRET}"
    troubles: ClassVar = {
        Trouble.RETRYABLE: json_answer(500, {"message": "500: Internal Server Error", "code": 0}),
        Trouble.SILENCE: Answer(cut=True),
        Trouble.RATE_LIMIT: json_answer(
            429,
            {"message": "You are being rate limited.", "retry_after": 7.0, "global": False},
            Retry_After="7",
        ),
        Trouble.PERMANENT: json_answer(404, {"message": "Unknown Webhook", "code": 10015}),
    }

    def handle(self, call: Call) -> Answer:
        asked = call.arguments()
        embeds = asked.get("embeds", [])
        fits = all(
            len(one["title"]) <= 256 and len(one["description"]) <= 4_096 and 0 <= one["color"] < 1 << 24
            for one in embeds
        )
        if not embeds or not fits or asked["allowed_mentions"] != {"parse": []}:
            return json_answer(400, {"message": "Invalid Form Body", "code": 50035})
        return Answer(204)

    def shown(self) -> list[str]:
        embeds = [json.loads(call.body)["embeds"][0] for call in self.calls]
        return [_ESCAPED.sub(r"\1", f"{one['title']}\n{one['description']}") for one in embeds]


class TeamsFake(ServiceFake):
    name, at = "teams", f"/workflows/1/triggers/manual/paths/invoke?api-version=1&sig={SECRET}"
    troubles: ClassVar = {
        Trouble.RETRYABLE: json_answer(
            502, {"error": {"code": "NoResponse", "message": "The server did not receive a response"}}
        ),
        Trouble.SILENCE: Answer(cut=True),
        Trouble.RATE_LIMIT: json_answer(429, {"error": {"code": "WorkflowRunsThrottled"}}, Retry_After="7"),
        Trouble.PERMANENT: json_answer(400, {"error": {"code": "TriggerInputSchemaMismatch"}}),
    }

    def handle(self, call: Call) -> Answer:
        asked = json.loads(call.body)
        (attachment,) = asked["attachments"]
        card = attachment["content"]
        known = attachment["contentType"] == "application/vnd.microsoft.card.adaptive"
        if asked["type"] != "message" or not known or card["type"] != "AdaptiveCard":
            return self.troubles[Trouble.PERMANENT]
        runs = [run for block in card["body"] for run in block["inlines"]]
        whole = all(run["type"] == "TextRun" and run["text"] for run in runs)
        opens = all(
            one["type"] == "Action.OpenUrl" and one["url"].startswith("http") for one in card["actions"]
        )
        if len(call.body) > 28_000:
            return json_answer(413, {"error": {"code": "RequestEntityTooLarge"}})
        return Answer(202) if whole and opens and runs else self.troubles[Trouble.PERMANENT]

    def shown(self) -> list[str]:
        cards = [json.loads(call.body)["attachments"][0]["content"] for call in self.calls]
        return [
            "\n".join(run["text"] for block in card["body"] for run in block["inlines"]) for card in cards
        ]


class OpsgenieFake(ServiceFake):
    """Keeps the alerts that are open by their aliases."""

    name, at = "opsgenie", "/v2/alerts"
    troubles: ClassVar = {
        Trouble.RETRYABLE: json_answer(503, {"message": "Service Unavailable"}),
        Trouble.SILENCE: Answer(cut=True),
        Trouble.RATE_LIMIT: json_answer(
            429, {"message": "You are making too many requests!"}, Retry_After="7"
        ),
        Trouble.PERMANENT: json_answer(
            422, {"message": "Request body is not processable.", "errors": {"message": "is empty"}}
        ),
    }

    def __init__(self) -> None:
        super().__init__()
        self.alerts: dict[str, str] = {}

    def handle(self, call: Call) -> Answer:
        if call.headers.get("authorization") != GENIE:
            return json_answer(401, {"message": "Could not authenticate"})
        asked = json.loads(call.body)
        if call.path != "/v2/alerts":
            alias, deed = call.path.removeprefix("/v2/alerts/").split("/")
            if call.query != {"identifierType": "alias"} or deed not in {"close", "acknowledge"}:
                return json_answer(404, {"message": "No such route"})
            self.alerts[alias] = f"{deed}d"
            return self._taken()
        limits = {"message": 130, "alias": 512, "description": 15_000, "entity": 512}
        too_long = [key for key, limit in limits.items() if not 0 < len(asked[key]) <= limit]
        if too_long or asked["priority"] not in {"P1", "P2", "P3", "P4", "P5"}:
            return self.troubles[Trouble.PERMANENT]
        self.alerts[asked["alias"]] = "open"
        return self._taken()

    def shown(self) -> list[str]:
        bodies = [json.loads(call.body) for call in self.calls]
        return [one.get("note") or f"{one['message']}\n{one['description']}" for one in bodies]

    def _taken(self) -> Answer:
        return json_answer(202, {"result": "Request will be processed", "took": 0.1, "requestId": "43a29c5c"})


FAKES = {fake.name: fake for fake in (TelegramFake, DiscordFake, TeamsFake, OpsgenieFake)}


class ServiceHarness(HttpHarness):
    def __init__(self, fake: ServiceFake, sink: WebhookSink) -> None:
        super().__init__(fake, sink, SECRET, GENIE)
        self.service = fake

    def received(self) -> list[str]:
        return self.service.shown()

    def goes_wrong(self, trouble: Trouble) -> None:
        self.service.script.append(self.service.troubles[trouble])


def _sink(fake: ServiceFake) -> WebhookSink:
    service = SERVICES[fake.name]
    headers = {"Authorization": SecretStr(GENIE)}
    url = SecretStr(fake.url + fake.at)
    return WebhookSink(fake.name, url, template=service.body, path=service.path, headers=headers, net=NET)


@pytest.fixture(params=FAKES)
def fake(request: pytest.FixtureRequest) -> Iterator[ServiceFake]:
    with FAKES[request.param]() as made:
        yield made


class TestServices(LimitedContract):
    @pytest.fixture
    def harness(self, fake: ServiceFake) -> Iterator[ServiceHarness]:
        with closing(_sink(fake)) as sink:
            yield ServiceHarness(fake, sink)


def test_every_template_has_a_stand_in() -> None:
    assert FAKES.keys() == SERVICES.keys()


def test_the_service_takes_the_message_of_any_name(fake: ServiceFake) -> None:
    """The longest and wildest names stay below each limit; a stand-in that refuses raises."""
    with closing(_sink(fake)) as sink:
        for group in (HOSTILE, "😀" * 5_000, "*" * 5_000, "\\", "@everyone", " "):
            sink.send(note(group=group), NOW)
            sink.send(note(Phase.RESOLVED, group=group), NOW)


def test_links_lead_to_the_page_and_the_runbook(fake: ServiceFake) -> None:
    with closing(_sink(fake)) as sink:
        sink.send(note(), NOW)
    body = fake.calls[0].body.decode()
    assert "https://monitor.example/groups/orders" in body
    assert "https://runbooks.example/page#storm" in body


@given(title=st.text(max_size=200), summary=st.text(max_size=3_000))
@pytest.mark.parametrize("name", SERVICES)
def test_any_text_makes_json(name: str, title: str, summary: str) -> None:
    hook = WebhookSink("hook", SecretStr("http://127.0.0.1:1"), template=SERVICES[name].body)
    payload = _payload() | {"title": title, "summary": summary, "text": summary, "labels": {"group": title}}
    with closing(hook):
        json.loads(hook.body(payload))


def test_an_incident_opens_is_acknowledged_and_closes_under_one_alias() -> None:
    with OpsgenieFake() as fake, closing(_sink(fake)) as sink:
        seen: list[Any] = []
        for phase in (Phase.OPENED, Phase.REPEATED, Phase.ACKNOWLEDGED, Phase.RESOLVED):
            sink.send(note(phase), NOW)
            seen.append(dict(fake.alerts))
        (alias,) = fake.alerts
        assert seen == [{alias: state} for state in ("open", "open", "acknowledged", "closed")]
        sink.send(replace(note(), thread="another"), NOW)
        assert len(fake.alerts) == 2


def test_a_wrong_key_is_permanent_and_says_so() -> None:
    with OpsgenieFake() as fake:
        service = SERVICES["opsgenie"]
        url = SecretStr(fake.url + fake.at)
        hook = WebhookSink("hook", url, template=service.body, path=service.path, net=NET)
        with closing(hook), pytest.raises(SinkError, match="answered 401") as raised:
            hook.send(note(), NOW)
    assert raised.value.permanent


def _payload() -> dict[str, Any]:
    return {
        "thread": "t",
        "tone": "warning",
        "status": "firing",
        "phase": "opened",
        "links": [{"text": "Runbook", "url": "https://runbooks.example/"}],
    }
