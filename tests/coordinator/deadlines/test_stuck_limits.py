"""From when on a join phase warns, and pages: never while a dead member's session explains it."""

from hypothesis import given
from hypothesis import strategies as st

from rebalance_monitor.coordinator.deadlines.stuck_limits import LEAST_MS, MOST_MS, limits
from rebalance_monitor.coordinator.findings.kinds import Kind, Severity
from rebalance_monitor.coordinator.live import Live
from rebalance_monitor.coordinator.settings import DetectionSettings
from tests.coordinator.support.looks import SETTINGS, SUMMARY, look

TIMEOUTS = st.integers(6_000, 600_000)


def told(session: int, rebalance: int, lasts: int, settings: DetectionSettings = SETTINGS) -> list[Severity]:
    """The severities published for a join phase of so many ms, by samples a second apart."""
    members = [
        {**one, "session_timeout_ms": session, "rebalance_timeout_ms": rebalance}
        for one in SUMMARY["member_list"]  # type: ignore[attr-defined]
    ]
    looks = [look(at, seen=at < 9_000 + lasts) for at in range(9_000, 11_000 + lasts, 1_000)]
    found = Live(settings, "c1").on_samples(looks, {"g": {**SUMMARY, "member_list": members}})
    return [one.severity for one in found if one.kind is Kind.REBALANCE_STUCK and one.phase != "resolved"]


@given(session=TIMEOUTS, rebalance=TIMEOUTS)
def test_it_warns_at_half_of_the_rebalance_timeout_and_pages_once_no_death_explains_it(
    session: int, rebalance: int
) -> None:
    found = limits(SETTINGS, [session], [rebalance])
    assert found.warns == min(max(rebalance // 2, LEAST_MS), MOST_MS)
    assert found.pages >= found.warns
    assert found.pages >= min(session, rebalance)
    assert found.pages <= max(found.warns, rebalance)


@given(session=st.integers(20, 90), beat=st.floats(0.1, 1 / 3))
def test_a_pod_that_is_replaced_never_pages(session: int, beat: float) -> None:
    """The old session ends a session timeout after its last heartbeat, which may come as the phase begins."""
    held = int(session * 1_000 * (1 + beat))
    assert Severity.CRITICAL not in told(
        session * 1_000, 300_000, held if held > MOST_MS else MOST_MS - 1_000
    )


def test_a_member_that_lives_and_does_not_rejoin_pages_though_its_rebalance_timeout_is_60_s() -> None:
    assert told(10_000, 60_000, 25_000) == []
    assert told(30_000, 60_000, 35_000) == [Severity.WARNING]
    assert told(30_000, 60_000, 58_000) == [Severity.WARNING, Severity.CRITICAL]
    assert told(45_000, 300_000, 100_000) == [Severity.CRITICAL]


def test_what_is_configured_wins() -> None:
    patient = DetectionSettings(stuck_after_ms=300_000)
    assert told(10_000, 60_000, 250_000, patient) == []
    assert told(10_000, 600_000, 301_000, patient) == [Severity.CRITICAL]


def test_of_a_group_without_known_timeouts_nothing_is_claimed_for_a_minute() -> None:
    assert limits(SETTINGS, [], []) == (MOST_MS, MOST_MS)
