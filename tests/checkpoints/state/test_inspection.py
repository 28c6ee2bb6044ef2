"""What a job's folder holds, listed without Spark; only superseded generations may go."""

from __future__ import annotations

import json
from dataclasses import replace
from importlib.metadata import version
from typing import TYPE_CHECKING, Any
from zlib import crc32

import pytest

from rebalance_monitor.alerts.dispatch.plan import Memory
from rebalance_monitor.alerts.runtime.memory_file import MemoryFile
from rebalance_monitor.checkpoints.ledger import Ledger, Snapshot
from rebalance_monitor.checkpoints.state.changelog import Begun, Changelog
from rebalance_monitor.checkpoints.state.codec import Stored
from rebalance_monitor.checkpoints.state.inspection import inspect, remove, superseded
from rebalance_monitor.checkpoints.state.manifest import Identity, Manifest, write_manifest
from rebalance_monitor.checkpoints.state.spark_log import SparkLogError, read_spark_log
from rebalance_monitor.checkpoints.state.versions import CODEC_VERSION
from rebalance_monitor.checkpoints.storage.files import remove_folder
from rebalance_monitor.cli.exit_codes import ExitCode
from rebalance_monitor.cli.main import run
from rebalance_monitor.engine.embedded.engine import STATE_S
from rebalance_monitor.engine.topic.leader_epochs import Mark, Marks, write_marks

if TYPE_CHECKING:
    from pathlib import Path

IDENTITY = Identity(version("rebalance-monitor"), CODEC_VERSION, 1, 2, 3, "topic", "cluster")
TOPIC = "__consumer_offsets"
MOST_LANES = 5


def batch(checkpoint: Path, number: int, ends: dict[int, int], *, done: bool = True) -> None:
    """Leave what Spark leaves of one batch."""
    head = json.dumps({"batchWatermarkMs": 0, "batchTimestampMs": 1_000 * number, "conf": {}})
    tree = json.dumps({TOPIC: {str(partition): end for partition, end in ends.items()}})
    for name in ("offsets", "commits"):
        (checkpoint / name).mkdir(parents=True, exist_ok=True)
    (checkpoint / "offsets" / str(number)).write_text(f"v1\n{head}\n{tree}\n7")
    if done:
        (checkpoint / "commits" / str(number)).write_text("v1\n{}")
        for lane in range(MOST_LANES):
            (checkpoint / "state" / "0" / str(lane)).mkdir(parents=True, exist_ok=True)
            (checkpoint / "state" / "0" / str(lane) / f"{number + 1}.zip").write_text("state")


def folder(root: Path) -> tuple[Path, Path]:
    states = root / "state"
    batch(states / "1", 9, {0: 5})
    batch(states / "2", 1, {0: 7, 1: 2})
    batch(states / "2", 2, {0: 9, 1: 2})
    batch(states / "2", 3, {0: 11, 1: 2}, done=False)
    write_manifest(root / "manifest.json", Manifest(IDENTITY, 2, {0: 4}))
    Ledger(root / "ledger").commit(Snapshot())
    return root / "manifest.json", states


def test_only_what_was_committed_counts_as_read(tmp_path: Path) -> None:
    _, states = folder(tmp_path)
    log = read_spark_log(states / "2")
    assert (log.begun, log.committed, log.at, log.read(TOPIC)) == (3, 2, 2_000, {0: 9, 1: 2})


def test_a_checkpoint_without_a_batch_has_read_nothing(tmp_path: Path) -> None:
    assert read_spark_log(tmp_path).read(TOPIC) == {}


@pytest.mark.parametrize("text", ["", "v2\n{}\n7", "v1\n{}\n7", "v1\nnot json\n7"])
def test_a_damaged_log_names_its_file(tmp_path: Path, text: str) -> None:
    batch(tmp_path, 4, {0: 1})
    (tmp_path / "offsets" / "4").write_text(text)
    with pytest.raises(SparkLogError, match="offsets/4"):
        read_spark_log(tmp_path)


