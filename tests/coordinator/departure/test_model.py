"""The departure model: Kafka's timers, one rebalance explained as a whole, and what samples add."""

from __future__ import annotations

import tracemalloc
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from rebalance_monitor.coordinator.commits.client_families import FAMILIES
from rebalance_monitor.coordinator.commits.siblings import Siblings
from rebalance_monitor.coordinator.departure import evidence as layout
from rebalance_monitor.coordinator.departure.alone import alone
from rebalance_monitor.coordinator.departure.evidence import SAME_PLACE, Departed, Evidence, Trace
from rebalance_monitor.coordinator.departure.explain import Explained, explain
from rebalance_monitor.coordinator.departure.hypotheses import CLIENTS, Way
from rebalance_monitor.coordinator.departure.verdicts import held_by
from rebalance_monitor.coordinator.state.group_state import Member
from tests.coordinator.support.calls import calls_in

if TYPE_CHECKING:
    from random import Random

    from numpy.typing import NDArray

SURE = 0.8
quick = settings(max_examples=40, deadline=None)


def steady(last: int, every: int = 1_000, **fields: object) -> Trace:
    """A member that commits every `every` ms, `last` ms before the end for the last time."""
    return replace(Trace(last, (every,) * 8, commits=60), **fields)


def departed(last: int, session: int = 45_000, rebalance: int = 300_000, **fields: object) -> Departed:
    usual = Departed(session, rebalance, 600_000, steady(last), "java", went_on=True)
    return replace(usual, **fields)


def rebalance(*gone: Departed, kept: int = 2, **fields: object) -> Evidence:
    """Survivors committed until they rejoined, at the very end."""
    usual = Evidence(
        since=600_000,
        aborted=0,
        departed=gone,
        survivors=tuple(steady(100 + 150 * place) for place in range(kept)),
        kept=kept,
        joined=0,
        deadline=max(one.rebalance for one in gone),
        session=max(one.session for one in gone),
    )
    return replace(usual, **fields)


def held_for(length: int, *gone: Departed, kept: int = 2, **fields: object) -> Evidence:
    """A newcomer began the phase; survivors rejoined within its first second and waited."""
    rejoined = tuple(steady(length - 300 - 200 * place) for place in range(kept))
    return rebalance(*gone, kept=kept, survivors=rejoined, joined=1, **fields)


def way(found: Explained, place: int = 0) -> tuple[Way, float]:
    shares = found.ways[place]
    best = max(range(len(shares)), key=shares.__getitem__)
    return Way(best), shares[best]


@pytest.mark.parametrize(("session", "poll"), [(10_000, 300_000), (45_000, 300_000), (60_000, 120_000)])
@pytest.mark.parametrize(
    ("after", "cause"),
    [(lambda s, _: s + 600, Way.DIED), (lambda _, p: p + 700, Way.STALLED), (lambda *_: 120, Way.LEFT)],
)
def test_each_timer_explains_the_silence_that_it_ends(
    session: int, poll: int, after: object, cause: Way
) -> None:
    one = departed(after(session, poll), session, poll)  # type: ignore[operator]
    found, share = way(explain(rebalance(one)))
    assert (found, share >= SURE) == (cause, True)


def test_a_client_that_enforces_no_poll_interval_does_not_breach_it() -> None:
    one = departed(300_700, family="sarama", rebalance=300_000)
    assert explain(rebalance(one)).ways[0][Way.STALLED] < 0.2


@pytest.mark.parametrize("since", [3_000, 45_200, 46_000, 60_000])
def test_a_member_whose_protocol_has_no_rebalance_timeout_breaches_none(since: int) -> None:
    """Share groups have none, and no record has their clients' poll intervals: few are below a session."""
    one = Departed(45_000, 0, since, Trace(), "unknown-848", rearms=False, heard=since)
    ways = explain(rebalance(one, kept=0, survivors=(), phase=(0, 500))).ways[0]
    assert ways[Way.UNSYNCED] == ways[Way.UNJOINED] == 0.0
    assert (ways[Way.STALLED] > 0.0) == (since > one.session)
    assert (ways[Way.DIED] >= SURE) == (since == 45_200)


