"""What a receiver that outlives kills is held to: each way in which it may be notified wrongly is noticed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from rebalance_monitor.coordinator.findings.kinds import Kind
from tests.alerts.support.fakes import Call, WebhookFake
from tests.alerts.support.findings import finding
from tests.streaming.support.notified import repeated, require_told_once, told_to

if TYPE_CHECKING:
    from collections.abc import Iterator

MUST, MAY = "always-must", "always-may"
FOUND = [
    finding(Kind.GROUP_EMPTY, group=group, phase=phase, incident=f"i-{group}")
    for group in (MUST, MAY)
    for phase in ("opened", "resolved")
]


@pytest.fixture
def hook() -> Iterator[WebhookFake]:
    with WebhookFake() as found:
        yield found


def tell(
    hook: WebhookFake, group: str, *phases: str, thread: str = "", key: str = "", incident: str = ""
) -> None:
    thread = thread or f"t-{group}"
    for number, phase in enumerate(phases):
        body = {
            "phase": phase,
            "key": key or f"{thread}/{phase}/{number}",
            "thread": thread,
            "labels": {"group": group},
            "alerts": [{"finding": {"incident": incident or f"i-{group}", "id": "f"}}],
        }
        hook.calls.append(Call("POST", "/", {}, {}, json.dumps(body).encode()))


def judge(hook: WebhookFake) -> None:
    require_told_once(hook, FOUND, {MUST}, {MAY})


def test_required_findings_are_published_and_optional_ones_may_be_missing(hook: WebhookFake) -> None:
    tell(hook, MUST, "opened", "resolved")
    judge(hook)
    tell(hook, MAY, "opened", "resolved")
    judge(hook)


def test_the_same_key_may_come_again_and_is_counted(hook: WebhookFake) -> None:
    tell(hook, MUST, "opened")
    tell(hook, MUST, "opened", "resolved")
    judge(hook)
    assert repeated(told_to(hook).values()) == 1


def test_the_end_alone_is_enough_for_an_optional_incident(hook: WebhookFake) -> None:
    """An attempt that perhaps arrived: by then it was over, and that is notified."""
    tell(hook, MUST, "opened", "resolved")
    tell(hook, MAY, "resolved")
    judge(hook)


@pytest.mark.parametrize(
    "phases", [(), ("opened",), ("resolved",), ("opened", "updated", "resolved"), ("opened", "repeated")]
)
def test_what_is_lost_of_an_incident_that_must_be_published_is_noticed(
    hook: WebhookFake, phases: tuple[str, ...]
) -> None:
    tell(hook, MUST, *phases)
    with pytest.raises((AssertionError, KeyError)):
        judge(hook)


def test_a_beginning_without_its_end_is_noticed(hook: WebhookFake) -> None:
    tell(hook, MUST, "opened", "resolved")
    tell(hook, MAY, "opened")
    with pytest.raises(AssertionError):
        judge(hook)


@pytest.mark.parametrize("phase", ["opened", "resolved"])
def test_a_notification_sent_again_under_another_key_is_noticed(hook: WebhookFake, phase: str) -> None:
    tell(hook, MUST, "opened", "resolved")
    tell(hook, MUST, phase, key="other")
    with pytest.raises(AssertionError):
        judge(hook)


def test_a_notification_sent_again_in_another_thread_is_noticed(hook: WebhookFake) -> None:
    tell(hook, MUST, "opened", "resolved")
    tell(hook, MUST, "opened", "resolved", thread="another")
    with pytest.raises(AssertionError):
        judge(hook)


def test_an_incident_that_the_topic_does_not_hold_is_noticed(hook: WebhookFake) -> None:
    tell(hook, MUST, "opened", "resolved", incident="invented")
    with pytest.raises(AssertionError):
        judge(hook)
