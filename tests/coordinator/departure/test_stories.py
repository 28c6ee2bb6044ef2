"""Silence that fits more than one story: outages, few records, and clients that were replaced."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from rebalance_monitor.coordinator.departure import evidence as layout
from rebalance_monitor.coordinator.departure.evidence import Trace
from rebalance_monitor.coordinator.departure.explain import explain
from rebalance_monitor.coordinator.departure.hypotheses import Way
from rebalance_monitor.coordinator.findings.finding import CLAIMED
from tests.coordinator.departure.test_model import SURE, departed, held_for, rebalance, steady, way


@pytest.mark.parametrize("session", [10_000, 45_000])
@pytest.mark.parametrize("late", [300, 1_500])
def test_brokers_that_did_not_answer_may_have_gone_on_with_every_session(session: int, late: int) -> None:
    """A broker under strain, or the monitor's own network, loads no coordinator, as a move does."""
    one = replace(departed(session + late, session), loaded=session // 2, lull=session // 3)
    kept = {"kept": 1, "survivors": (steady(200),), "phase": (0, 1_500)}
    away = explain(rebalance(replace(one, unanswered=True), **kept)).ways[0]
    assert away[Way.DIED] >= max(SURE, away[Way.LEFT])
    assert explain(rebalance(one, **kept)).ways[0][Way.DIED] == 0.0


def test_who_had_died_before_a_load_is_removed_a_session_after_it_and_not_later() -> None:
    """It has never committed, so that it may have died at any time of its life, most of which is over."""
    one = departed(-1, 45_000, trace=Trace(), since=1_250_000)
    dead, alive = (
        explain(rebalance(replace(one, loaded=loaded, lull=1_250_000 - loaded), kept=0, survivors=()))
        for loaded in (44_000, 82_500)
    )
    assert dead.ways[0][Way.DIED] >= SURE
    assert alive.ways[0][Way.DIED] < 0.5


# Of real members that closed while one record a minute came; their sessions are 30 s and 10 s.
CLOSED = [
    b"""[1268171,0,[[30000,90000,1274398,[33490,[38955,3070,59273,6025,53895,3099,53760,3041],false,42],"sarama",
        false,0,0,false,0,true,[2312,3771]]],[[30436,[36404,6735,55309,3107,56700,3052,59841,3063],false,42]],1,
        0,90000,30000,false,[2312,3771],[1.0,0.394,0.209,0.151]]""",
    b"""[943216,0,[[10000,90000,943222,[11719,[59742,1221,59063,1212,58697,59911,1215,58874],false,20],
        "librdkafka",false,0,0,false,0,true]],[[11721,[59902,60112,1219,58705,1215,58768,1224,58887],false,24]],
        1,0,90000,10000,false,[0,1200],[0.802,1.0,0.995,0.992],[0.039,0.96,0.0,0.0,0.0,0.001]]""",
    b"""[260305,0,[[30000,90000,260367,[30241,[59892,57467,60245,63390,34762,61730,56770,59924],false,21],"sarama",
        false,0,0,false,0,true],[30000,90000,260367,[27290,[62955,57583,60339,62821,39239,59357,60003,62875],
        false,21],"sarama",false,0,0,false,0,true]],[],0,0,90000,30000,false,[-1,-1],
        [1.0,0.35,0.202,0.237]]""",
]


@pytest.mark.parametrize("closed", CLOSED)
def test_no_member_that_commits_once_a_minute_is_dead_because_its_silence_outlasts_its_session(
    closed: bytes,
) -> None:
    """What came once a minute is committed long before the member closes: no last commit tells of that."""
    assert all(shares[Way.DIED] < SURE for shares in explain(layout.decode(closed)).ways)


@pytest.mark.parametrize("family", ["kafka-go", "sarama", "librdkafka", "kafka-python"])
@pytest.mark.parametrize("closed", [(60,), (75, 44, 1), (140, 90, 20, 2)])
def test_a_group_whose_members_commit_once_as_it_ends_was_closed(
    family: str, closed: tuple[int, ...]
) -> None:
    """For half an hour nothing came, and no other member shows how often one commits."""
    alone = replace(departed(0, 30_000, 30_000), family=family, since=1_700_000, went_on=False, named=True)
    gone = [replace(alone, trace=Trace(last, (), commits=1)) for last in closed]
    found = explain(rebalance(*gone, kept=0, since=1_700_000))
    assert all(shares[Way.LEFT] >= SURE for shares in found.ways)


# Of real clients that their processes had replaced, in groups whose interval and deadline are five minutes.
REPLACED = {
    "kafka-python": b"""[439822,0,[[45000,300000,439843,[300535,[1611,385,669,844,1900,1861,1916,1883],false,
        213],"kafka-python",false,0,0,false,0,true,[0,632]]],[[298494,[372,741,811,1957,1849,1894,1888,1895],
        false,215]],1,0,300000,45000,false,[299475,300200],[1.0,0.152,0.037,0.027]]""",
    "librdkafka": b"""[299238,0,[[45000,300000,299239,[-1,[2008,2011,2009,2024,2009,2008,2006,2007],false,93],
        "librdkafka",false,0,0,false,0,true,[-1,-1],-1,false,2,-1,false,300331,[],2926]],[[-1,[],false,0],[-1,
        [2015,2145,2010,2008,2012,2007,2010,2015],false,62]],2,0,300000,45000,true,[-1,-1],
        [1.0,0.505,0.183,0.144],[],2,true]""",
}


@pytest.mark.parametrize(("family", "cause"), [("kafka-python", Way.UNJOINED), ("librdkafka", Way.STALLED)])
def test_a_phase_of_five_minutes_was_begun_by_a_newcomer_that_is_not_waited_for_any_longer(
    family: str, cause: Way
) -> None:
    """A moment after the newcomer, its coordinator removes the one that has not rejoined.

    The second phase cannot have lasted for as long: the record before is younger.
    """
    found, share = way(explain(layout.decode(REPLACED[family])))
    assert (found, share >= SURE) == (cause, True)


@pytest.mark.parametrize(
    ("family", "way"),
    [("kafka-python", Way.UNJOINED), ("librdkafka", Way.UNJOINED), ("java", Way.STALLED)],
)
def test_a_client_that_was_replaced_at_once_is_removed_at_the_deadline_or_leaves_just_before_it(
    family: str, way: Way
) -> None:
    """The new client joined right after the old one's last poll, so both timers end together.

    kafka-python looks with its next heartbeat, too late; Java sooner than the new one can have joined. Of
    librdkafka's timer, which looks twice a second, nearly nine in ten looks come too late.
    """
    long = 60_000
    one = departed(long + 900, 45_000, long, family=family, returned=layout.SAME_PLACE)
    found = explain(held_for(long, one, phase=(59_300, 60_300)))
    assert found.ways[0][way] >= SURE


# Of a real group of kafkajs: one member closed as its batch ended, and the others awaited their fetches.
FETCHING = b"""[1226492,0,[[30000,30000,1226498,[14493,[10007,10010,10008,10008,10009,10011,10013,10007],
    false,121,[1201953,120]],"kafkajs",false,0,0,false,0,true,[-1,-1],-1,true,1,-1,false,-1,[],
    0,-1,-1,false,false,-1,false,false,0,0,false,20068,false]],[[13665,[10008,10010,10010,10007,
    10011,10010,10047,10009],false,121,[]],[13656,[10007,10009,10009,10012,10007,10011,10058,
    10006],false,121,[]]],2,0,30000,30000,false,[-1,-1],[0.198,0.064,1.0,0.935],[0.085,0.0,0.0,
    0.913,0.0,0.002],2,false,[],false]"""


def test_members_that_await_their_fetch_do_not_make_a_phase_look_as_long_as_its_deadline() -> None:
    """They heard of it as their batches ended, committed nothing, and waited for up to maxWaitTimeInMs."""
    assert explain(layout.decode(FETCHING)).ways[0][Way.LEFT] >= SURE


def test_members_that_were_silent_for_as_long_as_the_deadline_had_awaited_no_fetch() -> None:
    """Neither a batch of 10 s nor a fetch of 5 s takes 30 s."""
    seen = layout.decode(FETCHING)
    (gone,) = seen.departed
    silent = replace(
        seen,
        departed=(replace(gone, trace=replace(gone.trace, last=33_000)),),
        survivors=tuple([replace(trace, last=30_500) for trace in seen.survivors]),
    )
    assert way(explain(silent))[0] == Way.UNJOINED


@pytest.mark.parametrize("family", ["java", "kafka-python", "librdkafka"])
@pytest.mark.parametrize("paused", [5_000, 12_000, 30_000])
def test_a_client_that_was_replaced_after_a_pause_left_as_its_own_interval_was_over(
    family: str, paused: int
) -> None:
    """The process waited between the last poll of the old client and the join of the new one."""
    long = 120_000
    length = long - paused
    one = departed(long + 900, 10_000, long, family=family, returned=layout.SAME_PLACE)
    found = explain(held_for(length, one, phase=(length - 700, length + 600)))
    assert found.ways[0][Way.STALLED] >= SURE


@pytest.mark.parametrize("last", [112_500, 113_500, 114_500])
def test_a_replaced_client_that_had_work_and_outlived_its_session_did_not_die_just_then(last: int) -> None:
    """It committed its last batch late, so its silence is shorter than its interval."""
    trace = Trace(last, (10_097, 10_225, 10_033, 10_042, 10_151, 10_449, 10_207, 10_311), commits=14)
    one = departed(last, 30_000, 120_000, family="kafka-python", returned=layout.SAME_PLACE, trace=trace)
    known = replace(one, work=layout.HAD_WORK, lived_on=True, removed=(0, 500), lull=0)
    found = explain(held_for(last - 900, known, kept=1, phase=(last - 2_000, last + 130)))
    assert found.ways[0][Way.STALLED] >= CLAIMED


@pytest.mark.parametrize("family", ["java", "kafka-python", "librdkafka"])
@pytest.mark.parametrize("session", [1, 100, 300])
@pytest.mark.parametrize("limit", [0, 1, 100, 350])
def test_a_replaced_client_with_timeouts_that_no_client_has_is_explained(
    family: str, session: int, limit: int
) -> None:
    """A forged record may name them."""
    one = departed(60, session, limit, family=family, returned=layout.SAME_PLACE)
    found = explain(held_for(max(limit, 1), one, phase=(50, 650)))
    assert sum(found.ways[0]) == pytest.approx(1.0)
