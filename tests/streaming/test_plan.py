"""Which state a start resumes or begins."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from rebalance_monitor.checkpoints.manifest import ManifestError, read_manifest
from rebalance_monitor.config.model import Settings, Source
from rebalance_monitor.streaming.plan import StatePlan, plan_state
from rebalance_monitor.streaming.storage import Storage
from rebalance_monitor.streaming.topic import TopicFacts

if TYPE_CHECKING:
    from pathlib import Path

FACTS = TopicFacts("__consumer_offsets", "topic", "cluster", {0: 0, 1: 7, 2: 0}, {0: 10, 1: 7, 2: 3})


def plan(
    root: Path, facts: TopicFacts = FACTS, *, rebuild: bool = False, settings: Settings | None = None
) -> StatePlan:
    return plan_state(Storage(root), facts, settings or Settings(), rebuild=rebuild)


def test_a_first_start_takes_what_there_is_for_history(tmp_path: Path) -> None:
    found = plan(tmp_path)
    assert found.manifest.catching_up == {0: 10, 2: 3}
    assert found.checkpoint == tmp_path / "state" / "1"
    assert read_manifest(Storage(tmp_path).manifest) == found.manifest


def test_a_second_start_has_the_history_of_the_first(tmp_path: Path) -> None:
    first = plan(tmp_path)
    assert plan(tmp_path, replace(FACTS, ends={0: 99, 1: 99, 2: 99})) == first


def test_new_partitions_are_live_from_the_start(tmp_path: Path) -> None:
    plan(tmp_path)
    found = plan(tmp_path, replace(FACTS, begins={**FACTS.begins, 3: 0}, ends={**FACTS.ends, 3: 50}))
    assert found.manifest.identity.shards == 4
    assert 3 not in found.manifest.catching_up


def test_a_rebuild_begins_a_new_folder_with_the_history_of_now(tmp_path: Path) -> None:
    plan(tmp_path)
    found = plan(tmp_path, replace(FACTS, ends={0: 20, 1: 7, 2: 3}), rebuild=True)
    assert found.checkpoint == tmp_path / "state" / "2"
    assert found.manifest.catching_up == {0: 20, 2: 3}
    assert plan(tmp_path).checkpoint == found.checkpoint


def test_a_checkpoint_that_was_deleted_is_rebuilt_with_the_history_of_now(tmp_path: Path) -> None:
    plan(tmp_path).checkpoint.rmdir()
    found = plan(tmp_path, replace(FACTS, ends={0: 20, 1: 7, 2: 3}))
    assert found.checkpoint.is_dir()
    assert found.manifest.catching_up == {0: 20, 2: 3}


def test_a_recreated_topic_is_refused_and_a_rebuild_takes_it(tmp_path: Path) -> None:
    plan(tmp_path)
    other = replace(FACTS, id="another")
    with pytest.raises(ManifestError, match="recreated"):
        plan(tmp_path, other)
    assert plan(tmp_path, other, rebuild=True).manifest.identity.topic_id == "another"


def test_a_start_at_the_end_has_no_history(tmp_path: Path) -> None:
    found = plan(tmp_path, settings=Settings(source=Source(starting="latest")))
    assert found.manifest.catching_up == {}
