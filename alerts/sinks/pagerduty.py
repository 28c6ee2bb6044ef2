"""PagerDuty Events API v2: one incident per thread, by its dedup key.

The first event of a thread triggers, later ones update the same incident, a silence acknowledges it and the
end resolves it. Sending one event twice changes nothing: the dedup key is the thread.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from rebalance_monitor.alerts.messages.blocks import Paragraph, Tone
from rebalance_monitor.alerts.messages.notification import Phase, Sent
from rebalance_monitor.alerts.messages.text import cut, visible
from rebalance_monitor.alerts.render import plain
from rebalance_monitor.alerts.sinks.http import Net, Poster

if TYPE_CHECKING:
    from pydantic import SecretStr

    from rebalance_monitor.alerts.messages.blocks import Message
    from rebalance_monitor.alerts.messages.notification import Notification

EVENTS = "https://events.pagerduty.com"
MAX_SUMMARY = 1_024
MAX_KEY = 255
MAX_TEXT = 20_000
MAX_LABEL = 200
_SEVERITIES = {
    Tone.CRITICAL: "critical",
    Tone.WARNING: "warning",
    Tone.INFO: "info",
    Tone.RESOLVED: "info",
}
_ACTIONS = {Phase.RESOLVED: "resolve", Phase.ACKNOWLEDGED: "acknowledge"}
_HEADERS = {"Content-Type": "application/json"}

Json = dict[str, Any]


class PagerDutySink:
    """Sends events with one integration's routing key; `page` is an address shown with each event."""

    kind = "pagerduty"
    resend_ms = None

    def __init__(
        self, name: str, routing_key: SecretStr, *, base_url: str = EVENTS, net: Net | None = None
    ) -> None:
        self.name = name
        self._key = routing_key
        self._url = f"{base_url.rstrip('/')}/v2/enqueue"
        self._poster = Poster("PagerDuty", Net() if net is None else net)

    def send(self, notification: Notification, now_ms: int) -> Sent:
        """Send one event."""
        event = event_of(notification)
        event["routing_key"] = self._key.get_secret_value()
        self._poster.post(self._url, json.dumps(event).encode(), _HEADERS, now_ms)
        return Sent()

    def close(self) -> None:
        """Let the connections go."""
        self._poster.close()


def event_of(notification: Notification) -> Json:
    """Return the event but for its routing key, within PagerDuty's limits."""
    event: Json = {
        "event_action": _ACTIONS.get(notification.phase, "trigger"),
        "dedup_key": _dedup_key(notification.thread),
        "client": "rebalance-monitor",
    }
    if event["event_action"] == "trigger":
        event["payload"] = _payload(notification)
        event["links"] = _links(notification.message)
    return event


def _payload(notification: Notification) -> Json:
    message, labels = notification.message, notification.labels
    return {
        "summary": cut(_summary(message), MAX_SUMMARY),
        "source": _label(labels.get("cluster") or "rebalance-monitor"),
        "severity": _SEVERITIES[message.tone],
        "timestamp": _moment(notification.opened_at),
        "component": _label(labels.get("group", "")),
        "group": _label(labels.get("cluster", "")),
        "class": _label(labels.get("alertname", "")),
        "custom_details": {
            "message": cut(plain.render(message), MAX_TEXT),
            "labels": {_label(name): _label(value) for name, value in labels.items()},
            "alerts": len(notification.alerts),
        },
    }


def _summary(message: Message) -> str:
    """Return the title and the line after it: all that a phone shows."""
    first = next(
        (plain.words(block.line) for block in message.blocks[:1] if isinstance(block, Paragraph)), ""
    )
    return ": ".join(filter(None, (message.title, first)))


def _links(message: Message) -> list[Json]:
    lines = [getattr(block, "line", ()) for block in message.blocks]
    spans = [span for line in lines for span in line if span.link]
    return [{"href": span.link, "text": span.text} for span in spans]


def _label(value: str) -> str:
    return cut(visible(value), MAX_LABEL)


def _dedup_key(thread: str) -> str:
    fits = len(thread) <= MAX_KEY and thread.isascii()
    return thread if fits else sha256(thread.encode(errors="surrogatepass")).hexdigest()


def _moment(ms: int) -> str | None:
    try:
        return datetime.fromtimestamp(ms / 1000, UTC).isoformat()
    except (OverflowError, ValueError, OSError):
        return None
