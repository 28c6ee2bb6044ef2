"""Alertmanager's API v2: every alert is pushed as one, with an end that each push moves on.

Alertmanager forgets an alert whose end has passed. So a firing alert is pushed again every `resend_ms`, with
an end four times that far away (as Prometheus does); the watchdog with an end four of its own intervals away.
A resolved alert is pushed with its true end. To Alertmanager an alert is its labels: if they change while it
fires (the cause, the severity), the alert under the old labels is ended in the same push. Several addresses
are members of one Alertmanager cluster: each gets the push, and one success is enough. Alertmanager groups,
silences and repeats by itself.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from rebalance_monitor.alerts.dispatch.watchdog import ALERTNAME
from rebalance_monitor.alerts.messages.lead import Ended
from rebalance_monitor.alerts.messages.message import NO_LINKS, message_of
from rebalance_monitor.alerts.messages.notification import Sent, SinkError
from rebalance_monitor.alerts.messages.text import cut, visible
from rebalance_monitor.alerts.render import plain
from rebalance_monitor.alerts.sinks.http import Net, Poster

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic import SecretStr

    from rebalance_monitor.alerts.incidents.alert import Alert
    from rebalance_monitor.alerts.messages.links import Links
    from rebalance_monitor.alerts.messages.notification import Notification
    from rebalance_monitor.alerts.routing.labels import Labels

ALERTS = "/api/v2/alerts"
MAX_VALUE = 1_000
_ALIVE = 4
_LATEST = 253_402_300_799_000
"""End of the year 9999 in ms: no time beyond can be written."""

Json = dict[str, Any]


class AlertmanagerSink:
    """Pushes to every address; `headers` (say, Authorization) go with each. `state`: labels sent last.

    `beat_ms`: how often the watchdog is sent.
    """

    kind = "alertmanager"

    def __init__(
        self,
        name: str,
        urls: tuple[str, ...],
        *,
        headers: Mapping[str, SecretStr] | None = None,
        resend_ms: int = 60_000,
        beat_ms: int = 60_000,
        links: Links = NO_LINKS,
        net: Net | None = None,
    ) -> None:
        self.name = name
        self.resend_ms: int | None = resend_ms
        # Its whole address is an address of it, too.
        self._urls = tuple(f"{url.rstrip('/').removesuffix(ALERTS)}{ALERTS}" for url in urls)
        self._headers = dict(headers or {})
        self._alive_ms = _ALIVE * resend_ms
        self._beat_ms = _ALIVE * max(beat_ms, resend_ms)
        self._links = links
        self._poster = Poster("Alertmanager", Net() if net is None else net)

    def send(self, notification: Notification, now_ms: int) -> Sent:
        """Push the alerts of the notification, and an end for labels that are no longer theirs."""
        self._post_to_all(json.dumps(self.pushed(notification, now_ms)).encode(), now_ms)
        firing = [alert for alert in notification.alerts if not alert.resolved(now_ms)]
        return Sent({alert.fingerprint: json.dumps(labels_for(alert.labels)) for alert in firing})

    def close(self) -> None:
        """Let the connections go."""
        self._poster.close()

    def pushed(self, notification: Notification, now_ms: int) -> list[Json]:
        """Return what is pushed of a notification at `now_ms`."""
        own = [self._push(notification, alert, now_ms) for alert in notification.alerts]
        return own + _ended(notification, now_ms)

    def _push(self, notification: Notification, alert: Alert, now_ms: int) -> Json:
        alive_ms = self._beat_ms if alert.labels.get("alertname") == ALERTNAME else self._alive_ms
        ends_at = alert.ends_at if alert.resolved(now_ms) else now_ms + alive_ms
        message = notification.message
        if len(notification.alerts) > 1:
            ended = Ended(alert.ends_at) if alert.resolved(now_ms) else None
            message = message_of(alert.finding, self._links, ended)
        return {
            "labels": labels_for(alert.labels),
            "annotations": {"summary": message.title, "description": plain.render(message)},
            "startsAt": _moment(min(alert.starts_at, ends_at)),
            "endsAt": _moment(ends_at),
            "generatorURL": self._links.page_of(alert.finding) or "",
        }

    def _post_to_all(self, body: bytes, now_ms: int) -> None:
        headers = {name: value.get_secret_value() for name, value in self._headers.items()}
        headers["Content-Type"] = "application/json"
        failed: list[SinkError] = []
        for url in self._urls:
            try:
                self._poster.post(url, body, headers, now_ms)
            except SinkError as error:
                failed.append(error)
        if len(failed) == len(self._urls):
            raise next((error for error in failed if not error.permanent), failed[0])


def labels_for(labels: Labels) -> Labels:
    """Return labels that people can read: what cannot be seen is escaped, and long values are cut."""
    return {name: _fitting(visible(value)) for name, value in labels.items()}


def _fitting(value: str) -> str:
    """Cut a long value; a hash at its end keeps what was cut apart."""
    if len(value) <= MAX_VALUE:
        return value
    digest = sha256(value.encode()).hexdigest()[:8]
    return f"{cut(value, MAX_VALUE - 9)} {digest}"


def _ended(notification: Notification, now_ms: int) -> list[Json]:
    """Return an end for each label set sent before that no alert has now."""
    posted = {name: json.loads(labels) for name, labels in notification.state.items()}
    own = [labels_for(alert.labels) for alert in notification.alerts]
    past = _moment(now_ms)
    return [{"labels": old, "startsAt": past, "endsAt": past} for old in posted.values() if old not in own]


def _moment(ms: int) -> str:
    return datetime.fromtimestamp(min(max(ms, 0), _LATEST) / 1000, UTC).isoformat()