def test_a_stalled_client_that_rejoins_by_itself_is_gone_a_poll_interval_after_its_work_before() -> None:
    """A cooperative group: librdkafka's client was given partitions anew, and its application never polled.

    The members that others gave partitions to rejoined at once, and waited for it.
    """
    silent = tuple(Trace(-1, (2_000,) * 8, commits=60) for _ in range(2))
    one = Departed(
        45_000, 300_000, 285_000, Trace(-1, (2_000,) * 8, commits=60), "librdkafka", worked=299_000
    )
    told = rebalance(one, survivors=silent, since=285_000, cooperative=True, withheld=True)
    assert way(explain(told))[0] is Way.STALLED
    assert way(explain(told))[1] >= SURE
    polled = replace(told, departed=(replace(one, worked=-1),), withheld=False)
    assert explain(polled).ways[0][Way.STALLED] < SURE


@pytest.mark.parametrize("family", ["librdkafka", "java"])
def test_a_member_that_was_silent_while_others_went_on_did_not_die_if_its_client_rejoins_by_itself(
    family: str,
) -> None:
    """It is gone a session after its assignment, as one is that died at once, and its limit after its work.

    Its group had committed for longer than its interval before the generation, and it had not: it lived on
    without its application. A client that rejoins in a poll of its application only had nothing to commit.
    """
    usual, since, limit = Trace(-1, (2_000,) * 8, commits=60), 45_100, 300_000
    one = Departed(
        45_000, limit, since, usual, family, named=True, worked=limit + 150, outlived=limit - since - 1_000
    )
    others = tuple(replace(usual, last=at) for at in (900, 1_500))
    said, unseen = (
        explain(rebalance(each, survivors=others, since=since)).ways[0]
        for each in (one, replace(one, outlived=0))
    )
    alone = family == "librdkafka"
    assert (said[Way.STALLED] >= SURE) == alone
    # The family that a client id suggests may be another.
    assert said[Way.DIED] == pytest.approx(
        unseen[Way.DIED] * (0.2 if alone else 1.0), rel=0.99 if alone else 0.01
    )


def test_siblings_of_another_subscription_say_nothing_of_a_member_s_work() -> None:
    gone, sibling = (
        Member(name, None, name, "/h", False, 10_000, 60_000, "java", 3, "topic", 0, [[0, place]])  # noqa: FBT003
        for place, name in enumerate(("a", "b"))
    )
    sibling.gaps, sibling.last_commit = [1_000], 90_000
    assert Siblings([sibling]).committed(gone, 5_000)
    sibling.subscribed = "other"
    assert not Siblings([sibling]).committed(gone, 5_000)


def test_a_dead_member_that_a_newcomer_replaced_holds_the_phase_to_the_end_of_its_session() -> None:
    """`currentStateTimestamp` is its last sign of life plus its session timeout."""
    evidence = held_for(30_000, departed(45_010))
    found = explain(evidence)
    assert way(found)[0] is Way.DIED
    assert way(found)[1] >= SURE
    assert held_by(found) == 0


@pytest.mark.parametrize("deadline", [60_000, 900_000, 3_600_000])
def test_one_that_lived_and_did_not_rejoin_was_removed_at_the_join_deadline_whatever_its_silence(
    deadline: int,
) -> None:
    """It committed to the end while the survivors waited for exactly the rebalance timeout."""
    one = departed(90, 45_000, deadline, since=3 * deadline, family="franz-go")
    evidence = held_for(deadline, one, since=3 * deadline)
    assert way(explain(evidence))[0] is Way.UNJOINED


@pytest.mark.parametrize("poll", [120_000, 600_000, 1_800_000])
def test_a_death_that_began_a_phase_which_a_stall_held_for_minutes_is_one(poll: int) -> None:
    length = poll - 25_000
    dead = departed(length + 45_000 + 900, 45_000, poll, since=3 * poll, went_on=True)
    stalled = departed(poll + 300, 45_000, poll, since=3 * poll, went_on=True)
    seen = replace(held_for(length, dead, stalled, since=3 * poll), joined=0)
    found = explain(seen)
    assert [way(found, place)[0] for place in (0, 1)] == [Way.DIED, Way.STALLED]
    assert min(way(found, place)[1] for place in (0, 1)) >= SURE


