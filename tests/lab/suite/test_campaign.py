import gzip
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from rebalance_monitor.lab.scenario.limits import CLOSE
from rebalance_monitor.lab.scenario.scenario import names
from rebalance_monitor.lab.scoring.matching import Claim
from rebalance_monitor.lab.scoring.results import Result, keep, keep_as, pooled, read_result
from rebalance_monitor.lab.scoring.scored import REPLAY
from rebalance_monitor.lab.suite import accuracy
from rebalance_monitor.lab.suite import campaign as module
from rebalance_monitor.lab.suite.accuracy import main
from rebalance_monitor.lab.suite.campaign import Campaign, Part, giving, judge_again, keep_going, plan
from rebalance_monitor.lab.suite.exam import everything
from rebalance_monitor.lab.suite.healthy import HERDS
from rebalance_monitor.lab.suite.suite import Job
from rebalance_monitor.lab.truth.fold import Fact
from rebalance_monitor.lab.workers.families import FAMILIES

FIXTURES = Path(__file__).parents[2] / "fixtures" / "scenarios"


def _result(family: str, count: int, group: str = "g") -> Result:
    facts = [Fact("rebalance", group, number, "", 1000) for number in range(count)]
    claims = [Claim("rebalance", group, number, "", 1.0, 2000) for number in range(count - 1)]
    about = {"kafka": "4.1.1", "seed": 1, "began": 0, "ended": 60_000, "skipped": {}}
    return Result(about, facts, {REPLAY: claims}, {group: family}, {REPLAY: 1}, {family: 3_600_000})


def test_a_result_that_was_kept_reads_back_as_it_was(tmp_path: Path) -> None:
    result = _result("confluent", 3)
    judged = replace(result, about={**result.about, "judged_by": "abc1234"})
    keep_as(judged, tmp_path / "results" / "one.json.gz")
    assert read_result(tmp_path / "results" / "one.json.gz") == judged


def scored(*words: str | Path) -> tuple[str, str]:
    """The page, and what was said beside it."""
    done = CliRunner().invoke(main, [str(word) for word in words])
    assert done.exit_code == 0, done.output
    return done.stdout, done.stderr


def test_a_folder_of_kept_results_gives_the_page_that_scoring_gave(tmp_path: Path) -> None:
    kept, suite = tmp_path / "kept", tmp_path / "suite"
    shutil.copytree(FIXTURES / "families-4.1.1", suite)
    first, said = scored("--score", suite, "--keep", kept)
    (path,) = kept.iterdir()
    assert said == f"kept {path}\n"
    assert path.name == "2026-11-21-055909039-4.1.1-seed0-5-groups.json.gz"
    (kept / "notes.txt").write_text("Nobody had looked at them.\n\n")
    again, _ = scored("--score", kept, "--write", tmp_path / "again.md")
    assert "- Nobody had looked at them.\n" in again
    assert (tmp_path / "again.md").read_text() in again
    added = [line for line in again.splitlines(keepends=True) if line not in first.splitlines(keepends=True)]
    for line in added:
        again = again.replace(line, "")
    assert (again, 1 <= len(added) <= 2) == (first, True)


def test_a_result_stays_that_of_the_code_that_judged_it_and_counts_once(tmp_path: Path) -> None:
    plain = _result("confluent", 3)
    path = keep(replace(plain, about={**plain.about, "judged_by": "abc1234"}), tmp_path / "kept")
    twice = ["--score", tmp_path / "kept"] * 2
    page, said = scored(*twice, "--keep", tmp_path / "again")
    assert "1 by the code of abc1234" in page
    assert "counted once: seed 1 on Kafka 4.1.1" in said
    (other,) = (tmp_path / "again").iterdir()
    assert (other.name, other.read_bytes()) == (path.name, path.read_bytes())


@pytest.mark.parametrize("damage", [b"", b"{", gzip.compress(b"[]"), gzip.compress(b'{"facts": [{}]}')])
def test_a_kept_result_that_cannot_be_read_is_named(tmp_path: Path, damage: bytes) -> None:
    (tmp_path / "one.json.gz").write_bytes(damage)
    refused = CliRunner().invoke(main, ["--score", str(tmp_path)])
    assert (refused.exit_code, "one.json.gz cannot be read" in refused.output) == (1, True), refused.output


def test_a_folder_without_a_suite_or_results_is_refused_by_name(tmp_path: Path) -> None:
    refused = CliRunner().invoke(main, ["--score", str(tmp_path)])
    assert refused.exit_code == 1
    assert f"{tmp_path} is neither a suite (no suite.json) nor holds results" in refused.output


def test_suites_with_the_same_group_names_are_pooled_apart() -> None:
    one = pooled("x", REPLAY, [_result("confluent", 3), _result("confluent", 5)])
    tally = one.tallies["rebalance", "confluent"]
    assert (tally.facts, tally.detected, one.noise, one.quiet_hours) == (8, 6, 2, {"confluent": 2.0})


def test_only_what_gave_a_poor_cell_its_truths_runs_again() -> None:
    about = {"kafka": "4.1.1", "seed": 1}
    families = {
        "sigkill.confluent-848": "confluent-848",
        "many-killed.confluent.003": "confluent",
        "healthy.confluent": "confluent",
        "connect-orders": "connect-sinks",
    }
    facts = [Fact("rebalance", group, 1, "", 1000) for group in families]
    results = [Result(about, facts, {REPLAY: []}, families, limits={"healthy.confluent": CLOSE})]
    every = ("sigkill", "many-killed", "healthy", "connect-tasks")
    jobs = [Job(name, family) for name in every for family in ("confluent", "confluent-848", "connect")]
    assert giving({("rebalance", "confluent-848", "")}, results, jobs) == [Job("sigkill", "confluent-848")]
    assert giving({("rebalance", "confluent", "")}, results, jobs) == [
        Job("many-killed", "confluent"),
        Job("healthy", "confluent"),
    ]
    assert {job.family for job in giving({("rebalance", "connect-sinks", "")}, results, jobs)} == {"connect"}
    assert giving({("storm", "confluent", "")}, results, jobs) == []
    assert giving({("rebalance", "confluent", CLOSE)}, results, jobs) == [Job("healthy", "confluent")]


