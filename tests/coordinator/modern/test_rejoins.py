"""Members of the classic protocol in a KIP-848 group, which rejoin for each new epoch."""

import pytest

from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.finding import CauseEntry
from rebalance_monitor.coordinator.findings.kinds import Kind
from tests.coordinator.support.epochs import SETTINGS, A, B, C, Epochs
from tests.coordinator.support.timeline import P, S, findings, of

BUMP, BEAT = 10_000, S // 3 + 1_500


def gone(at: int, *, classic: int | None = S, rejoined: bool = False) -> list[CauseEntry]:
    """The findings of A, which left at `at`; C came with a new epoch at 10 s, for which all are to rejoin."""
    topic = Epochs()
    topic.metadata(0, A, classic=classic)
    topic.bump(0, 1)
    topic.target(0, 1)
    topic.ack(0, A, 1, (0, 1))
    topic.join(1_000, B, 2, ())
    topic.ack(2_000, A, 2, (0,))
    topic.ack(2_500, B, 2, (1,))
    topic.join(BUMP, C, 3, ())
    topic.ack(BUMP + 300, B, 3, (1,))
    if rejoined:
        topic.ack(BUMP + 400, A, 2, (0,))
    topic.leave(at, A, 4)
    topic.target(at + 500, 4)
    topic.ack(at + 500, B, 4, (1,))
    topic.ack(at + 600, C, 4, (0,))
    last = of(findings(topic, SETTINGS), Kind.REBALANCE)[-1]
    return [entry for entry in last.causes if entry.member_id == A]


@pytest.mark.parametrize(("late", "missed"), [(-1, False), (0, True), (BEAT, True), (BEAT + 1, False)])
def test_that_has_not_rejoined_within_a_heartbeat_and_its_rebalance_timeout_was_fenced_for_that(
    late: int, *, missed: bool
) -> None:
    likeliest, *_ = gone(BUMP + P + late)
    assert ((likeliest.cause, likeliest.confidence) == (Cause.JOIN_DEADLINE_MISSED, 0.9)) is missed


def test_members_that_rejoined_since_or_use_the_new_protocol_have_no_rejoin_deadline() -> None:
    for told in (gone(BUMP + P + 500, rejoined=True), gone(BUMP + P + 500, classic=None)):
        assert all(entry.cause is not Cause.JOIN_DEADLINE_MISSED for entry in told)
