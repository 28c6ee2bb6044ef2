"""A Slack on loopback: the Web API calls and the incoming webhook that the sinks use, errors included.

`python -m tests.alerts.support.slack_fake --port 0 --flaky 0.3 --seed 7` runs it in a process of its own: it
prints one JSON line with its addresses, token and channel and lives until its standard input closes or it is
ended. `GET /_messages` gives what the channels hold, `GET /_calls` how often each method was called.

Flaky means, per call and in equal parts: 429 with Retry-After, 503, a connection cut before the call takes
effect, and one cut after it took effect.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from tests.alerts.support.block_kit import problems, refusal
from tests.alerts.support.fakes import Answer, Call, Fake, json_answer

TOKEN = "xoxb-0000-fake-loopback-token"  # noqa: S105 - opens nothing but this fake
CHANNEL = "C0FAKE0001"
HOOK = "/services/T0FAKE/B0FAKE/loopbackhooksecret"


@dataclass(slots=True)
class Posted:
    """One message of a channel. `edits`: how often it was updated."""

    ts: str
    channel: str
    content: dict[str, Any]
    thread_ts: str | None = None
    edits: int = 0

    def shown(self, *, metadata: bool) -> dict[str, Any]:
        """Return it as conversations.history does."""
        kept = {name: self.content.get(name) for name in ("text", "blocks", "attachments")}
        said = {"type": "message", "ts": self.ts, **{k: v for k, v in kept.items() if v}}
        if self.thread_ts:
            said["thread_ts"] = self.thread_ts
        if metadata and self.content.get("metadata"):
            said["metadata"] = self.content["metadata"]
        return said


@dataclass(slots=True)
class Flaky:
    """How often a call goes wrong (0..1), drawn from a seeded generator."""

    share: float = 0.0
    retry_after: str = "1"
    draw: random.Random = field(default_factory=lambda: random.Random(0))  # noqa: S311 - not a secret

    def answer(self) -> Answer | None:
        """Return what goes wrong with the next call."""
        if self.draw.random() >= self.share:
            return None
        return self.draw.choice(
            [
                ratelimited(self.retry_after),
                Answer(503, b"<html>over capacity</html>", {"Content-Type": "text/html"}),
                Answer(cut=True),
                Answer(cut=True, taken=True),
            ]
        )


def ratelimited(retry_after: str = "1") -> Answer:
    """Return Slack's answer to too many calls."""
    return json_answer(429, {"ok": False, "error": "ratelimited"}, Retry_After=retry_after)


def said_no(error: str) -> Answer:
    """Return Slack's way to refuse: status 200 with an error code."""
    return json_answer(200, {"ok": False, "error": error})


