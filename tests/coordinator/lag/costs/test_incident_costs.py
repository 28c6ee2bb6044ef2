"""What an incident costs: the records that waited for it, its severity by them, when the group caught up."""

from dataclasses import replace

import pytest

from rebalance_monitor.coordinator.findings.kinds import Kind, Scope, Severity
from rebalance_monitor.coordinator.lag.costs.incidents import USUAL_MS, RollUpCosts
from rebalance_monitor.coordinator.lag.measured import TOTALS_KEPT
from tests.coordinator.lag.world import STEP, T0, World, finding, summary


def test_a_rebalance_is_given_what_waited_for_it() -> None:
    world = World()
    world.run(20)
    stopped = world.at
    world.run(6, reads=(), rebalancing=True)
    (told,) = world.lag.priced(
        [
            finding(
                Kind.REBALANCE,
                world.at,
                None,
                started_at_min=stopped,
                stopped_ms_min=1_000,
                stopped_ms_max=30_000,
                # One member left: all partitions stood still, not its own alone.
                partitions_affected=1,
            )
        ]
    )
    assert told.details["waiting_at_stop"] == 0
    assert told.details["waiting_peak"] == 6 * 4 * 10
    assert told.details["partition_seconds"] == 4 * 30.0


def test_an_empty_group_becomes_a_warning_as_records_wait_and_says_when_it_caught_up() -> None:
    world = World()
    world.run(20)
    gone = finding(Kind.GROUP_EMPTY, world.at, "opened", opened_at=world.at)
    left = finding(Kind.GROUP_EMPTY, world.at, "opened", incident="j", details={"ended_by": "leave"})
    told = world.lag.priced([gone, left])
    assert [one.severity for one in told] == [Severity.INFO] * 2
    world.run(4, reads=(), said=summary("Empty", members=0))
    (warned,) = [one for one in world.found if one.kind is Kind.GROUP_EMPTY]
    assert (warned.phase, warned.severity, warned.incident) == ("updated", Severity.WARNING, "i")
    world.run(3)
    caught = [one for one in world.found if one.details.get("caught_up_at")]
    assert {one.incident for one in caught} == {"i", "j"}
    resolved = finding(Kind.GROUP_EMPTY, world.at, "resolved")
    (over,) = world.lag.priced([resolved])
    assert over.details["waiting_peak"] == 4 * 4 * 10
    assert over.details["caught_up_at"] == world.at - 2 * STEP


@pytest.mark.parametrize(("rate", "severity"), [(0, Severity.WARNING), (10, Severity.CRITICAL)])
def test_a_storm_is_as_bad_as_what_waits_for_it(rate: int, severity: Severity) -> None:
    world = World()
    world.run(20)
    began = world.at
    world.run(6, reads=(), rate=rate, rebalancing=True)
    (told,) = world.lag.priced([finding(Kind.STORM, world.at, "opened", opened_at=began)])
    assert told.severity is severity


@pytest.mark.parametrize("kind", [Kind.STORM, Kind.REBALANCE_STUCK])
@pytest.mark.parametrize(("reads", "severity"), [((), Severity.CRITICAL), ((0, 1, 2, 3), Severity.INFO)])
def test_a_group_that_is_empty_when_its_storm_ends_is_as_severe_while_records_wait(
    kind: Kind, reads: tuple[int, ...], severity: Severity
) -> None:
    """It crash loops for ten minutes, and then nobody starts it any more."""
    world = World()
    world.run(20)
    opened = finding(kind, world.at, "opened", opened_at=world.at, incident="s")
    world.run(3, reads=(), rebalancing=True)
    world.lag.priced([opened])
    world.run(TOTALS_KEPT + 10, reads=(), rebalancing=True)
    empty = finding(Kind.GROUP_EMPTY, world.at, "opened", opened_at=world.at, details={"ended_by": "leave"})
    (left,) = world.lag.priced([empty])
    assert left.severity is Severity.INFO
    world.run(6, reads=reads, said=summary("Empty", members=0))
    told = world.lag.priced([replace(opened, id="r", phase="resolved", at=world.at, resolution="quiet")])
    assert [one.severity for one in told[1:]] == [severity] * (severity is Severity.CRITICAL)
    again = replace(empty, id="a", phase="updated", at=world.at)
    (told_again,) = world.lag.priced([again])
    assert told_again.severity is severity
    world.run(3, reads=(), said=summary("Empty", members=0), anew=True)
    (over,) = world.lag.priced([replace(empty, id="o", phase="resolved", at=world.at)])
    assert over.details["waiting_at_stop"] == (0 if severity is Severity.CRITICAL else 5320)


def test_a_storm_that_lasts_for_longer_than_totals_are_kept_is_no_page_for_what_always_waits() -> None:
    world = World()
    world.commit({0: 80})
    world.run(20, reads=(1, 2, 3), rate=0)
    opened = finding(Kind.STORM, world.at, "opened", opened_at=world.at)
    told = world.lag.priced([opened])
    world.run(TOTALS_KEPT + 10, reads=(1, 2, 3), rate=0)
    told += world.lag.priced([replace(opened, id="u", phase="updated", at=world.at)])
    assert [one.severity for one in told] == [Severity.WARNING] * 2


def test_without_ends_a_storm_is_what_it_was() -> None:
    (told,) = World().lag.priced([finding(Kind.STORM, T0, "opened", opened_at=T0)])
    assert (told.severity, told.details) == (Severity.CRITICAL, {})


def test_the_most_that_waited_is_never_less_than_what_waited_at_the_stop() -> None:
    """The group was catching up as it stopped, and nothing is left a sample later."""
    world = World()
    world.run(20)
    world.run(6, reads=())
    stopped = world.at
    world.run(6)
    (told,) = world.lag.priced([finding(Kind.REBALANCE, world.at, None, started_at_min=stopped)])
    assert (told.details["waiting_at_stop"], told.details["waiting_peak"]) == (240, 240)


def test_nor_is_that_of_many_groups() -> None:
    world = World()
    world.run(20)
    world.run(6, reads=())
    stopped = world.at
    world.run(6)
    one = finding(Kind.SESSION_TIMEOUT, stopped, "opened", opened_at=stopped + USUAL_MS)
    many = replace(one, scope=Scope.CLUSTER, groups=("g",))
    told = RollUpCosts().price(many, world.lag.board.groups)
    assert (told.details["waiting_at_stop"], told.details["waiting_peak"]) == (240, 240)
