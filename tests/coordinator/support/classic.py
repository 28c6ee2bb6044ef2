"""A hand-written classic group of two members, and the causes that a finding of it names."""

from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.finding import Finding
from tests.coordinator.support.timeline import Client, Topic

A = Client("a-1", (0, 1), "consumer-g-1")
B = Client("b-1", (2, 3), "consumer-g-2", "/10.0.0.2")
BOTH = Client("a-1", (0, 1, 2, 3), "consumer-g-1")


def causes(finding: Finding) -> set[Cause]:
    return {entry.cause for entry in finding.causes}


def two_members(end_b: int, *, idle: bool = True) -> Topic:
    """A and B commit every second; B stops after `end_b`."""
    topic = Topic()
    topic.generation(0, 1, [A, B])
    topic.commits(500, 60_000, A, moving=int(not idle))
    topic.commits(700, end_b, B, moving=int(not idle))
    return topic
