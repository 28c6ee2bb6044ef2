from collections.abc import Sequence
from pathlib import Path

import pytest

from rebalance_monitor.lab import campaign as module
from rebalance_monitor.lab.campaign import Campaign, keep_going, poor_families
from rebalance_monitor.lab.foldstate import Fact
from rebalance_monitor.lab.matching import Claim
from rebalance_monitor.lab.results import REPLAY, Result, pooled, read_result, write_result
from rebalance_monitor.lab.suite import Job


def _result(family: str, count: int) -> Result:
    facts = [Fact("rebalance", "g", number, "", 1000) for number in range(count)]
    claims = [Claim("rebalance", "g", number, "", 1.0, 2000) for number in range(count - 1)]
    about = {"kafka": "4.1.1", "seed": 1, "began": 0, "ended": 60_000, "skipped": {}}
    return Result(about, facts, {REPLAY: claims}, {"g": family}, {REPLAY: 1}, 3_600_000)


def test_a_result_that_was_kept_reads_back_as_it_was(tmp_path: Path) -> None:
    write_result(_result("confluent", 3), tmp_path / "results" / "one.json")
    assert read_result(tmp_path / "results" / "one.json") == _result("confluent", 3)


def test_suites_with_the_same_group_names_are_pooled_apart() -> None:
    one = pooled("x", REPLAY, [_result("confluent", 3), _result("confluent", 5)])
    tally = one.tallies["rebalance", "confluent"]
    assert (tally.facts, tally.detected, one.noise, one.quiet_hours) == (8, 6, 2, 2.0)


def test_only_families_with_too_few_truths_run_again(tmp_path: Path) -> None:
    campaign = Campaign(tmp_path, 1, enough=4)
    write_result(_result("confluent", 3), tmp_path / "results" / "one.json")
    write_result(_result("aiokafka", 4), tmp_path / "results" / "two.json")
    write_result(_result("connect-sinks", 1), tmp_path / "results" / "three.json")
    assert poor_families(campaign) == ("confluent", "connect")


def test_a_campaign_goes_on_where_it_stopped_and_ends_when_there_is_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[tuple[str, int]] = []

    def run(
        jobs: Sequence[Job], folder: Path, version: str, seed: int, *, live: bool, pace: float
    ) -> list[Path]:
        assert (live, version, bool(jobs)) == (True, "4.1.1", True)
        assert pace == (7.5 if seed % 3 == 0 else 1.0)
        ran.append((folder.name, seed))
        return [folder]

    monkeypatch.setattr(module, "read_suite", lambda folder: folder)
    monkeypatch.setattr(module, "result_of", lambda _: _result("confluent", 3))
    campaign = Campaign(tmp_path, 1, versions=("4.1.1",), families=("confluent",), enough=40)
    results = keep_going(campaign, run)
    assert sum(len(result.facts) for result in results) >= 40
    assert len(ran) == len(set(ran)) == len(results)
    before = len(ran)
    assert len(keep_going(campaign, run)) == len(results)
    assert len(ran) == before


def test_when_the_hours_are_over_nothing_new_begins(tmp_path: Path) -> None:
    def run(*_: object, **__: object) -> list[Path]:
        raise AssertionError

    assert keep_going(Campaign(tmp_path, 0), run) == []
