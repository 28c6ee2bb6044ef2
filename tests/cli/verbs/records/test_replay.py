"""Replay: the same findings from any layout of the same records, with and without history and sightings."""

import gc
import json
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rebalance_monitor.cli.main import run
from rebalance_monitor.cluster.captures.capture import CaptureError, Metadata, read_capture, write_capture
from rebalance_monitor.config.errors import ConfigError
from rebalance_monitor.coordinator.findings.finding import Finding, from_json
from rebalance_monitor.coordinator.findings.kind_table import KINDS
from rebalance_monitor.coordinator.findings.kinds import DrivenBy, Kind
from rebalance_monitor.coordinator.findings.outputs import FindingOut
from rebalance_monitor.coordinator.settings import DetectionSettings
from rebalance_monitor.coordinator.shard import ShardCoordinator, new_shard_state
from rebalance_monitor.decoders import Row, decode_batch
from rebalance_monitor.engine.replay.history_bounds import history_ends, parse_time
from rebalance_monitor.engine.replay.replaying import replay_capture
from tests.cli.support.records import CLIENTS, Records
from tests.coordinator.support.timeline import T0, text

DETECTION = DetectionSettings()
steps = st.lists(
    st.tuples(
        st.sampled_from(["generation", "commit", "gone"]),
        st.integers(0, 3),
        st.sampled_from([0, 40, 900, 6_500, 90_000]),
    ),
    max_size=30,
)


def written(drawn: list[tuple[str, int, int]]) -> Records:
    records, at, generations = Records(), 0, dict.fromkeys(range(4), 0)
    for verb, partition, wait in drawn:
        at += wait
        group = f"group-{partition}"
        if verb == "commit":
            records.commit(partition, at, group, at)
        elif verb == "gone":
            records.add(partition, at, b"\0\2" + b"\0\7" + group.encode(), None)
        else:
            generations[partition] += 1
            members = CLIENTS[: generations[partition] % 3]
            records.generation(partition, at, group, generations[partition], members)
    return records


def by_records(findings: list[Finding]) -> set[str]:
    return {finding.id for finding in findings if KINDS[finding.kind].driven_by is DrivenBy.RECORD}


def straight(records: Records) -> set[str]:
    """The ids of what records decide, by one coordinator per shard and no clock."""
    found: list[Finding] = []
    rows = [Row(*row.values()) for row in decode_batch(records.batch()).to_pylist()]
    for shard in {row.shard for row in rows}:
        coordinator = ShardCoordinator(new_shard_state(shard, 0, None), DETECTION, "c")
        mine = [out for row in rows if row.shard == shard for out in coordinator.on_row(row)]
        found += [out.finding for out in mine if isinstance(out, FindingOut)]
    return by_records(found)


# A long phase in which two members of one group have expired: a chance became negative.
LONG_PHASE = [("generation", 1, 0)] * 5 + [("generation", 0, 90_000)] * 2 + [("generation", 1, 0)]


@settings(deadline=None, max_examples=40)
@given(steps, st.integers(1, 20))
@example(LONG_PHASE, 1)
def test_what_records_decide_is_found_from_any_layout_of_the_file(
    drawn: list[tuple[str, int, int]], size: int
) -> None:
    records = written(drawn)
    with tempfile.TemporaryDirectory() as folder:
        whole, bare = Path(folder) / "whole", Path(folder) / "bare.parquet"
        write_capture(whole, [records.batch()], Metadata(cluster_id="c"))
        pq.write_table(pa.Table.from_batches([records.batch()]), bare, row_group_size=size)
        one, other = list(replay_capture(whole, DETECTION)), list(replay_capture(bare, DETECTION, "c"))
    assert one == other
    assert straight(records) <= by_records(one)
    assert len({finding.id for finding in one}) == len(one)


