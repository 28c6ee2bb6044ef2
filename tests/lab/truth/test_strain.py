import time

from rebalance_monitor.lab.truth.recorded_suite import _is_felt
from rebalance_monitor.lab.truth.strain import AFTER_MS, LATE_MS, Pulse, Strain, fences
from rebalance_monitor.lab.workers.timings import Timing

JAVA = (
    "2026-11-21T06:14:07.156Z INFO org.apache.kafka.controller.BrokerHeartbeatManager "
    "[QuorumController id=1] Fencing broker 2 at epoch 17 because its session has timed out."
)
SCALA = JAVA.replace(" at epoch 17", "")


def test_a_fence_is_read_from_the_controllers_log() -> None:
    found = fences(["2026-11-21T06:14:07.100Z INFO x something else", JAVA, SCALA])
    assert [one.what for one in found] == ["fenced", "fenced"]
    assert found[0].since == found[0].until == 1795241647156


def test_a_strain_spoils_what_ran_then_and_what_began_while_sessions_of_that_time_still_ran() -> None:
    strain = Strain(10_000, 12_000, "starved")
    assert strain.spoils(0, 10_000)
    assert strain.spoils(11_000, 11_500)
    assert strain.spoils(12_000 + AFTER_MS, 99_000)
    assert not strain.spoils(0, 9_999)
    assert not strain.spoils(12_001 + AFTER_MS, 99_000)


def test_a_pulse_that_is_not_held_up_is_not_late() -> None:
    with Pulse() as pulse:
        time.sleep(0.7)
    assert all(one.what == "starved" and one.since < one.until for one in pulse.late)
    assert pulse.worst_ms >= 0


def test_how_long_the_machine_may_be_away_depends_on_the_session() -> None:
    long, short = (Timing(session, 3_000, 1_000, 60_000, "auto") for session in (45_000, 10_000))
    absence, moment = Strain(0, 5_000, "starved"), Strain(0, LATE_MS, "starved")
    assert (_is_felt(absence, long), _is_felt(absence, short)) == (False, True)
    assert (_is_felt(moment, short), _is_felt(moment, None)) == (False, True)
    assert _is_felt(Strain(7, 7, "fenced"), long)