def test_no_phase_outlasts_its_deadline_so_the_dead_are_removed_there() -> None:
    found = explain(held_for(8_000, departed(25_000, 45_000, 8_000)))
    assert way(found)[0] is Way.UNJOINED


def test_the_join_deadline_keeps_a_static_member() -> None:
    evidence = held_for(60_000, departed(90, 45_000, 60_000, static=True))
    assert explain(evidence).ways[0][Way.UNJOINED] == 0


def test_a_static_member_that_stalls_expires_a_session_after_its_poll_interval() -> None:
    one = departed(60_000 + 45_000 - 2_000, 45_000, 60_000, static=True)
    assert way(explain(rebalance(one)))[0] is Way.STALLED


def test_a_member_that_committed_in_its_generation_missed_no_sync() -> None:
    one = departed(60_100, 45_000, 60_000, since=60_100)
    assert explain(rebalance(one)).ways[0][Way.UNSYNCED] == 0


def test_a_crash_before_the_first_commit_is_no_missed_sync() -> None:
    one = departed(-1, 45_000, 300_000, since=45_010, trace=Trace())
    found = explain(rebalance(one, since=45_010))
    assert way(found)[0] is Way.DIED
    assert found.ways[0][Way.UNSYNCED] < 0.1


def test_heartbeats_alone_keep_the_session_in_an_epoch_based_group() -> None:
    """There it may end a heartbeat interval less than a session after the last commit."""
    early = departed(42_500, rearms=False, family="java-848")
    found = explain(rebalance(early, phase=(0, 500), survivors=()))
    assert way(found)[0] is Way.DIED


def test_samples_tell_an_expiry_from_a_breach_by_when_the_phase_began() -> None:
    """Session 6 s, poll interval 8 s: a silence of 9 s fits both, the beginning of the phase only one."""
    one = departed(9_000, 6_000, 8_000)
    died = explain(rebalance(one, phase=(2_200, 2_900), survivors=()))
    stalled = explain(rebalance(one, phase=(100, 700), survivors=()))
    assert (way(died)[0], way(stalled)[0]) == (Way.DIED, Way.STALLED)


def test_lists_of_members_tell_when_each_of_them_was_removed() -> None:
    one, other = departed(46_000), departed(45_010)
    gone = replace(one, removed=(45_500, 46_000)), replace(other, removed=(0, 900))
    found = explain(held_for(45_900, *gone))
    assert (way(found, 0)[0], way(found, 1)[0]) == (Way.LEFT, Way.DIED)


def test_a_static_member_that_closes_expires_a_session_after_its_last_commit() -> None:
    one = departed(45_040, static=True)
    found = explain(rebalance(one, survivors=(), kept=0))
    assert way(found)[0] is Way.DIED
    assert way(found)[1] >= SURE


def test_a_member_that_did_not_acknowledge_an_epoch_was_dead_whatever_else_its_silence_fits() -> None:
    one = departed(70_000, rearms=False, family="java-848", trace=Trace(), since=70_000)
    alive = explain(rebalance(one, phase=(0, 500), survivors=()))
    deaf = explain(rebalance(replace(one, deaf=20_000), phase=(0, 500), survivors=()))
    assert way(alive)[1] < SURE
    assert (way(deaf)[0], way(deaf)[1] >= SURE) == (Way.DIED, True)


def test_what_a_newcomer_replaced_elsewhere_did_not_stall() -> None:
    """Two long silences, a phase that lasted to its deadline: the one that is back was dead."""
    dead, deaf = (departed(100_000, 30_000, 90_000, family="kafkajs") for _ in range(2))
    found = explain(held_for(90_000, replace(dead, returned=layout.ELSEWHERE), deaf))
    assert (way(found, 0)[0], way(found, 1)[0]) == (Way.DIED, Way.UNJOINED)


