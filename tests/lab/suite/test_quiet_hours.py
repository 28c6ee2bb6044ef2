"""Simulated healthy groups are not accused by their lag; the same harness finds those that stand still."""

from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from click.testing import CliRunner

from bench.core.quiet_hours import FIRST_SEED, Quiet, accused, lost_a_member, main, played, report
from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.finding import CauseEntry, Finding, make
from rebalance_monitor.coordinator.findings.kinds import Kind
from rebalance_monitor.decoders.rows import COMMIT_RUN, commit_run
from rebalance_monitor.lab.simulator import draw_plan, simulate
from rebalance_monitor.lab.simulator.plans.plan import Mode
from rebalance_monitor.lab.simulator.truth import Removed


def test_no_simulated_healthy_group_is_accused_by_its_lag() -> None:
    kept = [played(seed) for seed in range(FIRST_SEED, FIRST_SEED + 10)]
    assert all(not one.false and not one.critical for one in kept)
    assert sum(one.measured for one in kept) > 1_000


@pytest.mark.parametrize("seed", [2_000_369, 2_000_530, 2_000_542])
def test_no_member_of_a_group_that_is_closed_as_a_whole_is_accused(seed: int) -> None:
    assert played(seed).false == {}


@pytest.mark.parametrize("seed", [2_001_966, 2_002_247])
def test_a_broker_that_stops_for_more_than_a_minute_accuses_no_member(seed: int) -> None:
    plan = draw_plan(Random(seed), "healthy")  # noqa: S311 - a simulation
    assert max(lasts for _, lasts, _ in plan.broker.outages) > 60_000
    kept = played(seed)
    assert (kept.false, kept.critical) == ({}, 0)
    assert kept.measured > 100


def test_a_simulated_member_that_joins_without_partitions_consumes_once_it_has_some() -> None:
    seed = 2_000_185
    made = simulate(draw_plan(Random(seed), "healthy"), seed)  # noqa: S311 - a simulation
    (group,) = made.plan.groups
    assert group.modern
    assert {client.mode for client in group.clients} == {Mode.PER_RECORD}
    runs = [commit_run(row) for row in made.rows if row.row_kind == COMMIT_RUN]
    late = made.plan.epoch + made.plan.length - 60_000
    committed = {place for run in runs if run.commit_ts > late for place in run.partitions()}
    assert len(committed) == group.partitions * len(group.topics)


def test_the_same_harness_finds_groups_that_stand_still() -> None:
    assert any(played(seed, "production").false for seed in range(FIRST_SEED + 20, FIRST_SEED + 40))


def test_a_run_goes_on_where_the_last_one_stopped(tmp_path: Path) -> None:
    file = tmp_path / "kept.jsonl"
    for hours in ("0.3", "0.6"):
        result = CliRunner().invoke(main, ["--file", str(file), "--hours", hours, "--groups", "1"])
        assert result.exit_code == 0
    seeds = [line.partition(b",")[0] for line in file.read_bytes().splitlines()]
    assert len(set(seeds)) == len(seeds) >= 2


def test_the_report_bounds_the_rate_by_what_was_counted() -> None:
    quiet, false = Quiet(1, 24_000.0, 0, {}), Quiet(2, 0.0, 0, {"session_timeout": 1})
    assert "none; at most 3.00; critical: 0." in report([quiet])
    assert "session_timeout 1 (1.0); at most 4.74" in report([quiet, false])


def test_groups_are_counted_by_closes_where_they_were_closed_and_by_hours_before() -> None:
    said = report([Quiet(1, 240_000.0, 0, {}, closed=4_000, at_close=1, before=5)])
    assert "1 as they were closed, in 1,000 0.25, at most 1.19" in said
    assert "5 before, in 1,000 group-days 0.50, at most 1.05" in said
    assert said.endswith("closed once a day 0.75 in 1,000 group-days")


def test_a_member_that_closes_while_its_broker_is_away_does_expire() -> None:
    kept = played(2_701_020, groups=100)
    assert (kept.false, kept.at_close, kept.before) == ({}, 0, 0)
    assert kept.removed > 1


def warned(at: int, member: str, kind: Kind = Kind.SESSION_TIMEOUT) -> Finding:
    causes = (CauseEntry(Cause.SESSION_TIMEOUT, 0.9, "", member_id=member),)
    return make(
        kind, cluster="c", anchor=f"{at}", group="g", at=at, causes=causes, evidence="suspected", details={}
    )


def test_a_removal_confirms_only_warnings_that_blame_no_other_member() -> None:
    seed = 2_701_020
    made = simulate(draw_plan(Random(seed), "healthy"), seed)  # noqa: S311 - a simulation
    like, *_ = made.truth.removals
    lost = replace(like, group="g", member="it", at=1_000.0, cause=Removed.EXPIRED)
    assert lost_a_member(warned(2_000, "it"), [lost])
    assert not lost_a_member(warned(2_000, "another"), [lost])
    assert not lost_a_member(warned(2_000, "it", Kind.CONSUMPTION_STOPPED), [lost])
    assert not lost_a_member(warned(2_000, "it"), [replace(lost, cause=Removed.LEFT)])
    assert not lost_a_member(warned(200_000, "it"), [lost])


def test_a_group_that_is_accused_before_and_as_it_is_closed_counts_in_both() -> None:
    false = [warned(at, "it") for at in (1_000, 5_000, 6_000)]
    assert accused(false, {"g": 5_000.0}) == ({"g"}, {"g"})
    assert accused(false, {"g": 9_000.0}) == ({"g"}, set())
