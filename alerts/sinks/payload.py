"""A notification as JSON: what the webhook's template is given and what the Kafka topic holds.

Version 1. Every text is as it came from Kafka: consumers escape for their own medium. Bounded: alerts beyond
MAX_BYTES of findings are left out and counted.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from rebalance_monitor.alerts.incidents.alert import NEVER
from rebalance_monitor.alerts.messages.notification import Phase
from rebalance_monitor.alerts.render import plain
from rebalance_monitor.coordinator.findings.finding import to_dict

if TYPE_CHECKING:
    from rebalance_monitor.alerts.incidents.alert import Alert
    from rebalance_monitor.alerts.messages.notification import Notification

VERSION = 1
MAX_BYTES = 256_000

Json = dict[str, Any]


def payload_of(notification: Notification, now_ms: int) -> Json:
    """Return the notification as a dict for JSON; times in ms since epoch, `ends_at` null where open."""
    alerts = _fitting([_alert(alert, now_ms) for alert in notification.alerts])
    tally = notification.tally
    return {
        "version": VERSION,
        "key": notification.key,
        "thread": notification.thread,
        "receiver": notification.receiver,
        "phase": notification.phase.value,
        "status": "resolved" if notification.phase is Phase.RESOLVED else "firing",
        "opened_at": notification.opened_at,
        "sent_at": now_ms,
        "labels": dict(notification.labels),
        "tone": notification.message.tone.value,
        "title": notification.message.title,
        "summary": plain.summary(notification.message),
        "text": plain.render(notification.message),
        "links": [{"text": text, "url": url} for text, url in plain.links(notification.message)],
        "alerts": alerts,
        "alerts_left_out": len(notification.alerts) - len(alerts),
        "rebalances": tally.rebalances,
        "rebalances_failed": tally.failed,
        "worst_offender": tally.worst[0] if tally.worst else None,
        "news": [finding.id for finding in notification.news],
    }


def _alert(alert: Alert, now_ms: int) -> Json:
    return {
        "fingerprint": alert.fingerprint,
        "status": "resolved" if alert.resolved(now_ms) else "firing",
        "labels": dict(alert.labels),
        "starts_at": alert.starts_at,
        "ends_at": None if alert.ends_at == NEVER else alert.ends_at,
        "finding": to_dict(alert.finding),
    }


def _fitting(alerts: list[Json]) -> list[Json]:
    """Keep alerts from the first on while they are short enough together, but at least one."""
    room, kept = MAX_BYTES, 0
    for alert in alerts:
        room -= len(json.dumps(alert))
        if room < 0 and kept:
            break
        kept += 1
    return alerts[:kept]
