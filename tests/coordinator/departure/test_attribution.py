import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalance_monitor.coordinator.departure.attribution import Silence, Stall, attribute
from rebalance_monitor.coordinator.departure.measured import Rejoined
from rebalance_monitor.coordinator.findings.causes import Cause

durations = st.integers(-1_000, 10**12)
silences = st.builds(
    Silence,
    session=durations,
    rebalance=durations,
    silence=st.integers(0, 10**12),
    elapsed=st.integers(0, 10**12),
    cadence=durations,
    held=st.integers(0, 10**12),
    wait=st.sampled_from([-1, 0, 100, 500]),
    static=st.booleans(),
    means=st.booleans(),
    committed=st.booleans(),
    poll=st.sampled_from([None, True, False]),
    goodbye=st.booleans(),
    poll_held=st.booleans(),
    aborted=st.integers(0, 5),
    ended=st.floats(0, 1),
)


def silence(after: int, **changes: object) -> Silence:
    values: dict[str, object] = {
        "session": 45_000,
        "rebalance": 300_000,
        "silence": after,
        "elapsed": 900_000,
        "cadence": 5_000,
        "held": 0,
        "wait": -1,
        "static": False,
        "means": True,
        "committed": True,
        "poll": True,
        "goodbye": True,
        **changes,
    }
    return Silence(**values)  # type: ignore[arg-type] # a test's table of mixed values


@given(silences)
def test_confidences_are_shares_and_nothing_raises(seen: Silence) -> None:
    found = attribute(seen)
    assert all(0 < share <= 1 for _, share in found)
    assert sum(share for _, share in found) <= 1.05
    assert len({cause for cause, _ in found}) == len(found)
    assert [share for _, share in found] == sorted((share for _, share in found), reverse=True)


@given(silences)
def test_a_client_that_does_not_enforce_polling_never_breaches(seen: Silence) -> None:
    if seen.poll is False:
        assert Cause.POLL_INTERVAL_EXCEEDED not in {cause for cause, _ in attribute(seen)}


@pytest.mark.parametrize(
    ("after", "cause"),
    [
        (500, Cause.MEMBER_LEFT),
        (45_500, Cause.SESSION_TIMEOUT),
        (49_000, Cause.SESSION_TIMEOUT),
        (300_500, Cause.POLL_INTERVAL_EXCEEDED),
        (305_000, Cause.POLL_INTERVAL_EXCEEDED),
    ],
)
def test_the_windows_hold_at_the_default_timeouts(after: int, cause: Cause) -> None:
    assert attribute(silence(after))[0][0] is cause


@pytest.mark.parametrize("after", [20_000, 120_000, 700_000])
def test_a_silence_that_fits_no_window_is_no_timeout(after: int) -> None:
    found = dict(attribute(silence(after)))
    assert Cause.SESSION_TIMEOUT not in found
    assert Cause.POLL_INTERVAL_EXCEEDED not in found


def test_where_silence_means_nothing_no_timeout_reaches_the_threshold() -> None:
    found = dict(attribute(silence(45_500, means=False)))
    assert found.get(Cause.SESSION_TIMEOUT, 0) <= 0.5


@given(
    after=st.integers(45_000, 280_000),
    since=st.integers(0, 10**6),
    poll=st.sampled_from([None, True, False]),
)
def test_of_one_without_traffic_no_long_silence_says_that_it_left(
    *, after: int, since: int, poll: bool | None
) -> None:
    """It may have crashed as well, its session before or its poll interval: nobody saw it live."""
    found = dict(attribute(silence(after, elapsed=after + since, means=False, quiet=1.0, poll=poll)))
    assert found.get(Cause.MEMBER_LEFT, 0) < 0.6


