import json
import shutil
from pathlib import Path

import pytest

from rebalance_monitor.coordinator.findings.kinds import Kind
from rebalance_monitor.lab.scenario.limits import overrides
from rebalance_monitor.lab.scenario.scenario import load, names
from rebalance_monitor.lab.scoring.matching import Claim
from rebalance_monitor.lab.scoring.origin import origin
from rebalance_monitor.lab.scoring.page_origin import Origin
from rebalance_monitor.lab.scoring.report import DEVELOPED_ON, page
from rebalance_monitor.lab.scoring.results import Result, pooled
from rebalance_monitor.lab.scoring.scored import LIVE, REPLAY
from rebalance_monitor.lab.suite.accuracy import CORE_FAMILIES, core_jobs, sections
from rebalance_monitor.lab.suite.campaign import FIRST_SEED
from rebalance_monitor.lab.suite.suite import (
    Job,
    broker_for,
    cast_of,
    clusters_for,
    fits,
    jobs_for,
    undisclosed_intervals,
)
from rebalance_monitor.lab.truth.fold import Fact
from rebalance_monitor.lab.truth.recorded_suite import read_suite
from rebalance_monitor.lab.workers.families import FAMILIES

FIXTURES = Path(__file__).parents[2] / "fixtures" / "scenarios"


def test_every_scenario_and_every_family_has_a_partner() -> None:
    pairs = [(name, family) for name in names() for family in FAMILIES if fits(load(name), FAMILIES[family])]
    assert {name for name, _ in pairs} == set(names())
    assert {family for _, family in pairs} == set(FAMILIES)


def test_a_scenario_that_names_its_families_wins_over_a_family_that_names_its_scenarios() -> None:
    assert fits(load("refused-commits"), FAMILIES["raw"])
    assert not fits(load("refused-commits"), FAMILIES["confluent"])
    assert not fits(load("subscription-change"), FAMILIES["java-share"])


def test_what_needs_a_cluster_of_its_own_gets_one_for_all_its_families(tmp_path: Path) -> None:
    jobs = [Job("sigkill", "confluent"), Job("coordinator-moved", "confluent"), Job("freeze", "raw")]
    shared, own = clusters_for([*jobs, Job("coordinator-moved", "aiokafka")])
    assert {job.scenario for job in shared} == {"sigkill", "freeze"}
    assert [job.family for job in own] == ["confluent", "aiokafka"]
    assert broker_for(own, "4.1.1", tmp_path / "a").shape.nodes == 3
    assert broker_for(shared, "4.1.1", tmp_path / "b").shape.proxied
    limited = broker_for([Job("group-max-size", "confluent")], "4.1.1", tmp_path / "c")
    assert limited.shape.extra["group.max.size"] == "2"


def test_the_core_suite_has_all_kinds_of_clients_and_the_full_one_everything() -> None:
    core = core_jobs(CORE_FAMILIES)
    assert {job.family for job in core} >= {*CORE_FAMILIES, "raw", "streams", "java-share", "connect"}
    assert len(core) == len(set(core))
    assert set(core) < set(jobs_for(names(), list(FAMILIES)))


def test_runs_that_the_machine_spoilt_do_not_count_and_are_named(tmp_path: Path) -> None:
    folder = tmp_path / "suite"
    shutil.copytree(FIXTURES / "families-4.1.1", folder)
    about = json.loads((folder / "suite.json").read_text())
    before = read_suite(folder)
    steps = (folder / "runs" / "sigkill.java-share" / "steps.jsonl").read_text().splitlines()
    at = json.loads(steps[-1])["at"]
    about["strains"] = [{"since": at, "until": at, "what": "starved"}]
    (folder / "suite.json").write_text(json.dumps(about))
    after = read_suite(folder)
    assert after.spoilt == {"sigkill.java-share": "starved"}
    assert before.families.keys() - after.families.keys() == {"sigkill.java-share"}


def test_a_connectors_sinks_are_judged_as_a_group_of_their_own() -> None:
    suite = read_suite(FIXTURES / "families-4.1.1")
    assert suite.families["connect-files"] == "connect-sinks"
    assert any(fact.group == "connect-files" for fact in suite.facts)


def test_a_herd_counts_as_that_many_quiet_groups_and_a_migration_as_one_fact() -> None:
    suite = read_suite(FIXTURES / "faults-4.1.1")
    assert sum(group.startswith("quiet-herd.raw.") for group in suite.quiet) == 250
    (migrated,) = (fact for fact in suite.facts if fact.group == "protocol-downgrade.confluent")
    assert migrated.label == Kind.GROUP_MIGRATED


