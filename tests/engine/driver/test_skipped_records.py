"""Records that `source.skip` names: one new state begins behind them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from rebalance_monitor.config.errors import ConfigError
from rebalance_monitor.config.model import Settings, Source
from rebalance_monitor.engine.driver.plan import record_rebuild, skipped, skipped_sentence
from rebalance_monitor.engine.storage import Storage
from tests.engine.support.states import FACTS, plan

if TYPE_CHECKING:
    from pathlib import Path


def skipping(skip: dict[int, int]) -> Settings:
    return Settings(source=Source(skip=skip))


def test_a_record_to_skip_begins_one_new_state_behind_it_and_no_other(tmp_path: Path) -> None:
    first = plan(tmp_path)
    found = plan(tmp_path, settings=skipping({0: 6}))
    assert found.manifest.generation == first.manifest.generation + 1
    assert found.rebuilt == "asked for by source.skip (partition 0 behind offset 6)"
    assert skipped(found.manifest, FACTS) == {0: 6}
    record_rebuild(Storage(tmp_path), found)
    for settings in (skipping({0: 6}), Settings(), skipping({0: 5})):
        assert plan(tmp_path, settings=settings).manifest.generation == found.manifest.generation
    again = plan(tmp_path, settings=skipping({0: 6, 2: 1}))
    assert again.rebuilt == "asked for by source.skip (partition 2 behind offset 1)"
    assert skipped(again.manifest, FACTS) == {0: 6, 2: 1}


def test_what_is_skipped_to_the_end_is_no_history(tmp_path: Path) -> None:
    assert plan(tmp_path, settings=skipping({0: 9})).manifest.catching_up == {2: 3}
    assert plan(tmp_path, settings=skipping({0: 8, 2: 2})).manifest.catching_up == {0: 10}


def test_records_that_the_topic_has_removed_need_no_skip_and_begin_nothing_anew(tmp_path: Path) -> None:
    found = plan(tmp_path, settings=skipping({0: 6}))
    later = replace(FACTS, begins={**FACTS.begins, 0: 8})
    assert skipped(found.manifest, later) == {}
    assert plan(tmp_path, later, settings=skipping({0: 6})).manifest.generation == found.manifest.generation


def test_a_record_to_skip_that_is_not_there_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"offset 10 of partition 0, which ends at 10"):
        plan(tmp_path, settings=skipping({0: 10}))
    assert not Storage(tmp_path).manifest.exists()


def test_what_is_skipped_is_said_by_partition_with_its_records() -> None:
    said, records = skipped_sentence({2: 1, 1: 9}, {1: 7, 2: 0})
    assert records == 5
    assert "1: up to 3 records up to offset 9; 2: up to 2 records up to offset 1" in said
