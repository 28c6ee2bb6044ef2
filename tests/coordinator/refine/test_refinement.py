"""What looks add to findings of the records: narrower bounds and better causes, under the same id."""

from itertools import accumulate

from hypothesis import given
from hypothesis import strategies as st

from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.finding import Finding
from rebalance_monitor.coordinator.findings.kinds import Kind
from rebalance_monitor.coordinator.live import Live
from tests.coordinator.support.looks import SETTINGS, look
from tests.coordinator.support.timeline import T0, Client, S, Topic, findings


def rebalances() -> list[Finding]:
    topic = Topic()
    topic.generation(0, 1, [Client("a-1", (0,))])
    topic.generation(60_000, 2, [Client("a-1", (0,))])
    return findings(topic)


def test_samples_narrow_the_bounds_of_a_rebalance_and_keep_its_id() -> None:
    live = Live(SETTINGS, "c1")
    live.on_samples([look(at, seen=at >= 55_000) for at in range(50_000, 60_000, 1_000)])
    before = rebalances()[1]
    (after,) = live.refine([before])
    assert after.id == before.id
    assert (after.started_at_min, after.started_at_max) == (T0 + 54_000, T0 + 55_000)
    assert after.coordinator is not None


ENDED = 59_980
"""When the join phase of the second of `rebalances` ends."""


@given(st.integers(0, 2_500), st.integers(-500, 500), st.data())
def test_a_join_phase_that_no_sample_saw_fits_between_two_of_them_whatever_the_clocks_say(
    lasted: int, ahead: int, data: st.DataObject
) -> None:
    """Looks come about once a second; the monitor's clock is `ahead` of the brokers'."""
    waits = data.draw(st.lists(st.integers(800, 1_200), min_size=14, max_size=14))
    times = list(accumulate(waits, initial=50_000 + data.draw(st.integers(0, 1_000))))
    inside = [ENDED - lasted <= at < ENDED for at in times]
    known = data.draw(st.integers(times.index(next(at for at in times if at >= ENDED)), len(times)))
    live = Live(SETTINGS, "c1")
    live.on_samples(
        [look(at + ahead, seen=seen) for at, seen in list(zip(times, inside, strict=True))[:known]]
    )
    (after,) = live.refine([rebalances()[1]])
    if not any(inside):
        assert lasted <= (after.join_ms_max or 0) <= 2_200
        assert (after.started_at_min or 0) <= T0 + ENDED - lasted <= (after.started_at_max or 0)


def test_samples_that_were_not_answered_show_nothing_of_a_join_phase_that_none_saw() -> None:
    live = Live(SETTINGS, "c1")
    live.on_samples([look(at, seen=False, answered=at < 55_000) for at in range(50_000, 63_000, 1_000)])
    (after,) = live.refine([rebalances()[1]])
    assert (after.join_ms_max or 0) >= 5_500


def test_after_a_coordinator_move_silence_is_held_back_and_same_members_are_explained() -> None:
    live = Live(SETTINGS, "c1")
    live.on_samples([look(56_000, seen=False), look(57_000, seen=False, epoch=3)])
    (after,) = live.refine([rebalances()[1]])
    assert after.causes[0].cause == "coordinator_moved"
    topic = Topic()
    client = Client("a-1", (0,))
    topic.generation(0, 1, [client])
    topic.commits(500, 52_500, client)
    topic.record(57_000, b"\0\2\0\5other", None, "other")
    silent = [f for f in findings(topic, until=S + 4_000) if f.kind is Kind.MEMBER_SILENT]
    assert len(silent) == 1
    assert live.refine(silent) == []


def refined(topic: Topic, *, seen_from: int, seen_until: int) -> Finding:
    live = Live(SETTINGS, "c1")
    live.on_samples([look(at, seen=seen_from <= at < seen_until) for at in range(0, 80_000, 1_000)])
    last = [found for found in findings(topic) if found.kind is Kind.REBALANCE][-1]
    return live.refine([last])[0]


def dropped(stops: int) -> Topic:
    """B is gone from the second generation; A commits until it rejoins at `stops`, B until the end."""
    both = [Client("a-1", (0,)), Client("b-1", (1,))]
    topic = Topic()
    topic.generation(0, 1, both)
    topic.commits(1_000, stops, both[0], moving=3)
    topic.commits(1_000, 59_000, both[1], moving=3)
    topic = topic.sorted()
    topic.generation(60_000, 2, both[:1])
    return topic


def test_a_join_phase_that_lasted_for_its_deadline_dropped_the_missing_members() -> None:
    late = refined(dropped(54_000), seen_from=52_500, seen_until=60_000)
    assert (late.causes[0].cause, late.causes[0].member_id) == (Cause.JOIN_DEADLINE_MISSED, "b-1")
    soon = refined(dropped(59_000), seen_from=58_500, seen_until=60_000)
    assert soon.causes[0].cause is Cause.MEMBER_LEFT


def test_where_no_coordinator_moved_a_rebalance_of_the_same_members_was_asked_for() -> None:
    topic = Topic()
    topic.generation(0, 1, [Client("a-1", (0,))])
    topic.generation(60_000, 2, [Client("a-1", (0,))])
    cause = refined(topic, seen_from=59_500, seen_until=60_000).causes[0]
    assert (cause.cause, cause.confidence) == (Cause.LEADER_REJOINED, 0.85)


def test_active_members_that_are_gone_after_a_move_hint_at_the_size_limit() -> None:
    live = Live(SETTINGS, "c1")
    live.on_samples([look(at, seen=False, epoch=1 + (at >= 55_000)) for at in range(50_000, 60_000, 1_000)])
    last = [found for found in findings(dropped(59_000)) if found.kind is Kind.REBALANCE][-1]
    assert Cause.GROUP_OVER_CAPACITY in {entry.cause for entry in live.refine([last])[0].causes}