def test_generations_are_distinguished_and_the_superseded_one_can_be_removed(tmp_path: Path) -> None:
    manifest, states = folder(tmp_path)
    found = inspect(manifest, states)
    assert [(one.number, one.in_use, one.batches) for one in found.generations] == [
        (1, False, 1),
        (2, True, 3),
    ]
    (gone,) = superseded(found)
    remove(states, gone)
    assert [one.number for one in inspect(manifest, states).generations] == [2]
    assert superseded(inspect(manifest, states)) == []


def test_nothing_is_removed_while_the_generation_in_use_is_unknown(tmp_path: Path) -> None:
    manifest, states = folder(tmp_path)
    manifest.write_text("{}")
    found = inspect(manifest, states)
    assert superseded(found) == []
    assert "manifest.json cannot be read" in found.problems[0]


def look(root: Path, capsys: pytest.CaptureFixture[str], *more: str) -> tuple[int, list[str]]:
    """The exit code of `checkpoint inspect`, and what it says is wrong."""
    capsys.readouterr()
    code = run(["checkpoint", "inspect", "--set", f"storage.path={root}", *more])
    return code, capsys.readouterr().err.splitlines()


def test_a_lost_checkpoint_and_a_damaged_one_are_problems(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    manifest, states = folder(tmp_path)
    (states / "1" / "offsets" / "9").write_text("?")
    remove(states, inspect(manifest, states).generations[1])
    code, (damaged, lost) = look(tmp_path, capsys)
    assert code == 1
    assert "offsets/9 cannot be read" in damaged
    assert "`checkpoint prune` removes it" in damaged
    assert lost == "The next start makes a new state from the topic: its checkpoint was gone."


@pytest.mark.parametrize(
    ("stored", "flag", "says"),
    [
        ({"codec_version": 1}, "buckets=1", "older version of the product"),
        ({"codec_version": 99}, "buckets=1", "newer version of the product"),
        ({}, "buckets=4", "`buckets: 1` continues with it"),
        ({"lanes": 5}, "buckets=1", '`spark.sql.shuffle.partitions: "5"` under `spark:` continues with it'),
    ],
)
def test_what_the_next_start_will_refuse_is_a_problem_now(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], stored: dict[str, Any], flag: str, says: str
) -> None:
    manifest, _ = folder(tmp_path)
    write_manifest(manifest, Manifest(replace(IDENTITY, **stored), 2, {0: 4}))
    code, (refused,) = look(tmp_path, capsys, "--set", flag)
    assert (code, "The next start refuses state 2." in refused, says in refused) == (1, True, True), refused
    # Who asks for a new state gives this one up.
    assert look(tmp_path, capsys, "--set", flag, "--set", "storage.rebuild=now") == (0, [])