def evidences() -> st.SearchStrategy[Evidence]:
    ages = st.integers(-1, 10**9)
    gaps = st.lists(st.integers(0, 10**7), max_size=8).map(tuple)
    traces = st.builds(Trace, ages, gaps, st.booleans(), st.integers(0, 10**6))
    timeouts = st.integers(1, 10**7)
    ones = st.builds(
        Departed,
        timeouts,
        timeouts,
        st.integers(0, 10**9),
        traces,
        st.sampled_from(sorted(FAMILIES)),
        st.booleans(),
        st.integers(0, 10**6),
        st.integers(0, 2),
        st.booleans(),
        st.integers(0, 2),
        st.booleans(),
        st.just((-1, -1)),
        st.integers(-1, 10**6),
        st.booleans(),
        st.integers(0, 2),
        st.integers(-1, 10**6),
        st.booleans(),
    )
    return st.builds(
        Evidence,
        st.integers(0, 10**9),
        st.integers(0, 5),
        st.lists(ones, max_size=5).map(tuple),
        st.lists(traces, max_size=8).map(tuple),
        st.integers(0, 1_000),
        st.integers(0, 9),
        timeouts,
        timeouts,
        st.booleans(),
    )


@quick
@example(Evidence(60_000, 0, (), (Trace(0, (0, 0, 0)),), 1, 0, 300_000, 45_000))
@given(evidences())
def test_whatever_the_evidence_the_ways_of_a_member_are_shares_and_the_answer_is_the_same(
    evidence: Evidence,
) -> None:
    found = explain(evidence)
    assert found == explain(layout.decode(layout.encode(evidence)))
    for shares in (*found.ways, *alone(evidence).ways):
        assert all(0 <= share <= 1 for share in shares)
        assert sum(shares) == pytest.approx(1)


@quick
@given(
    since=st.integers(0, 3),
    gaps=st.lists(st.integers(0, 2), max_size=4),
    lull=st.integers(1, 3),
    usual=st.integers(0, 3),
)
def test_a_member_whose_generation_has_only_just_begun_is_explained(
    since: int, gaps: list[int], lull: int, usual: int
) -> None:
    trace = Trace(0, tuple(gaps), commits=len(gaps))
    one = Departed(30_000, 60_000, since, trace, "java", lull=lull, usual_lull=usual)
    for shares in explain(rebalance(one, one)).ways:
        assert sum(shares) == pytest.approx(1)


def test_every_family_has_a_client() -> None:
    assert CLIENTS.keys() == FAMILIES.keys()


def test_a_group_learns_its_heartbeat_interval_from_how_long_its_members_take_to_rejoin() -> None:
    """One idle committer waited for 14 s for the others, again and again: they hear late of a rebalance."""
    evidence = replace(held_for(14_000, departed(14_100)), joined=0, survivors=(steady(14_000), steady(50)))
    beats: tuple[float, ...] = ()
    for _ in range(5):
        beats = explain(replace(evidence, beats=beats)).beats
    assert max(beats) == beats[-1]


@quick
@given(
    since=st.integers(0, 100_000),
    known=st.sampled_from([(), (1.0, 0.5, 0.2, 0.1)]),
    kept=st.integers(0, 3),
    joined=st.integers(0, 3),
)
def test_a_group_learns_nothing_of_its_heartbeats_where_no_member_awaited_one(
    since: int, known: tuple[float, ...], kept: int, joined: int
) -> None:
    """A member that is alone rejoins by itself, and a generation that has just begun has had no heartbeat."""
    told = Evidence(since, 0, (), (steady(-1),) * kept, kept, joined, 60_000, 30_000, beats=known)
    assume(since < 3_000 or (kept <= 1 and not joined))
    assert explain(told).beats == known


def test_a_replaced_client_missed_its_deadline_whatever_the_start_of_its_group_said_of_heartbeats() -> None:
    """By the first 100 ms of a group its heartbeats seemed to come each second; they came every 5 s."""
    beats: tuple[float, ...] = ()
    for since, joined in ((95, 1), (106, 0)):
        start = Evidence(since, 0, (), (steady(-1),), 1, joined, 60_000, 30_000, beats=beats)
        beats = explain(start).beats
    often = Trace(60_915, (1_969, 2_018, 1_875, 1_963, 2_026, 1_878, 1_964, 1_996), commits=811)
    gone = Departed(30_000, 60_000, 396_628, often, "kafka-python", returned=SAME_PLACE, went_on=True)
    kept = steady(56_966, 1_950)
    found = explain(Evidence(396_624, 0, (gone,), (kept,), 1, 1, 60_000, 30_000, beats=beats))
    assert way(found)[0] is Way.UNJOINED