def test_the_page_says_what_ran_where_and_what_lost_members_were_taken_for() -> None:
    scored = pooled("Replay", REPLAY, [Result({}, [], {REPLAY: []}, {})])
    ran = {"4.1.1": {"sigkill": ["confluent", "streams"]}}
    text = page(Origin("make accuracy", ["4.1.1"], [1], 2, 60, ["Left out x: starved."], ran), [scored])
    for wanted in (
        "## What ran on Kafka 4.1.1",
        "| sigkill | confluent, streams |",
        "- Left out x: starved.",
        "No member was lost.",
        "No member was said to be silent.",
    ):
        assert wanted in text


def test_the_page_says_of_the_published_silences_how_many_were_true_and_how_late_they_were() -> None:
    facts = [Fact("cause:session_timeout", "g", 5, "m-1", 111_000)]
    claims = [Claim("member_silent", "g", 4, member, 0.6, 109_700, 108_000) for member in ("m-1", "m-2")]
    # What the job tells in its first minute, as it compiles and loads, says nothing of its delay.
    claims.append(Claim("rebalance", "g", 1, "", 1.0, 30_000, 20_000))
    scored = pooled("Live", LIVE, [Result({"kafka": "4.1.1"}, facts, {LIVE: claims}, {"g": "java"})])
    text = page(Origin("make accuracy", [], [1], 2, 60), [scored])
    assert "| 0.6 | 2 | 1 | 0.50 (0.09-0.91) | 1.7 s / 1.7 s / 1.7 s | 1.3 s |" in text


def test_the_page_says_what_was_recorded_when_with_what_and_judged_by_which_code() -> None:
    herd = {f"many-killed.java-848.{number:03}": "starved" for number in range(15)}
    days = [("3.9.1", 1_795_000_000_000), ("4.1.1", 1_795_300_000_000)]
    results = [
        Result(
            {
                "kafka": kafka,
                "seed": 5,
                "began": began,
                "ended": began + 60_000,
                "skipped": {},
                "software": ["Python 3.11.7"],
                "judged_by": "abc1234",
                "recorded_by": f"of-{kafka}",
            },
            [],
            {REPLAY: []},
            {},
            spoilt=herd,
        )
        for kafka, began in days
    ]
    text = page(origin("make accuracy", results[:1]), [])
    assert "on 2026-11-18, Python 3.11.7." in text
    text = page(origin("make accuracy", results), [])
    assert "for 2 minutes\n  from 2026-11-18 to 2026-11-21, Python 3.11.7." in text
    assert "- Of 2 results these were judged by known code: 2 by the code of abc1234." in text
    recorded = "1 by the code of of-3.9.1, 1 by the code of of-4.1.1"
    assert f"- Of 2 results these were recorded by known code: {recorded}." in text
    assert text.count("- Left out many-killed.java-848 (30 groups): starved.") == 1


def _result(seed: int, *ways: str) -> Result:
    return Result({"seed": seed}, [], {way: [] for way in ways}, {})


def test_seeds_never_examined_before_are_scored_apart() -> None:
    looked_at, fresh = _result(DEVELOPED_ON[0], REPLAY), _result(FIRST_SEED, REPLAY, LIVE)
    assert [one.name for one in sections([looked_at, fresh])] == [
        "The streaming job, live",
        "Replay of the captures, seeds that detection had not seen",
        "Replay of the captures, all",
    ]
    assert [one.name for one in sections([looked_at])] == ["Replay of the captures, all"]
    assert [one.name for one in sections([fresh])] == [
        "The streaming job, live",
        "Replay of the captures, all",
    ]


@pytest.mark.parametrize("name", sorted(path.name for path in FIXTURES.iterdir()))
def test_every_fixture_was_made_by_runs_that_count(name: str) -> None:
    assert read_suite(FIXTURES / name).spoilt == {}


def test_what_runs_beside_others_begins_first_and_ends_last() -> None:
    jobs = jobs_for(["sigkill", "quiet-herd"], ["confluent", "raw"])
    (first, herd), (_, other) = cast_of(jobs, 5, 1.0)
    assert (first.scenario, herd.beside, other.beside) == ("quiet-herd", True, False)
    assert herd.end > 1_000 > other.end
    ((_, alone),) = cast_of(jobs_for(["quiet-herd"], ["raw"]), 5, 1.0)
    assert not alone.beside
    assert alone.end < 1_000


def test_intervals_that_no_record_holds_are_configured_in_the_monitor_as_they_are_recorded() -> None:
    jobs = jobs_for(["many-slow-manual", "many-slow", "sigkill"], ["aiokafka", "kafka-python"])
    found = undisclosed_intervals(jobs, 82)
    assert sorted(found) == [f"many-slow-manual.aiokafka.{number:03d}" for number in range(15)]
    assert (found["many-slow-manual.aiokafka.000"], found["many-slow-manual.aiokafka.002"]) == (8_144, 8_554)
    assert overrides({"g": 8_144}) == [{"pattern": "g", "max_poll_interval": "8144ms"}]
