"""Simulated healthy groups are not accused by their lag; the same harness finds those that stand still."""

from pathlib import Path

from click.testing import CliRunner

from bench.core.quiet_hours import FIRST_SEED, main, played


def test_no_simulated_healthy_group_is_accused_by_its_lag() -> None:
    kept = [played(seed) for seed in range(FIRST_SEED, FIRST_SEED + 10)]
    assert all(not one.false and not one.critical for one in kept)
    assert sum(one.measured for one in kept) > 1_000


def test_the_same_harness_finds_groups_that_stand_still() -> None:
    assert any(played(seed, "production").false for seed in range(FIRST_SEED + 20, FIRST_SEED + 40))


def test_a_run_goes_on_where_the_last_one_stopped(tmp_path: Path) -> None:
    file = tmp_path / "kept.jsonl"
    for hours in ("0.3", "0.6"):
        result = CliRunner().invoke(main, ["--file", str(file), "--hours", hours])
        assert result.exit_code == 0
    seeds = [line.partition(b",")[0] for line in file.read_bytes().splitlines()]
    assert len(set(seeds)) == len(seeds) >= 2
