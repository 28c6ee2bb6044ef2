import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalance_monitor.decoders.embedded.consumer import decode_assignment, decode_subscription
from rebalance_monitor.lab.cluster.broker import LabBroker
from rebalance_monitor.lab.scenario.runner import Run, Together
from rebalance_monitor.lab.scenario.scenario import parse
from rebalance_monitor.lab.scenario.traffic import Traffic
from rebalance_monitor.lab.workers.families import FAMILIES
from rebalance_monitor.lab.workers.flags import Flags, group_names
from rebalance_monitor.lab.workers.raw import assigned_partitions, assignment, subscription

OLD_GENERATION, IN_PROGRESS = 22, 27
NAMES = st.text(st.characters(codec="ascii", min_codepoint=33), min_size=1, max_size=20)


@given(st.lists(NAMES, min_size=1, max_size=5), st.binary(max_size=10))
def test_a_subscription_reads_back_as_every_client_reads_it(topics: list[str], remark: bytes) -> None:
    found = decode_subscription(subscription(topics, remark))
    assert (getattr(found, "topics", None), getattr(found, "user_data", None)) == (tuple(topics), remark)


@given(NAMES, st.lists(st.integers(0, 99), max_size=8, unique=True))
def test_an_assignment_reads_back_as_every_client_reads_it(topic: str, partitions: list[int]) -> None:
    data = assignment(topic, partitions)
    assert getattr(decode_assignment(data), "partitions", None) == ((topic, tuple(partitions)),)
    assert assigned_partitions(data) == partitions


def test_an_empty_assignment_has_no_partitions() -> None:
    assert assigned_partitions(b"") == []


def test_a_herd_is_one_member_in_each_of_many_groups() -> None:
    assert list(group_names(Flags("x:1", "g", "t"))) == ["g"]
    assert list(group_names(Flags("x:1", "g", "t", groups=2))) == ["g.000", "g.001"]


def test_the_groups_of_a_herd_differ_in_time_outs_and_commits_and_keep_their_proportions() -> None:
    alone = Flags("x:1", "g", "t")
    assert list(alone.each()) == [alone]
    herd = list(Flags("x:1", "g", "t", groups=15).each())
    assert [one.group for one in herd] == list(group_names(Flags("x:1", "g", "t", groups=15)))
    assert {one.groups for one in herd} == {1}
    assert len({one.session_ms for one in herd}) == 15
    assert (herd[0].session_ms, herd[-1].session_ms) == (5_100, 6_900)
    assert len({one.commit_ms for one in herd}) == 4
    assert min(one.poll_ms for one in replace(alone, groups=15, protocol="consumer").each()) == alone.poll_ms
    for one in herd:
        assert one.poll_ms / one.session_ms == pytest.approx(alone.poll_ms / alone.session_ms, rel=0.01)


def test_one_process_may_have_many_clients_of_one_group() -> None:
    crowd = Flags("x:1", "g", "t", client_id="host-1", clients=24)
    assert [(one.group, one.client_id, one.clients) for one in crowd.each()] == [
        ("g", f"host-1-{number:03d}", 1) for number in range(24)
    ]
    words = crowd.spelled_out()
    assert words[words.index("--each") + 1].count("client-id=host-1-") == 24


@pytest.mark.broker
def test_commits_are_taken_while_preparing_and_refused_while_completing_or_with_an_old_generation(
    lab_broker: LabBroker, tmp_path: Path
) -> None:
    raw = {
        "members": "a b",
        "settings": {"session_ms": 6000, "poll_ms": 8000, "heartbeat_ms": 300},
        "steps": [
            {"at": 0, "start": "a", "with": {"mode": "stale"}},
            {"at": 3, "start": "b"},
            {"at": 3, "transaction": "it", "end": "abort"},
        ],
        "end": 7,
    }
    with Traffic(lab_broker.bootstrap) as traffic:
        run = Run(parse("stale", raw), FAMILIES["raw"], lab_broker, traffic, tmp_path, "lab.stale")
        with Together([run]) as together:
            assert together.wait(60)
    lines = (tmp_path / "lab.stale" / "a.jsonl").read_text().splitlines()
    told = [json.loads(line) for line in lines]
    errors: dict[str, set[int]] = {}
    for one in told:
        if one["event"] == "committed":
            errors.setdefault(one["phase"], set()).update(one["errors"])
    assert errors["preparing"] == {0}
    assert errors["completing"] == {IN_PROGRESS}
    assert errors["old generation"] == {OLD_GENERATION}
    assert run.errors == []
