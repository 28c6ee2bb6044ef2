from itertools import islice
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from rebalance_monitor.lab.scenario.group_run import hosts_of
from rebalance_monitor.lab.scenario.scenario import load, varied
from rebalance_monitor.lab.scoring.margins import ALL, Row, margins, table
from rebalance_monitor.lab.scoring.matching import Claim
from rebalance_monitor.lab.scoring.results import REPLAY, Result
from rebalance_monitor.lab.suite import accuracy, exam
from rebalance_monitor.lab.suite.campaign import Part
from rebalance_monitor.lab.suite.exam import SHARES, VERSIONS, everything, main, parts, share
from rebalance_monitor.lab.suite.suite import clusters_for
from rebalance_monitor.lab.truth.fold import Fact
from rebalance_monitor.lab.workers.families import FAMILIES
from rebalance_monitor.lab.workers.timings import HEARTBEATS_S, SESSIONS_S, WAYS, Timing, drawn

LONGEST_S = 25 * 60


@given(st.text(max_size=8), st.integers(1, 60))
def test_drawn_timings_are_what_every_client_accepts_and_read_back(salt: str, count: int) -> None:
    found = list(drawn(count, salt))
    assert found == list(drawn(count, salt))
    assert [Timing.read(str(one)) for one in found] == found
    for one in found:
        assert one.heartbeat_ms * 3 <= one.session_ms <= one.poll_ms
        # Who works on a batch for as long as that polls in time.
        assert one.processing_s * 2000 < one.poll_ms


@pytest.mark.parametrize("family", ["confluent-848", "java-848"])
def test_the_broker_sets_sessions_of_the_consumer_protocol_in_every_timing(family: str) -> None:
    scenario = varied(load("production-losses"), 301, family=family)
    timings = [Timing.read(text) for text in scenario.settings["timings"].split(",")]
    assert {(one.session_ms, one.heartbeat_ms) for one in timings} == {(45_000, 5_000)}
    assert all(one.poll_ms >= one.session_ms for one in timings)
    assert len({one.way for one in timings}) == len(WAYS)


@given(st.text(max_size=8))
def test_sixteen_groups_have_every_session_timeout_in_every_way_of_committing(salt: str) -> None:
    found = list(drawn(len(SESSIONS_S) * len(WAYS), salt))
    assert {(one.session_ms // 1000, one.way) for one in found} == {
        (session, way) for session in SESSIONS_S for way in WAYS
    }


def test_some_groups_commit_more_seldom_than_their_session_lasts_and_most_do_not() -> None:
    found = [one for seed in range(100) for one in drawn(8, str(seed))]
    seldom = sum(one.commit_ms > one.session_ms for one in found)
    assert 0 < seldom < len(found) / 5
    assert {one.heartbeat_ms // 1000 for one in found} == set(HEARTBEATS_S)


@pytest.mark.parametrize("seed", range(301, 307))
def test_a_seed_is_over_within_25_minutes_and_every_stall_outlasts_every_poll_interval(seed: int) -> None:
    for job in everything():
        scenario = varied(load(job.scenario), seed, family=job.family)
        assert scenario.end < LONGEST_S
        assert [step.at for step in scenario.steps] == sorted(step.at for step in scenario.steps)
        polls = [Timing.read(text).poll_ms for text in scenario.settings["timings"].split(",")]
        for step in scenario.steps:
            if step.verb == "stall":
                assert float(str(step.options["seconds"])) * 1000 > max(polls) + max(HEARTBEATS_S) * 1000


@pytest.mark.parametrize("seed", range(301, 311))
def test_a_pod_is_replaced_before_the_old_session_ends_and_another_one_after(seed: int) -> None:
    scenario = varied(load("production-losses"), seed, family="confluent")
    steps = [step for step in scenario.steps if step.verb in {"kill", "move"}]
    (killed, soon), (lost, late) = steps[:2], steps[2:4]
    assert soon.at - killed.at < min(SESSIONS_S)
    assert late.at - lost.at > max(SESSIONS_S)


def test_every_share_is_another_one_and_together_they_are_everything_with_an_outage_in_each() -> None:
    shares = [share(seed) for seed in range(301, 301 + SHARES)]
    assert {job for one in shares for job in one} == set(everything())
    for one in shares:
        assert any(job.scenario == "production-outage" for job in one)
        assert len(clusters_for(one)) == 1
    built = {"sarama", "franz-go", "kafka-go", "kafkajs"}
    played = {job.family for job in everything()}
    assert built <= played <= set(FAMILIES)


def test_the_shares_go_round_on_every_version() -> None:
    found = list(islice(parts(301, VERSIONS), SHARES * len(VERSIONS)))
    assert [seed for seed, _ in found] == list(range(301, 301 + len(found)))
    for version in VERSIONS:
        jobs = {job for _, part in found if part.version == version for job in part.jobs}
        assert jobs == set(everything())


def test_an_exam_records_seed_after_seed_until_it_has_as_many_as_are_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[int, str]] = []

    def record(campaign: object, run: object, part: Part, seed: int, jobs: object) -> Path:
        assert run is accuracy.run
        assert (campaign, jobs) != (None, ())
        asked.append((seed, part.version))
        return tmp_path

    monkeypatch.setattr(exam, "record", record)
    done = CliRunner().invoke(main, ["--folder", str(tmp_path), "--seed", "301", "--seeds", "4"])
    assert done.exit_code == 0, done.output
    assert asked == [(301, "4.1.1"), (302, "4.1.1"), (303, "4.1.1"), (304, "3.9.1")]


def test_margins_count_each_loss_in_every_class_of_its_group_and_leave_out_what_the_machine_spoilt() -> None:
    timing = Timing(45_000, 10_000, 60_000, 90_000, "timer")
    label = "cause:session_timeout"
    facts = [Fact(label, group, 5, f"m-{group}", 1_000) for group in ("g", "h", "starved", "fast")]
    claims = [
        Claim(label, "g", 5, "m-g", 0.9, 2_000),
        Claim(label, "h", 5, "m-h", 0.7, 2_000),
        Claim(label, "h", 5, "m-other", 0.8, 2_000),
        Claim("cause:member_joined", "h", 5, "m-other", 0.9, 2_000),
    ]
    result = Result(
        {"kafka": "4.1.1"},
        facts,
        {REPLAY: claims},
        {"g": "sarama, manual", "h": "kafkajs", "fast": "confluent"},
        timings=dict.fromkeys(("g", "h", "starved"), str(timing)),
    )
    rows = {margin: row for (what, margin), row in margins([result]).items() if what == "session timeouts"}
    assert rows[ALL] == Row(truths=2, found=1, claims=2, true=1)
    assert rows["family", "sarama"] == Row(truths=1, found=1, claims=1, true=1)
    for margin in (
        ("session timeout", "45 s"),
        ("poll interval", "90 s"),
        ("heartbeat", "10 s"),
        ("commits", "timer"),
        ("commits come", "more seldom"),
        ("Kafka", "4.1.1"),
    ):
        assert rows[margin] == rows[ALL]
    assert "| session timeouts | commits | timer | 2 | 0.50 (0.09-0.91) | 2 | 0.50 (0.09-0.91) |" in table(
        margins([result, Result({"kafka": "4.1.1"}, [], {REPLAY: []}, {})])
    )


def test_the_pods_of_a_group_have_hosts_of_their_own() -> None:
    one, other = (list(islice(hosts_of(group), 20)) for group in ("a.confluent", "a.sarama"))
    assert len({*one, *other}) == 40
    assert "127.0.0.1" not in one