PARTS = [
    Part("watched", "4.1.1", (Job("sigkill", "confluent"), Job("healthy", "aiokafka")), live=True, clients=3),
    Part("version", "2.8.2", (Job("healthy", "aiokafka"),)),
]


class Recorder:
    """Instead of a broker and its clients: each suite has as many truths as are asked for, of one family."""

    def __init__(self, truths: int, stops_after: int = 1000) -> None:
        self.truths, self.stops_after = truths, stops_after
        self.ran: list[tuple[str, int, bool, int, tuple[Job, ...]]] = []

    def __call__(
        self,
        jobs: Sequence[Job],
        folder: Path,
        version: str,
        seed: int,
        *,
        live: bool,
        clients: int,
        jvms: int,
    ) -> list[Path]:
        if len(self.ran) == self.stops_after:
            raise KeyboardInterrupt
        assert jvms > 0
        self.ran.append((version, seed, live, clients, tuple(jobs)))
        return [folder]


def recorded(monkeypatch: pytest.MonkeyPatch, recorder: Recorder) -> Recorder:
    monkeypatch.setattr(module, "read_suite", lambda folder: folder)
    monkeypatch.setattr(
        module, "result_of", lambda _: _result("confluent", recorder.truths, "sigkill.confluent")
    )
    return recorder


def test_a_campaign_runs_every_part_and_then_what_gives_poor_cells_their_truths(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = recorded(monkeypatch, Recorder(truths=15))
    campaign = Campaign(tmp_path / "suites", tmp_path / "results", 1, first_seed=81, enough=40)
    results = keep_going(campaign, PARTS, run)
    assert run.ran == [
        ("4.1.1", 81, True, 3, PARTS[0].jobs),
        ("2.8.2", 81, False, PARTS[1].clients, PARTS[1].jobs),
        ("4.1.1", 82, True, 3, (Job("sigkill", "confluent"),)),
    ]
    assert sum(len(result.facts) for result in results) == 45
    assert keep_going(campaign, PARTS, run) == results
    assert len(run.ran) == 3


def test_a_campaign_asks_before_each_part_what_is_still_wanted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = recorded(monkeypatch, Recorder(truths=20))
    both = [Part(name, "4.1.1", (Job("sigkill", "confluent"),)) for name in ("herds", "watched")]
    keep_going(Campaign(tmp_path / "suites", tmp_path / "results", 1, first_seed=81, enough=60), both, run)
    assert [seed for _, seed, *_ in run.ran] == [81, 81, 82]


def test_judging_again_records_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keep_as(_result("confluent", 3), tmp_path / "results" / "herds-4.1.1-seed81-shared.json.gz")
    monkeypatch.setattr(accuracy, "run", Recorder(truths=0, stops_after=0))
    folders = ["--folder", tmp_path / "accuracy", "--keep", tmp_path / "results"]
    page, _ = scored("--full", "--again", *folders)
    assert "Seeds: 1." in page


def test_a_campaign_that_was_stopped_goes_on_with_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = recorded(monkeypatch, Recorder(truths=20, stops_after=1))
    campaign = Campaign(tmp_path / "suites", tmp_path / "results", 1, enough=40)
    with pytest.raises(KeyboardInterrupt):
        keep_going(campaign, PARTS, run)
    run.stops_after = 1000
    assert len(keep_going(campaign, PARTS, run)) == 2
    assert [version for version, *_ in run.ran] == ["4.1.1", "2.8.2"]


def test_what_was_kept_is_judged_again_where_its_suite_is_still_there(tmp_path: Path) -> None:
    name = "herds-4.1.1-seed0-many-killed"
    suites, results = tmp_path / "suites", tmp_path / "results"
    shutil.copytree(FIXTURES / "families-4.1.1", suites / f"{name}-1795483627" / "shared")
    # A longer name begins like this one.
    (suites / f"{name}-manual-1795483628" / "shared").mkdir(parents=True)
    (suites / f"{name}-manual-1795483628" / "shared" / "suite.json").write_text("{}")
    gone = _result("confluent", 3)
    for kept_name in (name, "version-2.8.2-seed0-shared"):
        keep_as(replace(gone, about={**gone.about, "judged_by": "old"}), results / f"{kept_name}.json.gz")
    again = judge_again(Campaign(suites, results, 0))
    assert [len(result.families) for result in again] == [5, 1]
    assert again[0].about["judged_by"] != "old" == again[1].about["judged_by"]


def test_when_the_hours_are_over_nothing_new_begins(tmp_path: Path) -> None:
    run = Recorder(truths=0, stops_after=0)
    assert keep_going(Campaign(tmp_path, tmp_path / "results", 0), PARTS, run) == []


def test_the_plan_has_every_scenario_and_family_and_each_version_that_the_lab_supports() -> None:
    jobs = {job for part in plan() for job in part.jobs}
    healthy = {name for names_of_herd in HERDS.values() for name in names_of_herd}
    assert {job.scenario for job in jobs} | {job.scenario for job in everything()} | healthy == set(names())
    assert {job.family for job in jobs} == set(FAMILIES)
    assert len({part.version for part in plan()}) == 6