def test_members_of_a_group_that_keep_closing_are_likelier_to_have_closed() -> None:
    unsure = rebalance(departed(45_400, trace=Trace(45_400, (30_000, 60_000, 45_000), commits=3)))
    before = explain(unsure)
    taught = explain(replace(unsure, ways=(5.0, 0.0, 0.0, 0.0, 0.0, 0.0)))
    assert taught.ways[0][Way.LEFT] > before.ways[0][Way.LEFT]


def test_four_hundred_departures_in_one_rebalance_are_explained_together() -> None:
    found = explain(rebalance(*[departed(45_000 + 2 * place) for place in range(400)], kept=0, survivors=()))
    assert len(found.ways) == 400
    assert sum(way(found, place)[0] is Way.DIED for place in range(400)) >= 390


def cost_of(count: int) -> tuple[int, int]:
    """Calls of functions, and the most memory (bytes) held at once, to explain so many departures."""
    told = rebalance(*[departed(45_000 + 2 * place) for place in range(count)], kept=3)
    explain(told)
    calls = calls_in(lambda: explain(told))
    tracemalloc.start()
    explain(told)
    memory = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return calls, memory


def test_what_departures_in_one_rebalance_cost_grows_with_their_number_alone() -> None:
    few, many, most = (cost_of(count) for count in (100, 200, 400))
    for one, two, four in zip(few, many, most, strict=True):
        assert four - two == pytest.approx(2 * (two - one), rel=0.05)


def alike() -> st.SearchStrategy[Evidence]:
    """Members of few ages, some whose session began anew; at times too many to be judged at once."""
    seldom = st.sampled_from([-1, -1, -1, 20_000, 44_000])
    ones = st.builds(
        departed,
        st.sampled_from([-1, -1, 60, 46_000, 70_000]),
        st.sampled_from([10_000, 45_000]),
        family=st.sampled_from(["java", "librdkafka", "sarama"]),
        since=st.sampled_from([46_000, 77_000]),
        static=st.booleans(),
        young=st.booleans(),
        returned=st.sampled_from([layout.NOT_BACK, layout.SAME_PLACE]),
        loaded=seldom,
        failed=seldom,
        woke=seldom,
        lived_on=st.booleans(),
    )
    length = st.sampled_from([0, 30_000, 60_000])
    return st.builds(
        lambda gone, length, kept: held_for(length, *gone, kept=kept),
        st.lists(ones, min_size=2, max_size=20),
        length,
        st.integers(0, 2),
    )


def shares_of(member: str, evidence: Evidence, found: Explained) -> NDArray[np.float64]:
    """Shares of all members that are like this one, each way by itself in order."""
    each = zip(map(repr, evidence.departed), found.ways, strict=True)
    return np.sort([ways for one, ways in each if one == member], axis=0)


@quick
@given(st.one_of(evidences(), alike()), st.randoms(use_true_random=False))
def test_the_order_in_which_departed_members_are_listed_changes_no_share(
    evidence: Evidence, chance: Random
) -> None:
    """Of equal members any one may stand for their age, so what is said of them is compared as a whole."""
    places = list(range(len(evidence.departed)))
    chance.shuffle(places)
    turned = replace(evidence, departed=tuple(evidence.departed[place] for place in places))
    found, again = explain(evidence), explain(turned)
    assert again.beats == pytest.approx(found.beats, abs=1e-6)
    for one in set(map(repr, evidence.departed)):
        ways, other = (shares_of(one, *each) for each in ((evidence, found), (turned, again)))
        assert other == pytest.approx(ways, abs=1e-6)


def test_evidence_of_a_departure_is_small() -> None:
    one = rebalance(departed(10**6, trace=Trace(10**6, (10**6,) * 8, commits=10**6)), kept=8)
    assert len(layout.encode(one)) < 4_096


