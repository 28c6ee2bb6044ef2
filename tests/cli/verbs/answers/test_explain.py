"""Explain: one group out of a capture, as tables and as JSON."""

import io
import json
import time
from pathlib import Path
from struct import pack

import pytest
from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient, NewTopic

from rebalance_monitor.cli.explain_tables import write_tables
from rebalance_monitor.cli.main import run
from rebalance_monitor.cluster.captures.capture import Metadata, write_capture
from rebalance_monitor.decoders import coordinator_partition
from rebalance_monitor.lab.cluster.broker import LabBroker
from tests.cli.support.records import Records
from tests.coordinator.support.timeline import T0, Client, text

SHARDS = 10
SHARD = coordinator_partition("billing", SHARDS)
A = Client("a-1", (0, 1, 2, 3), "consumer-a")
B = Client("b-1", (4,), "consumer-b", "/10.0.0.2")


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    records = Records()
    records.generation(SHARD, 0, "billing", 1, [A])
    records.generation(SHARD, 5_000, "billing", 2, [A, B])
    for at in (6_000, 7_000, 8_000, 14_500):
        records.commit(SHARD, at, "billing", at)
    records.generation((SHARD + 1) % SHARDS, 0, "other", 1, [A])
    path = tmp_path / "capture"
    write_capture(path, [records.batch()], Metadata(partitions=SHARDS, cluster_id="c1"))
    return path


def explained(capture: Path, output: pytest.CaptureFixture[str], group: str = "billing") -> dict[str, object]:
    assert run(["explain", group, "--capture", str(capture), "-o", "json"]) == 0
    found: dict[str, object] = json.loads(output.readouterr().out)
    return found


