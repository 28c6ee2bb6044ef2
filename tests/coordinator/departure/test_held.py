"""For how long commits tell that a join barrier was held: a pause in the traffic holds none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.kinds import Kind
from tests.coordinator.support.timeline import Client, Topic, findings, of

if TYPE_CHECKING:
    from rebalance_monitor.coordinator.findings.finding import Finding

GO = [
    Client(f"kgo-{number}", (2 * number, 2 * number + 1), "kgo", f"/10.0.0.{number}", session=45_000)
    for number in range(3)
]
for client in GO:
    client.rebalance = 60_000


def gone_at_200_s(*until: int) -> Finding:
    """The last of three clients that commit what is new goes; they have had traffic up to `until` (ms)."""
    topic, commits = Topic(), Topic()
    for member, last in zip(GO, until, strict=True):
        commits.commits(1_000, last, member, moving=1)
    topic.generation(0, 1, GO)
    topic.rows += commits.rows
    topic.generation(200_000, 2, GO[:2])
    return of(findings(topic.sorted()), Kind.REBALANCE)[1]


def sure(finding: Finding) -> set[Cause]:
    return {cause.cause for cause in finding.causes if cause.confidence >= 0.6}


def test_a_member_that_goes_while_nobody_has_traffic_missed_no_join_deadline() -> None:
    quiet = gone_at_200_s(60_000, 60_000, 60_000)
    assert Cause.JOIN_DEADLINE_MISSED not in sure(quiet)
    assert quiet.join_ms_min == 0
    assert quiet.stopped_ms_min == 20


def test_a_member_that_goes_while_one_of_its_siblings_has_no_traffic_has_left() -> None:
    uneven = gone_at_200_s(60_000, 199_000, 199_900)
    assert sure(uneven) == {Cause.MEMBER_LEFT}
    assert uneven.join_ms_min == 0


def test_the_one_that_commits_on_while_all_others_have_stopped_missed_the_join_deadline() -> None:
    assert sure(gone_at_200_s(139_000, 139_500, 199_900)) == {Cause.JOIN_DEADLINE_MISSED}


def test_a_static_member_that_has_not_committed_since_its_restart_tells_of_no_barrier() -> None:
    """Its topic is idle; the barrier that its sibling's expiry began took three seconds, not 140."""
    one, other = (Client(f"{name}-1", (place,), instance_id=name) for place, name in enumerate("ab"))
    topic, commits = Topic(), Topic()
    for member in (one, other):
        commits.commits(1_000, 20_000, member, moving=1)
    topic.generation(0, 1, [one, other])
    topic.rows += commits.rows
    again = Client("a-2", (0,), instance_id="a")
    topic.generation(60_000, 1, [again, other])
    topic.generation(200_000, 2, [again])
    last = of(findings(topic.sorted()), Kind.REBALANCE)[1]
    assert last.join_ms_min == 0
    assert last.started_at_max == last.at - 20
