"""A member in the place of an expired one: restarted where it came before the end, else perhaps blocked."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.kinds import Kind
from tests.coordinator.support.timeline import Client, S, Topic, findings, of

RESTARTED, BLOCKED = Cause.MEMBER_RESTARTED, Cause.MEMBER_BLOCKED
GONE = Client("gone", (0,), "consumer-app-1", "/10.0.0.1")
KEPT = Client("kept", (1,), "consumer-app-1", "/10.0.0.2")
BACK = replace(GONE, member_id="back")
DIED = 60_000


def said(successor: Client, *, after: int, rest: list[Client] | None = None) -> list[Cause]:
    """What is said of a member that joins so many ms after another has expired, or in the same rebalance."""
    rest = [KEPT] if rest is None else rest
    topic = Topic()
    topic.generation(0, 1, [GONE, *rest])
    topic.commits(1_000, DIED, GONE)
    ended = DIED + S + 100
    for client in rest:
        topic.commits(1_500, ended + after, client)
    if after:
        topic.generation(ended, 2, [replace(client, partitions=(0, 1)) for client in rest])
    topic.generation(ended + after, 3 if after else 2, [successor, *rest])
    (*_, told) = of(findings(topic.sorted()), Kind.REBALANCE)
    return [one.cause for one in told.causes if one.cause in {RESTARTED, BLOCKED}]


@pytest.mark.parametrize("after", [5_000, 600_000])
@pytest.mark.parametrize("rest", [[KEPT], []])
def test_both_causes_stand_where_it_joins_after_the_old_session_has_ended(
    after: int, rest: list[Client]
) -> None:
    assert said(BACK, after=after, rest=rest) == [RESTARTED, BLOCKED]


def test_it_was_restarted_where_it_joins_before_the_old_session_has_ended() -> None:
    assert said(BACK, after=0) == [RESTARTED]


def test_its_process_lives_where_the_number_in_its_client_id_went_up() -> None:
    assert said(replace(BACK, client_id="consumer-app-2"), after=5_000) == [BLOCKED]


@pytest.mark.parametrize("other", [{"host": "/10.0.0.9"}, {"client_id": "other"}, {"instance_id": "i"}])
def test_nothing_is_said_of_a_member_of_another_host_or_client_or_of_a_static_one(
    other: dict[str, str],
) -> None:
    assert said(replace(BACK, **other), after=5_000) == []  # type: ignore[arg-type]
