"""Slack by its Web API: one message per incident, edited in place, with replies for details and news.

The parent is posted once and then updated; the last edit begins with RESOLVED and is green. A message that is
gone or may not be edited any more is replaced by a new one. Slack offers no idempotent post, so every message
carries our keys as metadata, and where an earlier attempt may have arrived the channel's history, or the
thread, is searched for them first. That needs the scopes chat:write and channels:history (groups:history in
private channels); without the latter an attempt that may have arrived is posted again: twice is better than
never.

The channel is its id (C0123ABCD): names change, and history takes ids only.
"""

from __future__ import annotations

import re
from dataclasses import replace
from http.client import HTTPException
from typing import TYPE_CHECKING, Any, cast

from slack_sdk.errors import SlackClientError

from rebalance_monitor.alerts.messages.notification import Phase, Sent, SinkError
from rebalance_monitor.alerts.messages.thread import news_of
from rebalance_monitor.alerts.render import slack as blocks
from rebalance_monitor.alerts.sinks import slack_errors
from rebalance_monitor.alerts.sinks.http import Net, unreached
from rebalance_monitor.alerts.sinks.quiet import SILENT, short
from rebalance_monitor.alerts.sinks.slack_client import SlackClient

if TYPE_CHECKING:
    from pydantic import SecretStr

    from rebalance_monitor.alerts.messages.blocks import Message
    from rebalance_monitor.alerts.messages.notification import Notification

API = "https://slack.com/api/"
EVENT = "rebalance_monitor_alert"
_CHANNEL = re.compile(r"[CGD][A-Z0-9]{2,}")
_PAGE = 200
_MAX_PAGES = 5
_SKEW_S = 600
"""How far before the incident's opening the search begins: our clock and Slack's may differ."""

_DUE = "due"
_SAID = {
    Phase.ACKNOWLEDGED: "Silenced: no further notification until the silence ends or the incident is over.",
    Phase.REPEATED: "Still open.",
}

Json = dict[str, Any]


