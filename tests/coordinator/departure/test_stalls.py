"""Stalls as clients of production have them: a batch is committed as it ends, a process ends in a stall."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from rebalance_monitor.coordinator.departure.evidence import (
    HAD_WORK,
    MAYBE_WORK,
    SAME_PLACE,
    Departed,
    Evidence,
    Trace,
)
from rebalance_monitor.coordinator.departure.explain import explain
from rebalance_monitor.coordinator.departure.hypotheses import Way
from rebalance_monitor.coordinator.departure.verdicts import why_of
from rebalance_monitor.coordinator.refine.waiting_records import with_stalls
from rebalance_monitor.lab.simulator import simulate
from rebalance_monitor.lab.simulator.plans.plan import Act, ClientPlan, GroupPlan, Mode, Plan, Step
from rebalance_monitor.lab.suite.departures import observations
from tests.coordinator.departure.test_model import departed, held_for, way

SURE = 0.8
S, P = 45_000, 60_000
quick = settings(max_examples=40, deadline=None)


def batch(last: int, every: int, **fields: object) -> Departed:
    """One that commits as each of its batches ends, which take `every` ms."""
    usual = Departed(S, P, 600_000, Trace(last, (every,) * 8, commits=40), "java", work=HAD_WORK)
    return replace(usual, **fields)


@quick
@given(every=st.integers(17_000, 25_000), notice=st.integers(0, 100))
def test_one_that_polls_no_more_after_a_batch_goes_a_batch_earlier_than_its_interval_after_its_last_commit(
    every: int, notice: int
) -> None:
    """Its process has replaced it, so a newcomer began the phase that it held."""
    one = batch(P - every + notice, every, returned=SAME_PLACE)
    assert way(explain(held_for(P - every - 700, one, kept=1))) == (Way.STALLED, pytest.approx(1, abs=0.2))


def test_a_commit_long_before_the_interval_passed_is_no_such_batch() -> None:
    one = batch(P - 8_000, 20_000)
    assert way(explain(held_for(P - 8_700, one, kept=1)))[0] is not Way.STALLED


def leaked(last: int, length: int, **fields: object) -> Evidence:
    """A process replaced its client, and ended in the midst of the phase that this held for `length` ms.

    The other member had rejoined, and left as that phase ended.
    """
    waits, gone = (
        replace(departed(silent, 30_000), trace=Trace(silent, (5_000,) * 8, commits=40), went_on=False)
        for silent in (length - 6_000, last)
    )
    old = replace(gone, **fields)
    return Evidence(
        since=400_000,
        aborted=1,
        departed=(replace(waits, removed=(0, 700), work=old.work), replace(old, removed=(0, 700))),
        survivors=(),
        kept=0,
        joined=0,
        deadline=300_000,
        session=30_000,
        phase=(length - 700, length + 700),
    )


@quick
@given(length=st.integers(100_000, 280_000), before=st.integers(0, 4_900))
def test_a_client_that_its_process_had_replaced_and_that_ended_with_it_died(length: int, before: int) -> None:
    found = explain(with_stalls(leaked(length + before, length, work=HAD_WORK, returned=SAME_PLACE)))
    assert way(found, 1) == (Way.DIED, pytest.approx(1, abs=0.2))
    assert found.ways[0][Way.DIED] < 0.92


def test_one_that_may_have_had_no_work_or_that_had_rejoined_is_not_known_to_have_been_in_a_stall() -> None:
    """A group whose topic falls quiet and that closes then must not be said to have died."""

    def lived_on(evidence: Evidence) -> list[bool]:
        return [one.lived_on for one in with_stalls(evidence).departed]

    for ago, back, expected in ((203_000, SAME_PLACE, True), (203_000, 0, False), (206_000, 0, True)):
        assert lived_on(leaked(ago, 200_000, work=HAD_WORK, returned=back)) == [False, expected]
    assert lived_on(replace(leaked(206_000, 200_000, work=HAD_WORK), cooperative=True)) == [True, True]
    for other in ({"work": MAYBE_WORK}, {"lull": 150_000}, {"failed": 29_000}, {"rearms": False}):
        assert not any(lived_on(leaked(206_000, 200_000, **({"work": HAD_WORK} | other))))
    assert not any(lived_on(replace(leaked(203_000, 200_000, work=HAD_WORK), phase=(-1, -1))))


@quick
@given(late=st.integers(500, 4_500), lull=st.integers(0, 5_400), static=st.booleans())
@pytest.mark.parametrize(("session", "poll"), [(10_000, 30_000), (30_000, 120_000)])
def test_a_stall_that_lasts_for_the_interval_is_no_death_in_its_midst_though_members_of_the_group_often_die(
    session: int, poll: int, late: int, lull: int, *, static: bool
) -> None:
    """Ends show that it outlived its session, so that a death must have come after the stall began."""
    trace = Trace(poll + late + session * static + 900, (5_000,) * 8, commits=80)
    one = Departed(session, poll, 250_000, trace, "librdkafka", static=static, went_on=True, work=HAD_WORK)
    kept = (Trace(700, (5_000,) * 8, commits=80),) * 2
    removed = (replace(one, removed=(200, 1_600), lull=lull),)
    known = with_stalls(Evidence(250_000, 0, removed, kept, 2, 0, poll, session, phase=(200, 1_600)))
    assert [one.lived_on for one in known.departed] == [True]
    found = explain(replace(known, ways=(0.0, 3.0, 0.0, 0.0, 0.0, 0.0)))
    assert way(found) == (Way.STALLED, pytest.approx(1, abs=0.2))


@pytest.mark.parametrize("unmoved", [1, 2])
def test_one_that_made_no_progress_and_then_no_commit_for_its_interval_stalled(unmoved: int) -> None:
    """aiokafka commits on while its application stalls, unless that commits by a timer of its own."""
    trace = Trace(301_900, (1_050,) * 8, idle=True, commits=400)
    one = Departed(60_000, 60_000, 390_000, trace, "aiokafka", poll_interval=300_000, unmoved=unmoved)
    known = replace(one, work=HAD_WORK, went_on=True, removed=(200, 1_600))
    kept = (Trace(370, (1_050,) * 8, idle=True, commits=400),) * 2
    evidence = Evidence(390_000, 0, (known,), kept, 2, 0, 60_000, 60_000, phase=(200, 1_600))
    assert way(explain(evidence)) == (Way.STALLED, pytest.approx(1, abs=0.2))


def test_a_session_that_a_failed_generation_began_ends_in_a_phase_that_is_longer_than_it() -> None:
    """Its process ended as it awaited its assignment, and the phase after that waited for it."""
    trace = Trace(-1, (1_050,) * 8, idle=True, commits=570)
    one = Departed(
        60_000,
        60_000,
        70_100,
        trace,
        "aiokafka",
        went_on=True,
        worked=147_000,
        removed=(0, 480),
        failed=59_300,
    )
    kept = (Trace(60_400, (1_050,) * 8, idle=True, commits=188), Trace(60_900, (1_050,) * 8, commits=46))
    evidence = Evidence(70_100, 1, (replace(one, undue=True),), kept, 2, 0, 60_000, 60_000)
    assert way(explain(replace(evidence, phase=(69_100, 70_100)))) == (Way.DIED, pytest.approx(1, abs=0.2))


@pytest.mark.parametrize("seed", range(6))
def test_a_client_that_rejoins_amid_a_stall_is_not_said_to_have_died_a_session_after_its_assignment(
    seed: int,
) -> None:
    """librdkafka, whose application takes no callback; its session is three of its heartbeats."""
    plan = ClientPlan("librdkafka", S, 2 * P, 2 * P, S // 3, 5_000, Mode.BACKGROUND, rejoins_in_poll=False)
    came = 100_000 + 2 * P - S - S // 3 - 100 * seed
    steps = (
        *(Step(100.0 * number, Act.START, number) for number in range(3)),
        Step(100_000, Act.STALL, 0, 10 * P),
        Step(came, Act.START, 3),
    )
    group = GroupPlan("g", (plan,) * 4, steps)
    made = simulate(Plan((group,), 300_000), seed)
    (evidence,) = (found for _, found, gone in observations(made.rows) if gone)
    assert evidence.departed[0].outlived > S
    assert explain(evidence).ways[0][Way.STALLED] >= SURE


@quick
@given(
    session=st.sampled_from([10_000, 30_000, 45_000]),
    took=st.integers(300, 20_000),
    apart=st.integers(0, 2_900),
)
def test_statics_that_are_stopped_beside_dynamic_members_expire_and_those_left(
    session: int, took: int, apart: int
) -> None:
    """A process closes two clients, which commit as they close, and its static one sends no LeaveGroup."""
    length, every = session - 1_500 + took, (5_000,) * 8
    one = Departed(session, 300_000, 400_000, Trace(length, every, commits=70), "java")
    second = replace(one, trace=Trace(length - min(apart, took), every, commits=70))
    static = replace(one, trace=Trace(session + 100, every, commits=70), static=True)
    kept = (Trace(length - 2_000, every, commits=70),) * 2
    found = explain(Evidence(400_000, 0, (one, second, static), kept, 2, 0, 300_000, session)).ways
    sure = [[way for way in Way if shares[way] >= SURE] for shares in found]
    assert sure == [[Way.LEFT], [Way.LEFT], [Way.DIED]]


@pytest.mark.parametrize("family", ["sarama", "franz-go", "kafka-go"])
def test_clients_that_their_process_left_behind_are_not_said_to_have_closed_with_it(family: str) -> None:
    """As recorded on 3.9.1: two closed, and the phase waited for three that go on without applications."""
    usual = Departed(S, P, 159_733, Trace(-1), family, before=1_063_822)
    every, shorter = (10_000,) * 8, (8_000, 12_000) * 4
    behind = (
        replace(usual, trace=Trace(-1, shorter, commits=14), worked=1_083_704, outlived=923_913),
        replace(usual, trace=Trace(-1, shorter, commits=53), worked=701_840, outlived=542_049),
        replace(usual, trace=Trace(-1, every, commits=82), worked=273_793, outlived=114_002),
    )
    closed = tuple(replace(usual, trace=Trace(last, every, commits=40)) for last in (95_977, 90_005))

    def ways(*some: Departed) -> list[list[float]]:
        return explain(Evidence(159_729, 1, (*some, *closed), (), 0, 0, P, S)).ways

    likeliest = [max(Way, key=shares.__getitem__) for shares in ways(*behind)]
    assert likeliest == [Way.DIED] * len(behind) + [Way.LEFT] * len(closed)
    unknown = ways(*(replace(one, outlived=0) for one in behind))
    assert not any(shares[Way.DIED] >= SURE for shares in unknown)


@pytest.mark.parametrize(
    ("configured", "said"), [(0, "need not be its max.poll.interval"), (300_000, "as configured, 300.0 s")]
)
def test_no_rebalance_timeout_is_said_to_be_the_interval_of_a_client_that_does_not_send_it(
    configured: int, said: str
) -> None:
    one = Departed(45_000, 45_000, 123_000, Trace(123_000), "aiokafka", poll_interval=configured)
    assert said in why_of(Way.STALLED, one)


@pytest.mark.parametrize(("silent", "said"), [(82_000, True), (91_000, False)])
def test_a_silence_shorter_than_the_interval_that_was_exceeded_says_from_when_that_runs(
    silent: int, *, said: bool
) -> None:
    one = Departed(45_000, 90_000, 300_000, Trace(silent, (15_000,) * 8, commits=20), "librdkafka")
    assert ("from its last poll on, which was before that commit" in why_of(Way.STALLED, one)) is said


def test_a_client_that_its_process_left_behind_expires_as_that_ends() -> None:
    """As recorded of sarama on 3.9.1: it had committed nothing for minutes while others of its group did."""
    often, session = (2_001, 1_025, 2_016, 1_034, 1_998, 1_013, 2_003, 2_010), 10_000
    usual = Departed(session, 90_000, 92_459, Trace(-1, often, commits=84), "sarama")
    behind = (
        replace(usual, worked=1_013_808, outlived=921_345, before=1_061_229),
        replace(usual, worked=205_841, outlived=113_378, before=918_121),
        replace(usual, worked=631_884, outlived=539_421, before=1_065_431),
    )
    closed = tuple(replace(usual, trace=Trace(last, often, commits=92)) for last in (24_016, 22_006))
    evidence = Evidence(92_458, 1, (*behind, *closed), (), 0, 0, 90_000, session)
    assert min(ways[Way.DIED] for ways in explain(evidence).ways[: len(behind)]) > 0.75