@pytest.mark.parametrize("session", [10_000, 30_000, 45_000])
@pytest.mark.parametrize("every", [1_000, 5_000])
@pytest.mark.parametrize("returned", [0, 1])
def test_of_two_that_died_together_none_has_left_though_one_is_replaced_at_once(
    session: int, every: int, returned: int
) -> None:
    """The newcomer begins the phase, and the session of the one that ends last holds it.

    Their last commits lie within a commit interval of each other.
    """
    last = session, session + 2 * every // 5
    gone = [departed(age, session, trace=steady(age, every)) for age in last]
    gone[returned] = replace(gone[returned], returned=layout.SAME_PLACE)
    found = explain(held_for(session - 3 * every // 10 - 500, *gone))
    assert all(shares[Way.LEFT] < SURE for shares in found.ways)
    assert found.ways[0][Way.DIED] >= SURE


def test_a_load_of_the_coordinator_begins_every_session_anew() -> None:
    """Silent for 70 s: that fits an expiry if its coordinator was loaded 45 s ago, and not 20 s ago."""
    one = departed(70_000, 45_000)
    fits = explain(rebalance(replace(one, loaded=44_000, lull=26_000))).ways[0][Way.DIED]
    assert fits >= max(SURE, explain(rebalance(one)).ways[0][Way.DIED])
    assert explain(rebalance(replace(one, loaded=20_000, lull=50_000))).ways[0][Way.DIED] == 0.0


@pytest.mark.parametrize("ago", [500, 45_500])
def test_a_broker_that_was_away_ends_sessions_as_it_wakes_or_a_session_after_it_loaded_them(ago: int) -> None:
    """Nothing tells whether it stood still or was restarted, but when the member is removed."""
    one, short = departed(70_000, 45_000, since=400_000), (0, 1_000)
    assert explain(rebalance(replace(one, woke=ago), phase=short)).ways[0][Way.DIED] > 0.9
    assert explain(rebalance(replace(one, woke=20_000), phase=short)).ways[0][Way.DIED] < 0.5


@pytest.mark.parametrize(("joined", "least", "most"), [(1, 0.8, 1.0), (2, 0.0, 0.6)])
def test_who_replaced_a_client_came_after_it_had_died_unless_others_came_too(
    joined: int, least: float, most: float
) -> None:
    """Its batches take 10 s, the phase took 20: by its session alone it may have died amid the phase."""
    last = steady(20_300, 10_200)
    old = Departed(10_000, 30_000, 390_000, last, "librdkafka", returned=layout.SAME_PLACE, removed=(0, 650))
    busy = (steady(10_070, 10_200),)
    seen = rebalance(old, survivors=busy, kept=1, joined=joined, phase=(19_270, 20_670), since=390_000)
    assert least <= explain(seen).ways[0][Way.STALLED] <= most


def test_a_deadline_ends_the_first_of_two_phases_whose_first_generation_failed() -> None:
    """Samples saw the group rebalance for two seconds longer than the deadline."""
    long = 300_000
    deaf = departed(long + 8_000, 45_000, long, family="sarama", trace=steady(long + 8_000, 2_000))
    found = explain(held_for(long + 2_000, deaf, aborted=1, phase=(long + 900, long + 2_300)))
    assert way(found) == (Way.UNJOINED, pytest.approx(1.0, abs=1 - SURE))


@quick
@given(
    silent=st.integers(60_500, 80_000), family=st.sampled_from(["java", "librdkafka", "sarama", "unknown"])
)
def test_samples_that_saw_a_member_until_the_join_deadline_do_not_say_when_it_fell_silent(
    silent: int, family: str
) -> None:
    """It stopped as the phase began or before, and the deadline removed it."""
    one = departed(silent, 45_000, 60_000, family=family, trace=steady(silent, 5_000))
    known = held_for(60_000, one, phase=(59_500, 60_300))
    loose, bound = (
        explain(replace(known, departed=(replace(one, removed=removed),))).ways[0]
        for removed in ((-1, -1), (0, 700))
    )
    # A breach at the same time is as long: of Java at 66 s it is three to one.
    assert bound[Way.UNJOINED] >= max(loose[Way.UNJOINED], 0.7)


def test_members_of_one_age_say_once_how_long_ago_one_event_took_them() -> None:
    """As recorded: 120 of 520 members, without partitions, were killed at once. No record shows that."""
    one = Departed(
        20_000, 60_000, 77_039, Trace(-1, commits=1), "java", went_on=True, worked=79_287, before=7_146
    )
    few, many = (
        explain(
            Evidence(77_038, 0, tuple(replace(one) for _ in range(count)), (), 400, 0, 60_000, 20_000)
        ).ways[0]
        for count in (8, 120)
    )
    assert many == pytest.approx(few, abs=0.1)
    assert max(many) < SURE