@pytest.mark.parametrize("after", [42_500, 44_000, 44_900])
def test_one_that_may_commit_within_transactions_expires_up_to_a_heartbeat_before_its_session(
    after: int,
) -> None:
    cause, share = attribute(silence(after, cadence=1_000))[0]
    assert cause is Cause.SESSION_TIMEOUT
    assert share == 0.55
    streams = attribute(silence(after, cadence=100, goodbye=False, quiet=0.05))
    assert streams[0][0] is Cause.SESSION_TIMEOUT
    assert streams[0][1] > 0.9
    assert Cause.SESSION_TIMEOUT not in dict(attribute(silence(after - 6_000, cadence=1_000)))


def test_a_static_member_expires_after_a_crash_and_after_a_stall() -> None:
    assert attribute(silence(46_000, static=True))[0][0] is Cause.STATIC_MEMBER_EXPIRED
    assert attribute(silence(345_000, static=True))[0][0] is Cause.POLL_INTERVAL_EXCEEDED


def test_one_that_may_have_had_nothing_to_commit_gets_no_certainty_from_a_long_silence() -> None:
    """Its silence fits no window: it may have left, expired or stalled whenever."""
    found = dict(attribute(silence(600_000, rebalance=60_000, quiet=0.15)))
    assert max(share for cause, share in found.items() if cause is not Cause.UNKNOWN) < 0.6
    fitting = dict(attribute(silence(46_000, quiet=0.15)))
    assert fitting[Cause.SESSION_TIMEOUT] > 0.6


def test_a_client_that_commits_on_close_has_hardly_left_without_a_commit() -> None:
    never = {"committed": False, "elapsed": 46_500, "cadence": 1_000}
    closes = dict(attribute(silence(46_500, closes=True, quiet=0.9, **never)))
    silent = dict(attribute(silence(46_500, closes=False, quiet=0.9, **never)))
    assert closes[Cause.SESSION_TIMEOUT] > silent[Cause.SESSION_TIMEOUT]


def test_one_that_stalled_for_its_poll_interval_before_its_last_commit_did_not_just_leave() -> None:
    found = dict(attribute(silence(100, wait=0, poll_held=True, stalled=True)))
    assert found[Cause.POLL_INTERVAL_EXCEEDED] > 0.6
    assert Cause.MEMBER_LEFT in dict(attribute(silence(100, wait=0, poll_held=True)))


def test_one_that_may_have_waited_in_a_barrier_is_not_said_to_have_expired() -> None:
    found = dict(attribute(silence(46_000, waited=True)))
    assert attribute(silence(46_000))[0] == (Cause.SESSION_TIMEOUT, 0.97)
    assert max(found.values()) < 0.6
    assert found[Cause.MEMBER_LEFT] >= found[Cause.SESSION_TIMEOUT] > 0.3


def test_a_stall_that_nothing_tells_from_a_leave_is_spread_and_one_that_siblings_tell_is_claimed() -> None:
    stalled = {"poll": False, "rebalance": 45_000}
    spread = dict(attribute(silence(500, stall=Stall.MAYBE, **stalled)))
    assert spread[Cause.MEMBER_LEFT] == spread[Cause.POLL_INTERVAL_EXCEEDED] < 0.6
    told = dict(attribute(silence(3_000, stall=Stall.LIKELY, **stalled)))
    assert 0.6 <= told[Cause.POLL_INTERVAL_EXCEEDED] <= 0.9
    assert dict(attribute(silence(500, **stalled)))[Cause.MEMBER_LEFT] > 0.9


def test_of_one_that_never_committed_the_priors_are_said_below_any_claim() -> None:
    found = attribute(silence(200_000, elapsed=200_000, means=False, committed=False))
    assert [cause for cause, _ in found] == [Cause.MEMBER_LEFT, Cause.SESSION_TIMEOUT, Cause.UNKNOWN]
    assert all(share < 0.5 for _, share in found)


def test_of_one_that_commits_on_close_and_never_committed_expiry_is_likelier_than_a_leave() -> None:
    never = {"elapsed": 200_000, "means": False, "committed": False}
    found = dict(attribute(silence(200_000, closes=True, **never)))
    assert 0.6 > found[Cause.SESSION_TIMEOUT] > found[Cause.MEMBER_LEFT]
    silent = dict(attribute(silence(200_000, closes=False, **never)))
    assert silent[Cause.MEMBER_LEFT] == silent[Cause.SESSION_TIMEOUT] > silent[Cause.UNKNOWN] > 0