def killed() -> Records:
    """One member of two falls silent and is gone in the next generation; the other goes on."""
    records = Records()
    records.generation(0, 0, "g", 1, CLIENTS)
    for at in range(500, 20_000, 500):
        records.commit(0, at, "g", at, count=2)
        if at <= 8_000:
            key = b"\0\1\0\1g\0\6orders\0\0\0\2"
            records.add(0, at + 1, key, records.rows[-1]["value"])  # type: ignore[arg-type]
        if at == 14_500:
            records.generation(0, at + 100, "g", 2, CLIENTS[:1])
    return records


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    write_capture(tmp_path / "c", [killed().batch()], Metadata(cluster_id="c", partitions=1))
    return tmp_path / "c"


def test_a_killed_member_is_found_and_named_without_spark(capture: Path) -> None:
    found = list(replay_capture(capture, DETECTION))
    (rebalance,) = [f for f in found if f.kind is Kind.REBALANCE and f.generation == 2]
    assert [(member.member_id, member.role) for member in rebalance.members if member.role == "left"] == [
        ("b-1", "left")
    ]
    assert all(not finding.history and finding.cluster == "c" for finding in found)
    assert all(finding.detected_at - finding.at >= 0 for finding in found)


def test_garbage_is_collected_between_findings_that_are_taken_one_by_one(capture: Path) -> None:
    watched: list[bool] = []

    def watch(*_: object) -> None:
        watched.append(gc.isenabled())

    collecting = [gc.isenabled() for _ in replay_capture(capture, DETECTION, watch=watch)]
    assert collecting
    assert all(collecting + watched)
    begun = replay_capture(capture, DETECTION)
    next(begun)
    begun.close()  # type: ignore[attr-defined]  # a generator's
    assert gc.isenabled()


def test_a_replay_that_fails_leaves_garbage_to_the_collector(tmp_path: Path) -> None:
    write_capture(tmp_path / "c", [killed().batch()], Metadata(cluster_id="c"), ["no sighting"])
    with pytest.raises(CaptureError, match="no sighting"):
        list(replay_capture(tmp_path / "c", DETECTION))
    assert gc.isenabled()


def test_what_lies_before_the_given_end_is_history_and_no_deadline_passes_in_it(capture: Path) -> None:
    found = list(replay_capture(capture, DETECTION, history_until={0: 10_000}))
    assert found
    assert all(finding.history for finding in found)
    assert not [f for f in found if KINDS[f.kind].driven_by is not DrivenBy.RECORD]


def test_history_is_given_by_offsets_json_or_time_and_ends_at_a_record(capture: Path) -> None:
    opened = read_capture(capture)
    stamps = [row["timestamp"] for row in killed().rows]
    moment = T0 + 5_000
    before = sum(stamp < moment for stamp in stamps)  # type: ignore[operator]
    assert history_ends(opened, "0:7") == history_ends(opened, '{"__consumer_offsets":{"0":7}}') == {0: 7}
    assert history_ends(opened, str(moment)) == {0: before}
    assert history_ends(opened, str(T0 - 1)) == {}
    assert history_ends(opened, "0:99999") == history_ends(opened, str(T0 + 10**9)) == {0: len(stamps)}
    assert parse_time("2026-03-01T12:30:00") == parse_time("2026-03-01T13:30:00+01:00") == 1_772_368_200_000
    with pytest.raises(ConfigError, match="neither offsets"):
        history_ends(opened, "yesterday")


def test_sightings_become_findings_and_bound_the_rebalance(tmp_path: Path) -> None:
    lines = [
        json.dumps({"at": T0 + at, "groups": seen, "leaders": [[0, 1, 3]], "brokers": [[1, True]]})
        for at, seen in [
            (13_000, []),
            (14_000, [["g", "PreparingRebalance", "classic", "consumer"]]),
            (15_000, []),
            (30_000, [["late", "PreparingRebalance", "classic", "consumer"]]),
        ]
    ]
    write_capture(tmp_path / "c", [killed().batch()], Metadata(cluster_id="c"), lines)
    found = list(replay_capture(tmp_path / "c", DETECTION))
    phases = [(f.group, f.phase) for f in found if f.kind is Kind.REBALANCE_IN_PROGRESS]
    assert phases == [("g", "opened"), ("g", "resolved"), ("late", "opened")]
    rebalance = next(f for f in found if f.kind is Kind.REBALANCE and f.generation == 2)
    assert rebalance.coordinator is not None
    assert (rebalance.coordinator.broker, rebalance.coordinator.leader_epoch) == (1, 3)


