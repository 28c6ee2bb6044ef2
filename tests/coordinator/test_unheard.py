"""Members that committed nothing: what the moment of their going tells."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalance_monitor.coordinator.attribution import attribute
from rebalance_monitor.coordinator.causes import Cause
from rebalance_monitor.coordinator.measured import Silence

S, BEAT = 45_000, 5_000


def gone(after: int, beat: int = BEAT, session: int = S) -> dict[Cause, float]:
    """What is said of one that went `after` ms after its last known heartbeat."""
    return dict(
        attribute(
            Silence(
                session=session,
                rebalance=300_000,
                silence=after,
                elapsed=after,
                cadence=BEAT,
                held=0,
                wait=500,
                static=False,
                means=False,
                committed=False,
                poll=None,
                goodbye=True,
                beat=beat,
                quiet=1.0,
            )
        )
    )


@given(beats=st.integers(2, 60), drift=st.integers(2, 10))
def test_a_session_ends_a_whole_number_of_heartbeats_later(beats: int, drift: int) -> None:
    found = gone(S + beats * (BEAT + drift) + 10)
    assert found[Cause.SESSION_TIMEOUT] > found.get(Cause.MEMBER_LEFT, 0)


@given(beats=st.integers(2, 60), part=st.floats(0.3, 0.9))
def test_between_two_heartbeats_no_session_ends(beats: int, part: float) -> None:
    found = gone(S + round((beats + part) * BEAT))
    assert found[Cause.MEMBER_LEFT] > 0.6
    assert Cause.SESSION_TIMEOUT not in found


def test_within_a_session_timeout_of_a_heartbeat_it_left() -> None:
    assert gone(16)[Cause.MEMBER_LEFT] > 0.6


@pytest.mark.parametrize(("after", "beat"), [(S + 10_000 * BEAT, BEAT), (S + 7_000, 0)])
def test_after_many_heartbeats_or_where_none_is_known_nothing_is_claimed(after: int, beat: int) -> None:
    assert all(share < 0.6 for share in gone(after, beat).values())