@given(elapsed=st.integers(1_000, 44_000), closes=st.booleans(), poll=st.sampled_from([None, True, False]))
def test_one_that_never_committed_left_only_before_any_of_its_limits(
    *, elapsed: int, closes: bool, poll: bool | None
) -> None:
    """Its poll interval of 30 s is shorter than its session of 45 s."""
    never = {"rebalance": 30_000, "elapsed": elapsed, "means": False, "committed": False}
    found = dict(attribute(silence(elapsed, closes=closes, poll=poll, **never)))
    left = poll is False or elapsed < 30_000 - 300
    assert (found.get(Cause.MEMBER_LEFT, 0) >= 0.6) is left
    assert Cause.SESSION_TIMEOUT not in found


def test_one_that_stalls_before_its_first_commit_is_a_breach_where_its_silence_fits_nothing_else() -> None:
    """What stalled it, a record or a batch, is given to it again when it is back."""
    again = {"session": 6_000, "session_early": 1_000, "rebalance": 7_983, "cadence": 1_993, "poll_late": 100}
    never = {"committed": False, "quiet": 0.4, "closes": True, "wait": 500}
    found = dict(attribute(silence(9_333, elapsed=9_333, **again, **never)))
    assert found[Cause.POLL_INTERVAL_EXCEEDED] >= 0.6


def test_a_static_member_that_never_committed_rather_expired_unless_it_went_too_soon() -> None:
    """Nobody sees whether it lived until an administrator removed it: no claim."""
    never = {"static": True, "means": False, "committed": False}
    cause, share = attribute(silence(200_000, elapsed=200_000, **never))[0]
    assert cause is Cause.STATIC_MEMBER_EXPIRED
    assert 0.5 < share < 0.6
    soon = attribute(silence(9_000, elapsed=9_000, **never))
    assert all(cause is not Cause.STATIC_MEMBER_EXPIRED and share < 0.6 for cause, share in soon)


def test_one_that_went_just_when_the_session_ended_that_began_by_joining_expired() -> None:
    never = {"committed": False, "means": False, "quiet": 1.0, "session": 7_700, "rebalance": 10_000}
    exact = dict(attribute(silence(7_712, elapsed=7_712, **never)))
    assert exact[Cause.SESSION_TIMEOUT] >= 0.8
    static = attribute(silence(7_712, elapsed=7_712, static=True, **never))
    assert static[0][0] is Cause.STATIC_MEMBER_EXPIRED


def test_of_one_that_never_worked_a_missed_sync_is_likelier_than_a_stall() -> None:
    never = {"committed": False, "session": 6_000, "rebalance": 10_000, "cadence": 1_000}
    found = attribute(silence(10_600, elapsed=10_600, **never))
    assert found[0][0] is Cause.SYNC_DEADLINE_MISSED
    assert found[0][1] >= 0.6