def test_the_coordinator_is_the_partition_that_javas_hash_gives(
    capture: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = explained(capture, capsys)
    assert found["coordinator"] == {"partition": SHARD, "of": SHARDS, "broker": None, "leader_epoch": None}
    assert (found["state"], found["generation"], found["protocol"]) == ("Stable", 2, "range")


def test_members_come_with_timeouts_partitions_and_their_longest_gap(
    capture: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    member, other = explained(capture, capsys)["members"]
    assert (member["partitions"], other["partitions"]) == (4, 1)
    assert sorted(number for given in member["assigned"].values() for number in given) == [0, 1, 2, 3]
    assert (member["session_timeout_ms"], member["largest_heartbeat_interval_ms"]) == (6_000, 2_000)
    assert (member["longest_commit_gap_ms"], other["longest_commit_gap_ms"]) == (6_500, None)


def test_the_values_of_the_cluster_come_with_their_origin(
    capture: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "assumed offsets_retention 7d" in str(explained(capture, capsys)["values"])
    told = ["explain", "billing", "--capture", str(capture), "--set", "detection.offsets_retention=7s"]
    assert run(told) == 0
    assert "Values of the cluster: configured offsets_retention 7s; assumed" in capsys.readouterr().out


def test_the_table_names_partitions_by_ranges(capture: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", "billing", "--capture", str(capture), "-o", "table"]) == 0
    assert "4: orders 0-3" in capsys.readouterr().out


def test_what_happened_is_reported_newest_first_with_causes(
    capture: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    newest, oldest = explained(capture, capsys)["rebalances"]
    assert (newest["generation"], oldest["generation"]) == (2, 1)
    assert newest["causes"][0]["cause"] == "member_joined"
    assert oldest["causes"][0]["cause"] == "first_start"


def test_the_spread_stands_beside_every_assignors_with_its_moves(
    capture: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spread = explained(capture, capsys)["spread"]
    assert (spread["now"]["most"], spread["now"]["least"], spread["now"]["moves"]) == (4, 1, 0)
    assert spread["assignors"]["sticky"] == {"most": 3, "least": 2, "idle": 0, "moves": 1}
    assert set(spread["assignors"]) == {"range", "roundrobin", "sticky", "cooperative-sticky"}


def test_each_advice_has_its_reason(capture: Path, capsys: pytest.CaptureFixture[str]) -> None:
    advice = explained(capture, capsys)["advice"]
    about = [one["about"] for one in advice]
    assert about.count("max.poll.interval.ms") == 1
    assert {"session.timeout.ms", "heartbeat.interval.ms"} <= set(about)
    assert all(one["advice"] and one["reason"] for one in advice)


def test_tables_say_the_same(capture: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", "billing", "--capture", str(capture)]) == 0
    text = capsys.readouterr().out
    for words in ("consumer-a", "longest gap", "max.poll.interval.ms", "member_joined", "cooperative-sticky"):
        assert words in text


def test_a_bare_file_is_searched_for_the_group(capture: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bare = capture.parent / "bare"
    records = Records()
    records.generation(3, 0, "billing", 1, [A])
    write_capture(bare, [records.batch()], Metadata())
    assert explained(bare / "records.parquet", capsys)["generation"] == 1


def test_a_group_without_records_is_a_problem_and_says_so(
    capture: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["explain", "nobody", "--capture", str(capture)]) == 1
    assert "No record of the group 'nobody'" in capsys.readouterr().err


def test_whatever_decode_prints_of_a_group_explain_has_something_to_say_of(
    capture: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    records = Records()
    for group in ("", "batch", "gone"):
        shard = coordinator_partition(group, SHARDS)
        for at in (0, 1_000):
            records.commit(shard, at, group, at)
    gone = coordinator_partition("gone", SHARDS)
    for number in range(2):
        records.add(gone, 2_000, b"\0\1" + text("gone") + text("orders") + pack(">i", number), None)
    records.add(coordinator_partition("cut", SHARDS), 0, b"\0\2" + text("cut"), b"\0\3\0")
    for group in ("", "batch"):
        records.commit(coordinator_partition(group, SHARDS), 12_000, group, 12)
    path = capture.parent / "lone"
    write_capture(path, [records.batch()], Metadata(partitions=SHARDS, cluster_id="c1"))
    for group in ("", "batch"):
        found = explained(path, capsys, group)
        assert (found["group_type"], found["state"], found["topics"]) == ("commits", "Empty", ["orders"])
        assert (found["last_commit"], found["generation"]) == (T0 + 12_000, None)
        # Three requests of two offsets each: four after the first, in twelve seconds.
        assert found["commits_per_minute"] == 20
        assert "assign()" in str(found["notes"])
    for group, read in (("gone", "6 records of the group were"), ("cut", "1 record of the group was")):
        found = explained(path, capsys, group)
        assert (found["state"], found["members"]) == ("Dead", [])
        assert f"{read} read; " in str(found["notes"])
    assert run(["groups", "--capture", str(path)]) == 0
    assert "(0 with members, 2 with commits only)" in capsys.readouterr().err
    assert run(["groups", "--capture", str(path), "-o", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert {row["group"]: row["topics"] for row in rows} == {"": ["orders"], "batch": ["orders"]}


@pytest.mark.parametrize(("partitions", "topics"), [(2_000, ["orders"]), (20_000, [])])
def test_a_group_that_commits_very_many_partitions_is_said_to_commit(
    partitions: int, topics: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As many as are kept of a group without a record of its own, and more: it was not removed."""
    records = Records()
    for at in (0, 30_000):
        records.commit(coordinator_partition("flink", SHARDS), at, "flink", at, partitions)
    write_capture(tmp_path / "c", [records.batch()], Metadata(partitions=SHARDS, cluster_id="c1"))
    found = explained(tmp_path / "c", capsys, "flink")
    assert (found["group_type"], found["state"], found["topics"]) == ("commits", "Empty", topics)
    assert (found["last_commit"], found["commits_per_minute"]) == (T0 + 30_000, 2 * partitions)
    assert ("more partitions than are kept" in str(found["notes"])) is (not topics)


@pytest.mark.broker
def test_a_broker_shows_the_coordinator_the_state_and_the_partition_counts(
    lab_broker: LabBroker, capsys: pytest.CaptureFixture[str]
) -> None:
    admin = AdminClient({"bootstrap.servers": lab_broker.bootstrap})
    admin.create_topics([NewTopic("explained", 6, 1)])["explained"].result(30)
    consumer = Consumer({"bootstrap.servers": lab_broker.bootstrap, "group.id": "explained-group"})
    consumer.subscribe(["explained"])
    deadline = time.monotonic() + 60
    while not consumer.assignment() and time.monotonic() < deadline:
        consumer.poll(0.2)
    assert run(["explain", "explained-group", "--bootstrap", lab_broker.bootstrap, "-o", "json"]) == 0
    consumer.close()
    found = json.loads(capsys.readouterr().out)
    assert found["coordinator"]["broker"] is not None
    assert found["state"] == "Stable"
    assert found["spread"]["partitions"] == 6
    assert found["members"][0]["partitions"] == 6


def test_what_stands_for_several_causes_is_said_once() -> None:
    causes = [
        {"cause": name, "client_id": "a", "instance_id": None, "confidence": sure, "why": "silent for 66 s"}
        for name, sure in (("session_timeout", 0.5), ("member_left", 0.25))
    ]
    event = dict.fromkeys(("joined", "left", "replaced", "held_by", "sync_ms", "generation"))
    event |= {"at": 1, "kind": "group_empty", "history": False, "causes": causes}
    out = io.StringIO()
    sections = dict.fromkeys(("members", "advice", "notes"), ())
    group = dict.fromkeys(("state", "group_type", "protocol", "generation", "leader", "since", "last_commit"))
    place = {"partition": 1, "of": 50, "broker": None}
    more = {"commits_per_minute": None, "topics": (), "spread": {"now": None}, "values": "", "group": "g"}
    write_tables({"rebalances": [event], "coordinator": place, **sections, **group, **more}, out)
    assert "session_timeout of a (0.50), member_left of a (0.25): silent for 66 s\n" in out.getvalue()


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (None, "2 records of the group were read; the last of them removed the group"),
        (b"\0\3\0", "1 record of the group was read; 1 could not be decoded"),
    ],
)
def test_a_group_without_a_state_was_removed_or_could_not_be_read_and_never_perhaps(
    value: bytes | None, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    records = Records()
    if value is None:
        records.generation(SHARD, 0, "billing", 1, [A])
    records.add(SHARD, 9, b"\0\2" + text("billing"), value)
    path = tmp_path / "capture"
    write_capture(path, [records.batch()], Metadata(partitions=SHARDS, cluster_id="c1"))
    assert said in explained(path, capsys)["notes"]