def test_a_checkpoint_that_lost_the_batches_it_had_reported_is_a_problem(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder(tmp_path)
    for name in ("offsets", "commits"):
        remove_folder(tmp_path / "state" / "2" / name)
    # One that has not begun is empty as well.
    assert look(tmp_path, capsys) == (0, [])
    Ledger(tmp_path / "ledger").commit(Snapshot(generation=2))
    code, (lost,) = look(tmp_path, capsys)
    assert (code, lost) == (1, "The next start makes a new state from the topic: its checkpoint was empty.")


DAMAGES = {
    "emptied": lambda _: b"",
    "cut": lambda content: content[: len(content) // 2],
    "changed": lambda content: content.replace(b"1", b"2").replace(b"e", b"f"),
    "no text": lambda _: b"\xff",
    "nested": lambda content: b"v1\n" + b"[" * 100_000 if content[:2] == b"v1" else b"[" * 100_000,
}
FILES = ("manifest.json", "ledger/snapshot.json", "leaders.json", "alerts/memory.jsonl")
LOG = ("state/2/offsets/2", "state/2/offsets/3", "state/2/commits/2")
STATE = "state/2/state/0/1/3.zip"
ONCE = ("state/2/metadata", "state/2/sources/1/0", "state/2/state/0/_metadata/schema")


def whole_folder(root: Path) -> None:
    """Leave what a job leaves, with each kind of file."""
    _, states = folder(root)
    Ledger(root / "ledger").commit(Snapshot(batches={"query-1": 3}, generation=2))
    write_marks(root / "leaders.json", Marks("topic", {0: Mark(1, 11)}))
    (root / "alerts").mkdir()
    MemoryFile(root / "alerts" / "memory.jsonl").save(Memory(batches={"q": 1}))
    for name in ONCE:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text('{"id":"query-1"}' if name.endswith("metadata") else 'v1\n{"id": 1}')
    for path in (*states.rglob("*.zip"), *(root / name for name in ONCE)):
        # Hadoop's own layout: magic, bytes per chunk, one CRC-32 a chunk.
        content = path.read_bytes()
        sums = b"crc\0" + (512).to_bytes(4, "big") + crc32(content).to_bytes(4, "big")
        path.with_name(f".{path.name}.crc").write_bytes(sums)


def test_a_whole_folder_has_no_problem(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole_folder(tmp_path)
    assert look(tmp_path, capsys) == (0, [])


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", [*FILES, *LOG, STATE, *ONCE])
def test_a_damaged_file_is_named_with_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, damage: str
) -> None:
    whole_folder(tmp_path)
    path = tmp_path / name
    content = DAMAGES[damage](path.read_bytes())
    if name in LOG and damage == "changed":
        # Spark's log has no checksum of its own in every store: what is no JSON any more is noticed.
        content = content.replace(b"{", b"(")
    path.write_bytes(content)
    code, said = look(tmp_path, capsys)
    assert code == 1
    assert any(name in problem for problem in said), said
    assert any(word in said[0] for word in ("--rebuild-state", "backup", "away")), said


def test_state_that_is_missing_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole_folder(tmp_path)
    lane = tmp_path / "state" / "2" / "state" / "0" / "1"
    (lane / "3.zip").unlink()
    assert "lacks the changes of version 3" in look(tmp_path, capsys)[1][0]
    (lane / "3.changelog").write_text("changes")
    assert look(tmp_path, capsys) == (0, [])
    remove_folder(lane)
    assert f"{lane} is gone" in look(tmp_path, capsys)[1][0]
    remove_folder(tmp_path / "state" / "2" / "state")
    assert "is gone" in look(tmp_path, capsys)[1][0]


def test_a_table_file_that_was_cut_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole_folder(tmp_path)
    (day := tmp_path / "tables" / "findings" / "date=2026-01-01").mkdir(parents=True)
    (day / "q-0000000001.parquet").write_bytes(b"PAR1 and no more")
    code, (said,) = look(tmp_path, capsys)
    assert (code, "q-0000000001.parquet is damaged" in said, "away" in said) == (1, True, True)


def test_states_without_a_manifest_are_listed_as_given_up_and_looking_writes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    manifest, states = folder(tmp_path)
    for name in ("offsets", "commits"):
        remove_folder(states / "2" / name)
    before = sorted(tmp_path.rglob("*"))
    assert look(tmp_path, capsys)[0] == 0
    assert sorted(tmp_path.rglob("*")) == before
    manifest.unlink()
    code, (said,) = look(tmp_path, capsys)
    assert (code, said) == (1, "The next start makes a new state from the topic: its manifest was gone.")


def test_a_place_for_checkpoints_that_is_new_means_a_new_state(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder(tmp_path)
    code, (said,) = look(tmp_path, capsys, "--set", f"storage.checkpoint={(tmp_path / 'new').as_uri()}")
    assert (code, "storage.checkpoint was changed" in said) == (1, True)


def test_a_number_of_partitions_that_is_none_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder(tmp_path)
    (config := tmp_path / "monitor.yaml").write_text("spark: {spark.sql.shuffle.partitions: many}\n")
    code, (said,) = look(tmp_path, capsys, "--config", str(config))
    assert (code, "must be a whole number from 1 on, not 'many'" in said) == (1, True)


def test_the_verb_says_it_all(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder(tmp_path)
    at = ["--set", f"storage.path={tmp_path}"]
    assert run(["checkpoint", "inspect", *at]) == 0
    text = capsys.readouterr().out
    assert "cluster cluster, topic id topic" in text
    assert run(["checkpoint", "prune", *at]) == 0
    assert "would remove state 1" in capsys.readouterr().out
    assert (tmp_path / "state" / "1").exists()
    assert run(["checkpoint", "prune", "--yes", *at]) == 0
    assert not (tmp_path / "state" / "1").exists()
    capsys.readouterr()
    assert run(["checkpoint", "prune", "--yes", *at]) == 0
    assert "nothing to remove" in capsys.readouterr().err
    assert run(["checkpoint", "inspect", "--set", f"storage.path={tmp_path / 'none'}"]) == 2


def kept_elsewhere(root: Path) -> Path:
    """Two generations of which Spark keeps the batches in another folder; return that one."""
    folder(root / "spark")
    kept = root / "spark" / "m7f3a00000001"
    (root / "spark" / "state").rename(kept)
    (root / "spark" / "manifest.json").unlink()
    for number in (1, 2):
        (root / "state" / str(number)).mkdir(parents=True)
        (root / "state" / str(number) / "elsewhere").write_text((kept / str(number)).as_uri())
    (root / "state" / "name").write_text(kept.name)
    write_manifest(root / "manifest.json", Manifest(IDENTITY, 2, {0: 4}, elsewhere=kept.as_uri()))
    return kept


@pytest.mark.parametrize("configured", [True, False])
def test_what_spark_keeps_elsewhere_is_reported_and_removed_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], *, configured: bool
) -> None:
    kept = kept_elsewhere(tmp_path)
    at = ["--set", f"storage.path={tmp_path}"]
    # Where the configuration names no such place any more, the next start makes a new state.
    at += ["--set", f"storage.checkpoint={kept.parent.as_uri()}"] * configured
    assert run(["checkpoint", "inspect", "-o", "json", *at]) == (0 if configured else 1)
    rows = json.loads(capsys.readouterr().out)
    assert [(row["state"], row["last batch"], row["read up to"]) for row in rows] == [(1, 9, 5), (2, 2, 11)]
    assert run(["checkpoint", "prune", "--yes", *at]) == 0
    assert {path.name for path in (tmp_path / "state").iterdir()} == {"2", "name"}
    assert [path.name for path in kept.iterdir()] == ["2"]


def test_nothing_is_removed_where_a_part_of_it_cannot_be_reached(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept_elsewhere(tmp_path)
    (tmp_path / "state" / "1" / "elsewhere").write_text("dbfs:/x/m7f3a00000001/1")
    at = ["--set", f"storage.path={tmp_path}"]
    at += ["--set", f"storage.checkpoint={(tmp_path / 'spark').as_uri()}"]
    assert run(["checkpoint", "inspect", "-o", "json", *at]) == 0
    shown = capsys.readouterr()
    assert "What Spark keeps of state 1 in dbfs:/x/m7f3a00000001/1 is not looked at" in shown.err
    assert [row["state"] for row in json.loads(shown.out)] == [1, 2]
    assert run(["checkpoint", "prune", "--yes", *at]) == 1
    shown = capsys.readouterr()
    assert "What Spark keeps of state 1 in dbfs:/x/m7f3a00000001/1 cannot be removed" in shown.err
    assert shown.out == ""
    assert (tmp_path / "state" / "1" / "elsewhere").exists()


def test_groups_of_a_state_that_is_not_there_yet_or_cannot_be_decoded_are_refused_in_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    manifest = Manifest(replace(IDENTITY, engine="embedded"), 1, {})
    write_manifest(tmp_path / "manifest.json", manifest)
    log = Changelog(tmp_path / "state" / "1")
    log.begin(Begun(0, 0, limited=False, until={0: 1}))
    for verb in ("groups", "verify"):
        assert run(["checkpoint", verb, "--set", f"storage.path={tmp_path}"]) == ExitCode.FINE
        said = capsys.readouterr().err
        assert "No state has been stored yet" in said
        assert f"every {STATE_S:.0f} s" in said
    log.commit(0, 0, {0: 1}, {0: Stored(0, b"no state of ours")})
    log.close()
    assert run(["checkpoint", "groups", "--set", f"storage.path={tmp_path}"]) == ExitCode.USAGE
    assert "`checkpoint verify` names every shard" in capsys.readouterr().err