class SlackSink:
    """Posts to one channel. `state` of a thread: `channel` and `ts` of its parent; `details` if still due."""

    kind = "slack"
    resend_ms = None

    def __init__(
        self, name: str, token: SecretStr, channel: str, *, base_url: str = API, net: Net | None = None
    ) -> None:
        if not _CHANNEL.fullmatch(channel):
            raise ValueError("a Slack channel is given by its id, like C0123ABCD, not by its name")
        net = Net() if net is None else net
        self.name = name
        self._channel = channel
        self._client = SlackClient(
            token.get_secret_value(),
            base_url=base_url,
            timeout=max(1, round(net.timeout_s)),
            ssl=net.tls(),
            proxy=net.proxy_address(),
            logger=SILENT,
            retry_handlers=[],
        )

    def send(self, notification: Notification, now_ms: int) -> Sent:
        """Bring the parent to the present state, then reply with the details of a new one, or what is new."""
        ts, fresh = notification.state.get("ts", ""), False
        if not ts or not self._update(notification, ts):
            ts, fresh = self._parent_after(ts, notification, now_ms)
        state = {"channel": self._channel, "ts": ts}
        late = notification.state.get("details") == _DUE
        if (fresh or late) and not self._detailed(notification, ts, again=late):
            state["details"] = _DUE
        if not fresh and notification.phase is not Phase.OPENED:
            key = short(notification.key)
            self._reply(_news(notification), ts, key, again=notification.maybe_sent)
        return Sent(state)

    def close(self) -> None:
        """Nothing is kept open between calls."""

    def _parent_after(self, gone: str, notification: Notification, now_ms: int) -> tuple[str, bool]:
        """Return a parent newer than `gone`, and whether it was posted for this very notification."""
        found = self._posted_before(gone, notification, now_ms)
        if found is not None and self._update(notification, found["ts"]):
            return str(found["ts"]), _carries(found, {"key": short(notification.key)})
        keys = {"thread": short(notification.thread), "key": short(notification.key)}
        return self._write(
            "chat.postMessage", notification.message, _with(keys, blocks.render(notification.message))
        ), True

    def _posted_before(self, gone: str, notification: Notification, now_ms: int) -> Json | None:
        """Return the newest message of this thread in the channel, where an attempt may have put one."""
        if not notification.maybe_sent:
            return None
        began = min(notification.opened_at, now_ms) / 1000 - _SKEW_S
        wanted = {"channel": self._channel, "oldest": gone or f"{began:.6f}"}
        return self._search("conversations.history", wanted, {"thread": short(notification.thread)})

    def _update(self, notification: Notification, ts: str) -> bool:
        """Return whether the parent could be edited; False means that a new one is needed."""
        content = blocks.render(notification.message)
        try:
            self._write("chat.update", notification.message, {**content, "ts": ts})
        except slack_errors.RefusedError as refused:
            if refused.error in slack_errors.UNEDITABLE:
                return False
            raise
        return True

    def _detailed(self, notification: Notification, ts: str, *, again: bool) -> bool:
        """Reply with the details; False where that failed.

        The parent has arrived by then, and to raise would post it again where the history cannot be read.
        """
        message = notification.message
        if not message.details:
            return True
        reply = replace(message, title=f"Details: {message.title}", blocks=message.details, details=())
        try:
            self._reply(
                reply,
                ts,
                short(f"{notification.thread}/details/{ts}"),
                again=again or notification.maybe_sent,
            )
        except SinkError:
            return False
        return True

    def _reply(self, reply: Message, ts: str, key: str, *, again: bool) -> None:
        """Reply under a parent; `again`: unless a reply with this key is there already."""
        if again:
            wanted = {"channel": self._channel, "ts": ts, "oldest": ts}
            if self._search("conversations.replies", wanted, {"key": key}) is not None:
                return
        content = blocks.render_reply(reply)
        self._write("chat.postMessage", reply, _with({"key": key}, {**content, "thread_ts": ts}))

    def _write(self, method: str, message: Message, content: Json) -> str:
        """Post or edit and return the message's ts; where Slack refuses the blocks, without them."""
        sent = {**content, "channel": self._channel}
        try:
            return _ts_of(self._call(method, sent))
        except slack_errors.RefusedError as refused:
            if refused.error not in slack_errors.BAD_BLOCKS:
                raise
        return _ts_of(self._call(method, {**sent, **blocks.render_text(message)}))

    def _search(self, method: str, wanted: Json, keys: dict[str, str]) -> Json | None:
        """Return the first listed message with these keys; None also without permission to read."""
        cursor = ""
        for _ in range(_MAX_PAGES):
            asked = {**wanted, "include_all_metadata": True, "limit": _PAGE, "cursor": cursor}
            try:
                page = self._call(method, asked)
            except slack_errors.RefusedError as refused:
                if refused.error in slack_errors.CANNOT_SEARCH:
                    return None
                raise
            try:
                listed = page.get("messages") or []
                found = next((message for message in listed if _carries(message, keys)), None)
                cursor = (page.get("response_metadata") or {}).get("next_cursor") or ""
            except UNLIKE as error:
                raise slack_errors.unlike_slack() from error
            if found is not None or not cursor:
                return found
        return None

    def _call(self, method: str, arguments: Json) -> Json:
        try:
            if method.startswith("chat."):
                answer = self._client.api_call(method, json=arguments)
            else:
                answer = self._client.api_call(method, http_verb="GET", params=arguments)
        except SlackClientError as error:
            raise slack_errors.refused(error) from None
        except (OSError, HTTPException) as error:
            raise unreached("Slack", error) from None
        except UNLIKE as error:
            raise slack_errors.unlike_slack() from error
        return cast("Json", answer.data)


UNLIKE = (ValueError, TypeError, AttributeError, LookupError, RecursionError)
"""What Slack's library, and reading an answer, raise for one that is not Slack's."""


def _ts_of(answer: Json) -> str:
    ts = answer.get("ts")
    if not isinstance(ts, str):
        raise slack_errors.unlike_slack()
    return ts


def _news(notification: Notification) -> Message:
    """Return what is new in the thread; its last reply has the details of the end."""
    said = _SAID.get(notification.phase, "")
    news = news_of(notification.news, notification.message, said)
    ended = notification.phase is Phase.RESOLVED
    return replace(news, details=notification.message.details) if ended else news


def _with(keys: dict[str, str], content: Json) -> Json:
    return {**content, "metadata": {"event_type": EVENT, "event_payload": keys}}


def _carries(message: Json, keys: dict[str, str]) -> bool:
    metadata = message.get("metadata") or {}
    payload = metadata.get("event_payload") or {}
    return metadata.get("event_type") == EVENT and all(payload.get(k) == v for k, v in keys.items())