@pytest.mark.parametrize(
    "line", ['{"at":1,"groups":7}', '{"at":1,"groups":[],"leaders":[],"brokers":[],"members":[]}']
)
def test_a_sighting_that_is_none_is_refused_by_its_file(tmp_path: Path, line: str) -> None:
    write_capture(tmp_path / "c", [killed().batch()], Metadata(), [line])
    with pytest.raises(CaptureError, match="no sighting"):
        list(replay_capture(tmp_path / "c", DETECTION))


def test_the_verb_writes_each_form_and_names_the_cluster(
    capture: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wanted = list(replay_capture(capture, DETECTION))
    assert run(["replay", "--capture", str(capture), "-o", "jsonl", "--set", "cluster_name=east"]) == 0
    out = capsys.readouterr()
    lines = [from_json(line) for line in out.out.splitlines()]
    assert [finding.id for finding in lines] == [finding.id for finding in wanted]
    assert {finding.cluster for finding in lines} == {"east"}
    assert f"{len(wanted)} findings in {len(killed().rows)} records" in out.err
    assert run(["replay", "--capture", str(capture), "-o", "json"]) == 0
    assert [entry["id"] for entry in json.loads(capsys.readouterr().out)] == [f.id for f in wanted]
    assert run(["replay", "--capture", str(capture)]) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(wanted)


@pytest.mark.parametrize("verb", ["replay", "decode"])
def test_a_capture_that_is_none_is_a_usage_error(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([verb, "--capture", "nowhere"]) == 2
    assert "the capture nowhere does not exist" in capsys.readouterr().err


@pytest.mark.parametrize(("pattern", "said"), [("ordres-*", True), ("bill*", False), ("*", False)])
def test_a_pattern_that_no_group_matches_is_named_and_one_of_a_healthy_group_is_not(
    pattern: str,
    said: bool,  # noqa: FBT001 - a parameter
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    records = Records()
    records.generation(0, 0, "billing", 1, CLIENTS)
    write_capture(tmp_path / "c", [records.batch()], Metadata())
    assert run(["replay", "--capture", str(tmp_path / "c"), "--group", pattern]) == 0
    assert (f"No group is like the pattern of `--group`: {pattern}" in capsys.readouterr().err) is said


def test_records_that_could_not_be_read_are_counted_by_reason_and_named_of_their_group(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    records, key = Records(), b"\0\2" + text("billing")
    records.generation(0, 0, "billing", 1, CLIENTS)
    records.add(0, 1_000, key, b"\0\x09")
    records.add(0, 2_000, key, b"\0\x03\xff")
    write_capture(tmp_path / "c", [records.batch()], Metadata(partitions=1))
    assert run(["replay", "--capture", str(tmp_path / "c")]) == 0
    said = capsys.readouterr().err
    assert "1 record could not be read, as `decode` shows: unknown_version" in said
    assert "1 record could not be read, as `decode` shows: truncated" in said
    assert run(["explain", "billing", "--capture", str(tmp_path / "c")]) == 0
    shown = capsys.readouterr().out
    assert "2 records of the group could not be read, so this may be incomplete" in shown


@pytest.mark.parametrize("at", [2**63 - 1, -(2**63), -1, 0])
def test_records_of_any_time_are_read_to_their_end(
    at: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    records = Records()
    records.generation(0, 0, "billing", 1, CLIENTS)
    for offset in range(1, 9):
        records.commit(0, 0, "billing", offset)
        records.commit(0, 0, "lone", offset)
    records.generation(0, 0, "billing", 2, CLIENTS[:1])
    for place, row in enumerate(records.rows):
        row["timestamp"] = max(at, -(2**63) + 1) - place * (at > 0) + place * (at < 0)
    write_capture(tmp_path / "c", [records.batch()], Metadata(partitions=1))
    for words in (["replay"], ["explain", "billing"], ["explain", "lone"], ["groups"]):
        assert run([*words, "--capture", str(tmp_path / "c"), "-o", "json"]) == 0
        assert capsys.readouterr().out
