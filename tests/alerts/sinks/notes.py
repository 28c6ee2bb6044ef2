"""Notifications as the dispatcher makes them, for tests of what sinks do with them."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rebalance_monitor.alerts.incidents.alert import NEVER, Alert, fingerprint
from rebalance_monitor.alerts.incidents.tally import Tally
from rebalance_monitor.alerts.messages.links import Links
from rebalance_monitor.alerts.messages.notification import Notification, Phase
from rebalance_monitor.alerts.messages.thread import message_of_thread
from rebalance_monitor.alerts.routing.labels import labels_of
from rebalance_monitor.coordinator.findings.kinds import Kind
from tests.alerts.support.findings import CAUSE, MEMBER, finding

if TYPE_CHECKING:
    from rebalance_monitor.coordinator.findings.finding import Finding

NOW = int(time.time() * 1000)
OPENED = NOW - 120_000
LINKS = Links("https://runbooks.example/page", "https://monitor.example/groups/{group}")
HOSTILE = (
    "<!channel> *pay* `x` <https://evil.example|up> {{7*7}} \"'\\ \r\n.\r\nRCPT \x1b[31m\x00\u202e"
    + "é😀" * 5_000
)


def storm(phase: Phase, group: str = "orders") -> Finding:
    """Return the finding of a storm that opened two minutes ago."""
    of = {Phase.OPENED: "opened", Phase.RESOLVED: "resolved"}
    return finding(
        Kind.STORM,
        group=group,
        phase=of.get(phase, "updated"),
        at=OPENED if phase is Phase.OPENED else NOW,
        opened_at=OPENED,
        resolution="quiet" if phase is Phase.RESOLVED else None,
        causes=(replace(CAUSE, client_id=f"{group}-3"),),
        members=(replace(MEMBER, client_id=f"{group}-3"),),
    )


def note(
    phase: Phase = Phase.OPENED,
    *,
    group: str = "orders",
    sequence: int = 0,
    **changes: Any,  # noqa: ANN401 - any field of a notification
) -> Notification:
    """Return the notification of a storm in `phase`; `changes` replace fields."""
    told = storm(phase, group)
    ends_at = NOW if phase is Phase.RESOLVED else NEVER
    alerts = (Alert(fingerprint(told), labels_of(told, {}), OPENED, ends_at, told),)
    tally = Tally(12, 3, 61_000, ((f"{group}-3", 9),))
    made = Notification(
        key=f"test/{group}/{OPENED}/{phase.value}/{sequence}",
        thread=f"test/{group}/{OPENED}",
        receiver="test",
        phase=phase,
        labels=alerts[0].labels,
        alerts=alerts,
        message=message_of_thread(alerts, NOW, tally, LINKS),
        opened_at=OPENED,
        news=(told,),
        tally=tally,
        maybe_sent=False,
    )
    return replace(made, **changes)
