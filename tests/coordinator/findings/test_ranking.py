"""The order of causes, and how much of a rebalance stays unknown."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.finding import MAJORITY, MAX_CAUSES, CauseEntry, ranked

CAUSES = st.sampled_from([Cause.MEMBER_LEFT, Cause.SESSION_TIMEOUT, Cause.POLL_INTERVAL_EXCEEDED])


@st.composite
def members(draw: st.DrawFn) -> list[CauseEntry]:
    """Up to four members that went, with shares of causes that exclude each other."""
    found = []
    for name in range(draw(st.integers(0, 4))):
        chosen = draw(st.lists(CAUSES, min_size=1, max_size=3, unique=True))
        left = 100
        for cause in chosen:
            share = draw(st.integers(1, max(1, left - len(chosen))))
            left -= share
            found.append(CauseEntry(cause, share / 100, "why", f"m{name}"))
    return found


@given(members())
def test_causes_of_one_member_and_what_is_unknown_never_sum_up_to_more_than_one(
    found: list[CauseEntry],
) -> None:
    told = ranked(found)
    unknown = sum(entry.confidence for entry in told if entry.cause is Cause.UNKNOWN)
    for member in {entry.member_id for entry in found}:
        assert sum(entry.confidence for entry in told if entry.member_id == member) + unknown <= 1.005
    named = [entry.confidence for entry in told if entry.cause is not Cause.UNKNOWN]
    assert named == sorted((entry.confidence for entry in found), reverse=True)
    assert not unknown or max(named, default=0.0) < MAJORITY


def test_causes_are_bounded_and_nothing_at_all_is_unknown() -> None:
    many = [CauseEntry(Cause.MEMBER_JOINED, 0.9, "why", f"m{n}") for n in range(3 * MAX_CAUSES)]
    assert len(ranked(many)) == MAX_CAUSES
    assert [(entry.cause, entry.confidence) for entry in ranked([])] == [(Cause.UNKNOWN, 1.0)]