@pytest.mark.parametrize("late", [100, 450, 3_000])
def test_who_worked_before_has_stalled_in_its_first_batch_rather_than_missed_its_sync(late: int) -> None:
    told = Rejoined(least=late, apart=late // 2, among=3, sure=0.97)
    never = {"committed": False, "worked": True, "quiet": 0.05, "closes": True, "poll_late": 100}
    at = 300_150 + late
    found = attribute(silence(at, elapsed=at, rejoined=told, crowded=False, **never))
    assert found[0][0] is Cause.POLL_INTERVAL_EXCEEDED
    assert 0.6 <= found[0][1] <= 0.92
    assert dict(found).get(Cause.SYNC_DEADLINE_MISSED, 0) < 0.2
    hand = attribute(silence(at, elapsed=at, rejoined=told, crowded=False, **(never | {"poll": False})))
    assert hand[0][0] is Cause.SYNC_DEADLINE_MISSED


def test_a_missed_sync_is_told_where_its_siblings_say_when_they_rejoined() -> None:
    never = {"committed": False, "quiet": 0.4, "closes": True, "poll_late": 1_000, "crowded": False}
    told = Rejoined(least=17, apart=11, among=2, sure=0.97)
    limits = {"session": 6_990, "rebalance": 9_055, "cadence": 791}
    found = attribute(silence(10_061, elapsed=10_061, rejoined=told, **limits, **never))
    assert found[0][0] is Cause.SYNC_DEADLINE_MISSED
    assert found[0][1] >= 0.6


def test_who_waited_in_a_barrier_that_another_held_to_its_deadline_has_left() -> None:
    held = {
        "held": 9_100,
        "rebalance": 10_300,
        "session": 7_500,
        "cadence": 750,
        "quiet": 1.0,
        "means": False,
    }
    waited = attribute(silence(10_400, waited=True, **held))
    assert waited[0][0] is Cause.MEMBER_LEFT
    holder = attribute(silence(900, waited=False, **held))
    assert holder[0][0] is Cause.JOIN_DEADLINE_MISSED


def test_a_poll_interval_that_no_record_holds_takes_what_the_session_hardly_explains() -> None:
    client = {"session": 7_800, "rebalance": 7_800, "cadence": 97, "poll": False, "quiet": 0.05}
    fits = dict(attribute(silence(8_400, elapsed=31_000, hidden=True, **client)))
    assert fits[Cause.SESSION_TIMEOUT] >= 0.9
    # Killed amid a long batch it is as silent; by itself the interval is five minutes.
    for late, told in ((10_760, False), (60_000, False), (300_000, True)):
        found = dict(attribute(silence(late, elapsed=400_000, hidden=True, **client)))
        assert (found[Cause.POLL_INTERVAL_EXCEEDED] >= 0.6) is told
        assert found[Cause.POLL_INTERVAL_EXCEEDED] <= 0.9


# In epoch-based groups heartbeats keep the session: it ends up to one of them sooner after the last commit.
BEAT_KEPT = {"session_early": 5_000, "wait": 0}


@pytest.mark.parametrize("after", [40_500, 43_000, 45_000])
def test_a_session_that_heartbeats_keep_expires_up_to_one_sooner_after_the_last_commit(after: int) -> None:
    assert attribute(silence(after, **BEAT_KEPT))[0][0] is Cause.SESSION_TIMEOUT
    assert attribute(silence(after, static=True, **BEAT_KEPT))[0][0] is Cause.STATIC_MEMBER_EXPIRED
    assert Cause.SESSION_TIMEOUT not in dict(attribute(silence(after - 6_000, **BEAT_KEPT)))


def test_a_client_that_is_held_up_by_its_application_leaves_at_its_interval_or_expires_a_session_later() -> (
    None
):
    held = {"poll_held": True, "cadence": 1_000, **BEAT_KEPT}
    near = [300_000, 300_500, 341_000, 343_000, 345_000]
    assert all(attribute(silence(at, **held))[0][0] is Cause.POLL_INTERVAL_EXCEEDED for at in near)
    assert Cause.POLL_INTERVAL_EXCEEDED not in dict(attribute(silence(352_000, **held)))


@pytest.mark.parametrize("early", [0, 400, 900])
def test_a_breach_may_come_a_cadence_early_after_the_last_commit_of_who_polled_before_it(early: int) -> None:
    """Recorded of KIP-848 members: librdkafka's commits follow its polls, so do those made by hand."""
    at = 300_000 - early
    timer = {"poll_held": True, "poll_early": 1.0, "cadence": 1_000, "quiet": 0.05, **BEAT_KEPT}
    assert attribute(silence(at, **timer))[0][0] is Cause.POLL_INTERVAL_EXCEEDED
    hand = {"by_hand": 0.3, "cadence": 1_000, "quiet": 0.05, **BEAT_KEPT}
    assert attribute(silence(at, **hand))[0][0] is Cause.POLL_INTERVAL_EXCEEDED
    assert Cause.POLL_INTERVAL_EXCEEDED not in dict(attribute(silence(300_000 - 1_300, **timer)))
