"""Slack by an incoming webhook: every notification is a message of its own.

A webhook gives no message id back, so nothing can be edited, threaded or found again: an attempt that may
have arrived is sent again. The webhook's address is the secret.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from rebalance_monitor.alerts.messages.notification import Sent, SinkError
from rebalance_monitor.alerts.render import slack as blocks
from rebalance_monitor.alerts.sinks.http import Net, Poster, Response, refusal

if TYPE_CHECKING:
    from pydantic import SecretStr

    from rebalance_monitor.alerts.messages.notification import Notification

_HEADERS = {"Content-Type": "application/json; charset=utf-8"}
_CODE = re.compile(rb"[a-z0-9_]{1,60}")
_BAD_BLOCKS = {b"invalid_blocks", b"invalid_attachments", b"msg_blocks_too_long"}


class SlackWebhookSink:
    """Posts to the channel that the webhook was made for."""

    kind = "slack_webhook"
    resend_ms = None

    def __init__(self, name: str, url: SecretStr, *, net: Net | None = None) -> None:
        self.name = name
        self._url = url
        self._poster = Poster("Slack", Net() if net is None else net)

    def send(self, notification: Notification, now_ms: int) -> Sent:
        """Post one message; where Slack refuses its blocks, without them."""
        try:
            self._post(blocks.render(notification.message, whole=True), now_ms)
        except _BadBlocksError:
            self._post(blocks.render_text(notification.message), now_ms)
        return Sent()

    def close(self) -> None:
        """Let the connections go."""
        self._poster.close()

    def _post(self, content: blocks.Json, now_ms: int) -> None:
        answer = self._poster.ask(self._url.get_secret_value(), json.dumps(content).encode(), _HEADERS)
        if answer.status == 200 and answer.body == b"ok":  # noqa: PLR2004 - what Slack says
            return
        if answer.body in _BAD_BLOCKS and content["blocks"]:
            raise _BadBlocksError("Slack refused the blocks", permanent=True)
        raise _refused(answer, now_ms)


class _BadBlocksError(SinkError):
    pass


def _refused(answer: Response, now_ms: int) -> SinkError:
    """Return the error; Slack's own short code is named, any other text is not."""
    said = answer.body.decode() if _CODE.fullmatch(answer.body) else ""
    return refusal("Slack", answer, now_ms, said)
