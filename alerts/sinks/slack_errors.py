"""What Slack's error codes mean to a sender: retry, stop editing, leave the blocks out, or give up.

Codes from Slack's reference of chat.postMessage, chat.update and conversations.history. A code that is not
known here is permanent: it says that something has to be changed.
"""

from __future__ import annotations

import re
import time

from slack_sdk.errors import SlackApiError, SlackClientError

from rebalance_monitor.alerts.messages.notification import SinkError
from rebalance_monitor.alerts.sinks.http import HINTS, RETRYABLE, WEB_PAGE, is_page, retry_after

UNEDITABLE = {"message_not_found", "edit_window_closed", "cant_update_message"}
BAD_BLOCKS = {
    "invalid_blocks",
    "invalid_blocks_format",
    "invalid_attachments",
    "msg_blocks_too_long",
    "msg_too_long",
    "attachment_payload_limit_exceeded",
}
CANNOT_SEARCH = {"missing_scope", "not_allowed_token_type", "thread_not_found", "not_in_channel"}
TRANSIENT = {
    "ratelimited",
    "rate_limited",
    "internal_error",
    "fatal_error",
    "service_unavailable",
    "request_timeout",
    "team_added_to_org",
    "accesslimited",
    "message_limit_exceeded",
}
ADVICE = {
    "invalid_auth": "the token is wrong",
    "token_expired": "the token has expired",
    "token_revoked": "the token was revoked",
    "account_inactive": "the token belongs to an account or app that was removed",
    "channel_not_found": "there is no such channel, or the bot is not in it",
    "not_in_channel": "invite the bot to the channel",
    "is_archived": "the channel is archived",
}
_CODE = re.compile(r"[a-z0-9_]{1,60}")


class RefusedError(SinkError):
    """Slack answered with an error code."""

    def __init__(self, error: str, *, permanent: bool, retry_after_s: float | None = None) -> None:
        advice = f": {ADVICE[error]}" if error in ADVICE else ""
        super().__init__(f"Slack answered {error}{advice}", permanent=permanent, retry_after_s=retry_after_s)
        self.error = error


def refused(error: SlackClientError) -> SinkError:
    """Return the error to raise for what the Slack library raised."""
    if not isinstance(error, SlackApiError):
        return SinkError(f"Slack cannot be reached: {type(error).__name__}")
    response = error.response
    status = int(getattr(response, "status_code", 0))
    headers = {name.lower(): value for name, value in dict(getattr(response, "headers", {})).items()}
    # A date, too: a proxy on the way may answer.
    wait = retry_after(headers.get("retry-after"), time.time_ns() // 1_000_000)
    data = getattr(response, "data", response)
    passes = status >= 500 or status in RETRYABLE  # noqa: PLR2004 - fault of the server
    said = data.get("error") if isinstance(data, dict) else None
    if isinstance(said, str) and _CODE.fullmatch(said):
        return RefusedError(said, permanent=said not in TRANSIENT and not passes, retry_after_s=wait)
    is_refused = status >= 300 and not passes  # noqa: PLR2004 - as HTTP has it: not done
    hint = HINTS.get(status) if is_refused else None
    advice = WEB_PAGE if is_page(str(headers.get("content-type", ""))) else hint
    why = f"Slack answered {status}" + (f", {advice}" if advice else "")
    return SinkError(why, permanent=is_refused, retry_after_s=wait)


def unlike_slack() -> SinkError:
    """Return the error for an answer that Slack's API never gives: another service stands there."""
    return SinkError("what answers is not Slack's API: does the address lead to it?")
