"""What a job's folder holds, told without Spark; only superseded generations may go."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from rebalance_monitor.checkpoints.inspection import inspect, remove, superseded
from rebalance_monitor.checkpoints.manifest import Identity, Manifest, write_manifest
from rebalance_monitor.checkpoints.spark_log import SparkLogError, read_spark_log
from rebalance_monitor.cli.main import run

if TYPE_CHECKING:
    from pathlib import Path

IDENTITY = Identity("0.1.0", 1, 1, 1, 3, "topic", "cluster")
TOPIC = "__consumer_offsets"


def batch(checkpoint: Path, number: int, ends: dict[int, int], *, done: bool = True) -> None:
    """Leave what Spark leaves of one batch."""
    head = json.dumps({"batchWatermarkMs": 0, "batchTimestampMs": 1_000 * number, "conf": {}})
    tree = json.dumps({TOPIC: {str(partition): end for partition, end in ends.items()}})
    for name in ("offsets", "commits"):
        (checkpoint / name).mkdir(parents=True, exist_ok=True)
    (checkpoint / "offsets" / str(number)).write_text(f"v1\n{head}\n{tree}\n7")
    if done:
        (checkpoint / "commits" / str(number)).write_text("v1\n{}")


def folder(root: Path) -> tuple[Path, Path]:
    states = root / "state"
    batch(states / "1", 9, {0: 5})
    batch(states / "2", 1, {0: 7, 1: 2})
    batch(states / "2", 2, {0: 9, 1: 2})
    batch(states / "2", 3, {0: 11, 1: 2}, done=False)
    write_manifest(root / "manifest.json", Manifest(IDENTITY, 2, {0: 4}))
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


def test_generations_are_told_apart_and_the_superseded_one_can_go(tmp_path: Path) -> None:
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


def test_nothing_goes_where_nobody_knows_what_is_in_use(tmp_path: Path) -> None:
    manifest, states = folder(tmp_path)
    manifest.write_text("{}")
    found = inspect(manifest, states)
    assert superseded(found) == []
    assert "manifest.json cannot be read" in found.problems[0]


def test_a_lost_checkpoint_and_a_damaged_one_are_problems(tmp_path: Path) -> None:
    manifest, states = folder(tmp_path)
    (states / "1" / "offsets" / "9").write_text("?")
    remove(states, inspect(manifest, states).generations[1])
    problems = inspect(manifest, states).problems
    assert "offsets/9 cannot be read" in problems[0]
    assert "checkpoint 2 that the manifest names is gone" in problems[1]


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
    assert run(["checkpoint", "inspect", "--set", f"storage.path={tmp_path / 'none'}"]) == 2


def test_what_spark_keeps_elsewhere_is_told_and_removed_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder(tmp_path / "spark")
    (tmp_path / "spark" / "manifest.json").rename(tmp_path / "manifest.json")
    for number in (1, 2):
        (tmp_path / "state" / str(number)).mkdir(parents=True)
    (tmp_path / "state" / "name").write_text("m7f3a00000001")
    (tmp_path / "spark" / "state").rename(tmp_path / "spark" / "m7f3a00000001")
    elsewhere = (tmp_path / "spark").as_uri()
    at = ["--set", f"storage.path={tmp_path}", "--set", f"storage.checkpoint={elsewhere}"]
    assert run(["checkpoint", "inspect", "-o", "json", *at]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [(row["state"], row["last batch"], row["read up to"]) for row in rows] == [(1, 9, 5), (2, 2, 11)]
    assert run(["checkpoint", "prune", "--yes", *at]) == 0
    assert {path.name for path in (tmp_path / "state").iterdir()} == {"2", "name"}
    assert [path.name for path in (tmp_path / "spark" / "m7f3a00000001").iterdir()] == ["2"]
    capsys.readouterr()
    unknown = ["--set", f"storage.path={tmp_path}", "--set", "storage.checkpoint=dbfs:/x"]
    assert run(["checkpoint", "inspect", *unknown]) == 0
    assert "not looked at" in capsys.readouterr().err
