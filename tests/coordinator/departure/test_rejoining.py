"""What the commits of those that stayed tell about the moment a barrier began."""

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalance_monitor.coordinator.commits.trace import commits_when_idle
from rebalance_monitor.coordinator.departure.attribution import attribute
from rebalance_monitor.coordinator.departure.measured import Rejoined, Silence
from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.kinds import Kind
from rebalance_monitor.coordinator.state.group_state import GroupState, Member
from tests.coordinator.departure.test_attribution import silence as usual_silence
from tests.coordinator.support.timeline import Client, P, S, Topic, findings

BEAT_MS, POLL_MS, CADENCE_MS = 1_000, 500, 1_000


def silence(after: int, **changes: object) -> Silence:
    close = {"session": S, "rebalance": P, "elapsed": 60_000, "cadence": CADENCE_MS, "quiet": 0.05}
    return usual_silence(after, **{**close, **changes})


def test_a_survivor_that_rejoined_before_the_poll_interval_ended_leaves_only_the_session() -> None:
    """The barrier ended 8.3 s after the last commit, which fits both; one had rejoined after 6.9 s."""
    assert attribute(silence(8_300))[0][0] is Cause.POLL_INTERVAL_EXCEEDED
    told = dict(
        attribute(silence(8_300, rejoined=Rejoined(least=1_400, apart=1_000, among=2), crowded=False))
    )
    assert told[Cause.SESSION_TIMEOUT] > 0.9


def test_survivors_that_rejoined_together_just_before_the_end_leave_only_the_poll_interval() -> None:
    told = dict(attribute(silence(8_700, rejoined=Rejoined(least=60, apart=50, among=4))))
    assert told[Cause.POLL_INTERVAL_EXCEEDED] > 0.9


def test_who_commits_by_hand_breaches_up_to_a_cadence_early() -> None:
    told = {"rejoined": Rejoined(least=350, apart=100, among=2), "cadence": 500, "crowded": False}
    by_timer = dict(attribute(silence(P - 100, poll_late=100, **told)))
    by_hand = dict(attribute(silence(P - 100, poll_late=100, by_hand=0.3, **told)))
    assert by_timer.get(Cause.POLL_INTERVAL_EXCEEDED, 0) < 0.1
    assert by_hand[Cause.POLL_INTERVAL_EXCEEDED] > 0.5


def test_a_commit_that_was_repeated_came_after_the_last_poll() -> None:
    client = {"poll_early": 1.0, "poll_late": 500, "cadence": 700}
    told = {"rejoined": Rejoined(least=50, apart=40, among=3), "crowded": False}
    at = P - 1_000
    plain = dict(attribute(silence(at, session=5_000, **client, **told)))
    repeated = dict(attribute(silence(at, session=5_000, repeated=True, **client, **told)))
    assert repeated[Cause.POLL_INTERVAL_EXCEEDED] > plain.get(Cause.POLL_INTERVAL_EXCEEDED, 0)


@given(
    told=st.builds(
        Rejoined,
        least=st.integers(0, 10**9),
        apart=st.integers(0, 10**9),
        among=st.integers(1, 1_000),
        sure=st.floats(0, 1),
    ),
    after=st.integers(0, 10**9),
    session=st.integers(-1, 10**7),
    crowded=st.booleans(),
)
def test_whatever_the_survivors_tell_shares_stay_shares(
    told: Rejoined, after: int, session: int, *, crowded: bool
) -> None:
    found = attribute(silence(after, session=session, rejoined=told, crowded=crowded, by_hand=0.3))
    assert found
    assert sum(share for _, share in found) <= 1.05


def _lost(chance: random.Random, cause: Cause, *, by_hand: bool) -> Silence:
    """One loss of three members, by the rules that clients and coordinators follow; times in ms."""
    session = chance.randint(5_000, 8_000)
    poll = round(session * chance.uniform(1.25, 1.4))
    cadence = POLL_MS if by_hand else CADENCE_MS
    if cause is Cause.SESSION_TIMEOUT:
        # Died so long after its last commit, and after its last heartbeat: the later of both counts.
        commit, beat = chance.uniform(0, cadence), chance.uniform(0, BEAT_MS)
        gone = session + max(0.0, commit - beat)
    else:
        apart = chance.uniform(0, cadence)
        gone = poll + (-apart if by_hand else apart) + chance.uniform(0, 100)
    waits = [chance.uniform(0, BEAT_MS) + chance.uniform(0, POLL_MS) for _ in range(2)]
    told = Rejoined(round(max(waits) - min(waits)), round(max(waits) - min(waits)), 2, 0.9)
    return silence(
        round(gone + max(waits)),
        session=session,
        rebalance=poll,
        cadence=cadence,
        poll_late=100,
        rejoined=told,
        crowded=False,
        by_hand=0.3,
    )


@pytest.mark.parametrize("by_hand", [False, True])
def test_claims_about_simulated_losses_are_mostly_made_and_hardly_ever_wrong(*, by_hand: bool) -> None:
    """Java under traffic, its poll interval 1.25 to 1.4 sessions long: its record says neither cause."""
    chance = random.Random(7)  # noqa: S311 - a simulation
    told: Counter[tuple[Cause, bool]] = Counter()
    for _ in range(400):
        for cause in (Cause.SESSION_TIMEOUT, Cause.POLL_INTERVAL_EXCEEDED):
            said, share = attribute(_lost(chance, cause, by_hand=by_hand))[0]
            if share >= 0.6:
                told[said, said is cause] += 1
    for cause in (Cause.SESSION_TIMEOUT, Cause.POLL_INTERVAL_EXCEEDED):
        assert told[cause, True] >= 0.85 * 400, told
        assert told[cause, True] >= 0.95 * (told[cause, True] + told[cause, False]), told


def test_a_cooperative_survivor_tells_when_it_rejoined_as_well() -> None:
    """Java commits as it asks to join, cooperative or not, and joins at its next poll."""
    a, b = Client("a-1", (0, 1), "consumer-g-1"), Client("b-1", (2, 3), "consumer-g-2", "/10.0.0.2")
    both = Client("a-1", (0, 1, 2, 3), "consumer-g-1")
    topic = Topic()
    topic.generation(0, 1, [a, b], protocol="cooperative-sticky")
    end = 30_700 + S + 1_900
    topic.commits(500, 30_700 + S, a)
    topic.commits(700, 30_700, b)
    topic.commit(30_700 + S + 700, dict.fromkeys(a.partitions, 100))
    topic.generation(end + 20, 2, [both], protocol="cooperative-sticky")
    found = findings(topic.sorted())
    (named,) = [one for one in found if one.kind is Kind.SESSION_TIMEOUT]
    assert named.confidence > 0.8
    assert named.details["silence_ms"] == S + 1_900


def test_a_client_that_commits_only_what_is_new_does_not_commit_when_idle_for_a_few_repeats() -> None:
    def member(family: str, idle: int, commits: int) -> Member:
        found = Member("m", None, "c", "h", False, S, P, family, 1, "", 0)  # noqa: FBT003 - the host is its own
        found.idle, found.commits = idle, commits
        return found

    state = GroupState()
    assert not commits_when_idle(state, member("librdkafka", 3, 30))
    assert commits_when_idle(state, member("librdkafka", 20, 30))
    assert commits_when_idle(state, member("java", 3, 30))