class SlackFake(Fake):
    """`messages` in the order in which they were posted. `window_closed`: edits are refused."""

    def __init__(self, port: int = 0, flaky: Flaky | None = None) -> None:
        super().__init__(port)
        self.messages: list[Posted] = []
        self.channels = {CHANNEL}
        self.window_closed = False
        self.flaky = flaky or Flaky()
        self.scopes = {"chat:write", "channels:history"}
        self.refused: list[str] = []
        self.api = f"{self.url}/api/"
        self.hook = f"{self.url}{HOOK}"
        self._clock = time.time_ns() // 1_000

    def parents(self) -> list[Posted]:
        """Return the messages that are no reply."""
        return [posted for posted in self.messages if posted.thread_ts is None]

    def replies(self, ts: str) -> list[Posted]:
        """Return the replies under one message."""
        return [posted for posted in self.messages if posted.thread_ts == ts]

    def news(self, ts: str) -> list[Posted]:
        """Return the replies under one message but for its details."""
        return [posted for posted in self.replies(ts) if "Details: " not in posted.content["text"]]

    def details(self, ts: str) -> list[Posted]:
        """Return the replies that hold the details of one message."""
        return [posted for posted in self.replies(ts) if "Details: " in posted.content["text"]]

    def trouble(self, call: Call) -> Answer | None:
        """Scripted first, then by chance; never for the fake's own pages."""
        if call.path.startswith("/_"):
            return None
        return super().trouble(call) or self.flaky.answer()

    def handle(self, call: Call) -> Answer:
        """Answer a Web API method, the webhook, or a page of the fake's own."""
        if call.path == "/_messages":
            return json_answer(200, [_page(posted) for posted in self.messages])
        if call.path == "/_calls":
            return json_answer(200, Counter(each.path for each in self.calls))
        if call.path == HOOK:
            return self._hooked(call)
        method = _METHODS.get(call.path.removeprefix("/api/"))
        if method is None:
            return said_no("unknown_method")
        return self._authorised(call) or method(self, call.arguments())

    def _authorised(self, call: Call) -> Answer | None:
        token = call.headers.get("authorization", "")
        if not token:
            return said_no("not_authed")
        return None if token == f"Bearer {TOKEN}" else said_no("invalid_auth")

    def _hooked(self, call: Call) -> Answer:
        try:
            message = json.loads(call.body)
        except ValueError:
            return Answer(400, b"invalid_payload")
        wrong = refusal(message)
        if wrong is not None:
            self.refused += [wrong, *problems(message)]
            return Answer(400, wrong.encode())
        self._add(CHANNEL, message)
        return Answer(200, b"ok")

    def _add(self, channel: str, content: dict[str, Any]) -> Posted:
        self._clock = max(self._clock + 100, time.time_ns() // 1_000)
        ts = f"{self._clock // 1_000_000}.{self._clock % 1_000_000:06d}"
        posted = Posted(ts, channel, content, content.get("thread_ts"))
        self.messages.append(posted)
        return posted

    def _refused(self, message: dict[str, Any]) -> Answer | None:
        wrong = refusal(message)
        if wrong is None:
            return None
        said = problems(message)
        self.refused += [wrong, *said]
        return json_answer(200, {"ok": False, "error": wrong, "errors": said})

    def _post(self, message: dict[str, Any]) -> Answer:
        channel = message.get("channel", "")
        if "chat:write" not in self.scopes:
            return json_answer(200, {"ok": False, "error": "missing_scope", "needed": "chat:write"})
        if channel not in self.channels:
            return said_no("channel_not_found")
        wrong = self._refused(message)
        if wrong is not None:
            return wrong
        posted = self._add(channel, message)
        shown = posted.shown(metadata=True)
        return json_answer(200, {"ok": True, "channel": channel, "ts": posted.ts, "message": shown})

    def _update(self, message: dict[str, Any]) -> Answer:
        if not re.fullmatch(r"[CDG][A-Z0-9]+", message.get("channel", "")):
            return said_no("channel_not_found")
        posted = self._find(message)
        if posted is None:
            return said_no("message_not_found")
        if self.window_closed:
            return said_no("edit_window_closed")
        wrong = self._refused(message)
        if wrong is not None:
            return wrong
        kept = posted.content.get("metadata")
        posted.content = {"metadata": kept, **message}
        posted.edits += 1
        return json_answer(200, {"ok": True, "channel": posted.channel, "ts": posted.ts})

    def _find(self, wanted: dict[str, Any]) -> Posted | None:
        for posted in self.messages:
            if (posted.channel, posted.ts) == (wanted.get("channel"), wanted.get("ts")):
                return posted
        return None

    def _history(self, wanted: dict[str, Any]) -> Answer:
        if wanted.get("channel") not in self.channels:
            return said_no("channel_not_found")
        found = [posted for posted in self.parents() if posted.channel == wanted["channel"]]
        return self._listed(found[::-1], wanted)

    def _replied(self, wanted: dict[str, Any]) -> Answer:
        parent = self._find(wanted)
        if parent is None:
            return said_no("thread_not_found")
        return self._listed([parent, *self.replies(parent.ts)], wanted)

    def _listed(self, found: list[Posted], wanted: dict[str, Any]) -> Answer:
        if "channels:history" not in self.scopes:
            return json_answer(200, {"ok": False, "error": "missing_scope", "needed": "channels:history"})
        oldest = float(wanted.get("oldest", 0))
        found = [posted for posted in found if float(posted.ts) > oldest]
        start, limit = int(wanted.get("cursor") or 0), min(int(wanted.get("limit", 100)), 999)
        page = found[start : start + limit]
        more = start + limit < len(found)
        metadata = str(wanted.get("include_all_metadata", "")).lower() in {"1", "true"}
        said = {
            "ok": True,
            "messages": [posted.shown(metadata=metadata) for posted in page],
            "has_more": more,
            "response_metadata": {"next_cursor": str(start + limit) if more else ""},
        }
        return json_answer(200, said)

    def _tested(self, _: dict[str, Any]) -> Answer:
        return json_answer(200, {"ok": True, "team": "fake", "user": "rebalance-monitor"})


_METHODS = {
    "auth.test": SlackFake._tested,
    "chat.postMessage": SlackFake._post,
    "chat.update": SlackFake._update,
    "conversations.history": SlackFake._history,
    "conversations.replies": SlackFake._replied,
}


def _page(posted: Posted) -> dict[str, Any]:
    return {**posted.shown(metadata=True), "channel": posted.channel, "edits": posted.edits}


def main() -> None:
    """Run the fake until standard input closes."""
    parser = argparse.ArgumentParser(description="a Slack on loopback")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--flaky", type=float, default=0.0, help="share of calls that go wrong, 0..1")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--retry-after", default="1", help="seconds in Retry-After")
    options = parser.parse_args()
    draw = random.Random(options.seed)  # noqa: S311 - not a secret
    with SlackFake(options.port, Flaky(options.flaky, options.retry_after, draw)) as fake:
        where = {"api": fake.api, "hook": fake.hook, "token": TOKEN, "channel": CHANNEL}
        print(json.dumps({**where, "messages": f"{fake.url}/_messages"}), flush=True)  # noqa: T201
        sys.stdin.read()


if __name__ == "__main__":
    main()
