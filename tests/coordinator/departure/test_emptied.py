"""A group that ends as a whole, closed or killed, at production timings: neither is taken for the other."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from random import Random

import pytest
from msgspec.structs import replace as changed

from rebalance_monitor.coordinator.departure.evidence import (
    HAD_WORK,
    MAYBE_WORK,
    NO_WORK,
    Departed,
    Evidence,
    Trace,
)
from rebalance_monitor.coordinator.departure.explain import explain
from rebalance_monitor.coordinator.departure.hypotheses import Way
from rebalance_monitor.lab.simulator import draw_plan, simulate
from rebalance_monitor.lab.simulator.plans.plan import Act, Plan
from rebalance_monitor.lab.suite.departures import observations, way_of

SURE = 0.8
CLOSE, KILL, LEFT, DIED = Act.CLOSE, Act.KILL, Way.LEFT, Way.DIED


def _closing(rate: float) -> Iterator[tuple[int, Plan]]:
    """Yield plans of classic groups of several members, closed at the end; `rate`: records a second."""
    for seed in range(3_000_000, 3_010_000):
        plan = draw_plan(Random(seed), "healthy")  # noqa: S311 - a simulation
        (group,) = plan.groups
        closes = sum(step.act is CLOSE for step in group.steps)
        if closes > 1 and not (group.modern or plan.broker.outages) and group.traffic.per_second == rate:
            yield seed, plan


def _claims(seed: int, plan: Plan, act: Act, within: float) -> list[tuple[Way, Way, float]]:
    """Let all members end by `act`, the last `within` ms after the first; return true and claimed ways."""
    (group,) = plan.groups
    ends = [step for step in group.steps if step.act is CLOSE]
    apart = within / len(ends)
    last = [replace(one, at=ends[0].at + place * apart, act=act) for place, one in enumerate(ends)]
    steps = [one for one in group.steps if one.act is not CLOSE]
    made = simulate(
        replace(plan, groups=(replace(group, steps=(*steps, *last)),), length=plan.length + within), seed
    )
    truth = {one.member: way_of(one) for one in made.truth.removals}
    found = []
    for evidence, members in _learned(list(observations(made.rows))):
        ways = explain(evidence).ways
        best = [max(Way, key=one.__getitem__) for one in ways]
        found += [
            (truth[member], way, one[way]) for member, way, one in zip(members, best, ways, strict=True)
        ]
    return found


def _learned(seen: list[tuple[str, Evidence, list[str]]]) -> Iterator[tuple[Evidence, list[str]]]:
    """Yield the evidence with what the group has learned by then."""
    beats: tuple[float, ...] = ()
    ways: tuple[float, ...] = ()
    for _, evidence, members in seen:
        known = changed(evidence, beats=beats, ways=ways)
        found = explain(known)
        beats, ways = found.beats, found.group_ways
        yield known, members


@pytest.mark.parametrize("within", [0, 12_000])
@pytest.mark.parametrize("rate", [1 / 60, pytest.param(20.0, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("act", "way", "other"), [(CLOSE, LEFT, DIED), (KILL, DIED, LEFT)])
def test_a_group_that_was_closed_did_not_expire_and_one_that_was_killed_did_not_leave(
    act: Act, way: Way, other: Way, rate: float, within: int
) -> None:
    plans = list(islice(_closing(rate), 12))
    claims = [one for seed, plan in plans for one in _claims(seed, plan, act, within)]
    sure = [said for true, said, share in claims if true is way and share >= SURE]
    ended = sum(true is way for true, _, _ in claims)
    assert ended > 3 * len(plans)
    assert sure.count(other) <= 0.05 * ended
    assert sure.count(way) >= 0.4 * ended


def test_the_last_member_that_closes_a_session_after_the_other_is_not_said_to_have_expired() -> None:
    """A record came each minute, so it had committed nothing since the other left."""
    session, gaps = 10_000, (55_400, 2_600, 57_300, 2_100, 59_000, 1_300, 57_700, 2_000)
    one = Departed(session, 90_000, 10_200, Trace(-1, gaps, commits=42), "sarama", worked=47_400)
    found = explain(Evidence(10_200, 0, (one,), (), 0, 0, 90_000, session, phase=(0, 1_200)))
    assert found.ways[0][DIED] < SURE


@pytest.mark.parametrize("before", [500, 2_000, 14_000])
@pytest.mark.parametrize(
    ("session", "family"), [(10_000, "librdkafka"), (45_000, "java"), (60_000, "sarama")]
)
@pytest.mark.parametrize(("length", "way"), [(None, DIED), (299_700, Way.UNJOINED)])
def test_a_lone_member_that_samples_saw_awaited_until_the_join_deadline_missed_that(
    session: int, family: str, before: int, length: int | None, way: Way
) -> None:
    """A newcomer that no record shows began the phase; a coordinator keeps it for five minutes."""
    waited = length or session - 3_000
    one = Departed(session, 300_000, 374_600, Trace(waited + before, (5_000,) * 8, commits=60), family)
    gone = (changed(one, removed=(0, 800), work=HAD_WORK),)
    phase = (waited - 700, waited + 700)
    found = explain(Evidence(374_600, 0, gone, (), 0, 0, 300_000, session, phase=phase))
    assert found.ways[0][way] >= SURE


def test_a_group_that_never_committed_is_not_dead_because_it_ends_soon_after_its_session() -> None:
    """Its members had been there for minutes without a commit: one with work commits within seconds."""
    new = Departed(45_000, 60_000, 51_000, Trace(), "java")
    died, closed = (
        explain(Evidence(51_000, 0, (one,) * 3, (), 0, 0, 60_000, 45_000)).ways[0][Way.DIED]
        for one in (new, changed(new, before=300_000))
    )
    assert closed < 0.2 < died


def test_the_age_of_members_that_never_committed_is_evidence_once_however_many_they_are() -> None:
    """A group without a record that is closed soon after its session is no likelier dead for being large."""
    new = Departed(45_000, 90_000, 50_141, Trace(), "librdkafka", young=True)
    few, many = (explain(_closed(*(changed(new) for _ in range(count)))).ways[0] for count in (2, 10))
    assert many == pytest.approx(few, abs=0.1)


def test_topics_without_records_leave_all_members_without_work_at_once() -> None:
    """Three of five were silent for longer than their session; the others had committed as they closed."""
    silent = ((33_441, (2_438, 3_163, 1_866, 12_230, 8_306)), (34_986, (9_252,)), (35_771, (457,)))
    busy = ((2_199, (19_873, 16_983, 8_418, 8_540, 21_331)), (2_785, (13_487, 340)))
    gone = [
        Departed(30_000, 120_000, 42_784, Trace(last, gaps, commits=len(gaps) + 3), "kafkajs", before=70_000)
        for last, gaps in (*silent, *busy)
    ]
    unknown, worked = (
        explain(_closed(*(changed(one, work=work) for one in gone))).ways[0][DIED]
        for work in (MAYBE_WORK, HAD_WORK)
    )
    assert unknown < 0.1 < worked


def test_a_last_commit_as_it_closed_is_told_from_a_timer_s_where_records_come_seldom() -> None:
    """A timer of 30 s finds something to commit every other time: most intervals are longer than it."""
    gaps = (150_028, 60_021, 30_005, 90_021, 150_040, 120_012, 90_015, 4_973)
    one = Departed(30_000, 90_000, 900_000, Trace(1, gaps, commits=19), "librdkafka", work=NO_WORK)
    assert explain(_closed(one)).ways[0][LEFT] > SURE


def test_a_record_that_has_just_come_after_a_usual_lull_need_not_be_committed_yet() -> None:
    """Batches take a quarter of a minute, and records come once in one: it waits for them, then works."""
    gaps = (15_883, 16_701, 65_939, 16_316, 26_298, 25_187, 17_204, 33_401)
    lull = {"work": HAD_WORK, "lull": 66_063, "usual_lull": 115_060}
    others = [
        Departed(45_000, 60_000, 900_000, Trace(last, gaps, commits=40), "java") for last in (7_272, 16_885)
    ]
    one = Departed(45_000, 60_000, 900_000, Trace(70_202, gaps, commits=51), "java", **lull)
    late = changed(one, trace=Trace(112_000, gaps, commits=51))
    waits, works = (explain(_closed(some, *others)).ways[0][DIED] for some in (one, late))
    assert waits < 0.3 < works


def test_members_that_are_closed_one_after_the_other_left_though_some_stay() -> None:
    """Nothing is produced: nine of ten closed within six seconds, as their generation's heartbeats go on."""
    removed = [(2_971, 5_871)] * 3 + [(471, 3_371)] * 4 + [(0, 871)] * 2
    gone = tuple(
        Departed(45_000, 120_000, 1_571_120, Trace(1_550_000, (), commits=1), "librdkafka", removed=at)
        for at in removed
    )
    evidence = Evidence(1_571_079, 0, gone, (), 1, 0, 120_000, 45_000, phase=(2_971, 5_871))
    assert max(ways[DIED] for ways in explain(evidence).ways) < SURE


def test_the_second_of_two_that_are_closed_is_not_dead_because_it_leaves_some_seconds_later() -> None:
    """As recorded of kafka-go, which awaits its fetch: both had committed, and nothing came since."""
    gone = tuple(
        Departed(10_000, 60_000, 1_254_446, Trace(38_840, (60_000,) * 8, commits=21), "kafka-go", removed=at)
        for at in ((6_243, 7_643), (0, 642))
    )
    evidence = Evidence(1_254_210, 0, gone, (), 0, 0, 60_000, 10_000, phase=(6_243, 7_643))
    assert max(ways[DIED] for ways in explain(evidence).ways) < 0.7


def _closed(*gone: Departed) -> Evidence:
    """Return the evidence of a group of which nobody is left."""
    return Evidence(
        gone[0].since, 0, gone, (), 0, 0, max(one.rebalance for one in gone), max(one.session for one in gone)
    )
