"""The states of a thread with example values, for golden files."""

from __future__ import annotations

from dataclasses import replace

from rebalance_monitor.alerts.gallery import examples
from rebalance_monitor.alerts.incidents.alert import NEVER, Alert, fingerprint
from rebalance_monitor.alerts.incidents.tally import Tally
from rebalance_monitor.alerts.messages.links import Links
from rebalance_monitor.alerts.routing.labels import labels_of
from rebalance_monitor.coordinator.findings.kinds import Kind

LINKS = Links(
    "https://docs.example/runbooks/",
    "https://monitor.example/?group={group}",
    "https://monitor.example/?incident={incident}",
)
TALLY = Tally(
    11, 3, 512_000, (("orders-enricher-7", 11), ("orders-enricher-9", 2)), "orders-enricher", 24, 25
)
GROUPS = ("orders-enricher", "payments", "invoices")


def opening(number: int = 1) -> tuple[Alert, ...]:
    """Return the firing alerts of storms of the first `number` groups."""
    return tuple(_alert(group, "opened", NEVER) for group in GROUPS[:number])


def closing(number: int = 1) -> tuple[Alert, ...]:
    """Return the same alerts once they are over."""
    return tuple(_alert(group, "resolved", examples.AT) for group in GROUPS[:number])


def _alert(group: str, phase: str, ends_at: int) -> Alert:
    finding = replace(examples.example(Kind.STORM, phase), group=group)
    return Alert(fingerprint(finding), labels_of(finding, {}), examples.OPENED, ends_at, finding)
