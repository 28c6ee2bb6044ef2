"""Who a message is about: it names the members also where no cause does, and what became of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rebalance_monitor.alerts.gallery import examples
from rebalance_monitor.alerts.messages.message import message_of
from rebalance_monitor.alerts.render import plain
from rebalance_monitor.coordinator.findings.kinds import Kind
from rebalance_monitor.coordinator.lag.judging.continuing import STANDING

WHO = "orders-enricher-7 on 10.1.2.37"


def said(found: examples.Finding) -> str:
    return plain.render(message_of(found)).split("\nDetails")[0]


@pytest.mark.parametrize("kind", sorted(STANDING))
def test_a_member_that_does_nothing_is_named_before_the_details(kind: Kind) -> None:
    assert WHO in said(examples.example(kind))


def test_of_many_members_some_are_named_and_the_others_counted() -> None:
    found = examples.example(Kind.CONSUMPTION_STOPPED)
    many = tuple(replace(found.members[0], client_id=f"c-{number}") for number in range(5))
    lines = said(replace(found, members=many)).splitlines()
    assert "  Members  c-0 on 10.1.2.37, c-1 on 10.1.2.37, c-2 on 10.1.2.37 +2 more" in lines


@pytest.mark.parametrize(
    ("resolution", "title", "how", "then"),
    [
        (
            "confirmed",
            "lost its silent member",
            ": the broker removed the member",
            "Check the member's process",
        ),
        ("withdrawn", "has no silent member any more", ": the member is in the group after all", "Wait for"),
    ],
)
def test_a_silence_that_ends_within_another_incident_is_not_said_to_go_on(
    resolution: str, title: str, how: str, then: str
) -> None:
    """Its partitions have not moved on yet, so the incident goes on."""
    silent = replace(
        examples.example(Kind.MEMBER_SILENT),
        phase="updated",
        resolution=resolution,
        causes=(),
        evidence="read",
        members=examples.example(Kind.CONSUMPTION_STOPPED).members,
    )
    text = said(silent)
    assert title in text.splitlines()[0]
    assert how in text
    assert f"Next: {then}" in text
    assert WHO in text
    assert "has a silent member" not in text


def test_consumption_that_goes_on_may_go_on_at_another_member() -> None:
    assert "offsets of its partitions move again" in said(
        examples.example(Kind.CONSUMPTION_STOPPED, "resolved")
    )
