"""A JVM without heap: what it does not hand over whole is not published, and the error says what to do."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

import pytest

from rebalance_monitor.cluster.errors import DependencyError
from rebalance_monitor.config.errors import ConfigError
from rebalance_monitor.streaming.job.heap_failures import HeapError, classify_with_heap
from rebalance_monitor.streaming.spark.heap import FULL, MORE_HEAP, batch_sentence
from tests.processes import environment, module

if TYPE_CHECKING:
    from pathlib import Path

CUT = "at worker\n  streaming.handover.IncompleteBatchError: lane 1 (partitions 1, 3): 0 rows came\n"
FULL_HEAP = "Task 0 in stage 5.0 failed 1 times: java.lang.OutOfMemoryError: Java heap space"


@pytest.mark.slow
@pytest.mark.spark
def test_what_does_not_fit_into_the_heap_is_an_error_and_never_a_short_batch(tmp_path: Path) -> None:
    sizes = [8, 48, 64, 80, 8]
    command = module("streaming.support.heap_job", tmp_path, 512, *sizes)
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=500, check=False, env=environment()
    )
    batches = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert [batch["mb"] for batch in batches] == sizes, done.stderr[-3_000:]
    assert [batch["taken"] == 2 for batch in batches] == [not batch["error"] for batch in batches]
    assert {batch["taken"] for batch in batches} == {2, -1}
    # What the JVM itself says of it goes to its log alone.
    cut = [batch for batch in batches if batch["error"].startswith("IncompleteBatchError")]
    assert all(batch["peak"] >= FULL or batch["peak"] < 0 for batch in cut)


@pytest.mark.parametrize("words", [CUT, FULL_HEAP])
def test_a_batch_that_did_not_fit_runs_again_once_and_is_then_given_up_with_lane_offsets_and_heap(
    words: str,
) -> None:
    said = batch_sentence({3: (100, 2_100), 0: (-1, 7)}, 0.97)
    assert classify_with_heap(RuntimeError(words), 1, [], lambda: said)["remedy"] == "the batch runs again"
    with pytest.raises(HeapError) as given_up:
        classify_with_heap(RuntimeError(words), 2, [], lambda: said)
    why = given_up.value.what
    assert "failed 2 times in a row" in why
    assert ("lane 1 (partitions 1, 3): 0 rows came" in why) == (words == CUT)
    assert "partition 0 from 0 to 6; 3 from 100 to 2,099" in why
    assert "The heap was 97% full at most" in why
    assert given_up.value.remedy == MORE_HEAP
    assert isinstance(given_up.value, DependencyError)


def test_where_the_heap_had_room_it_is_not_blamed() -> None:
    assert "may not be the cause" in batch_sentence({}, 0.1)


def test_a_batch_beyond_its_share_is_refused_with_what_to_set() -> None:
    error = "  HandoverLimitError: A lane has more than 64 MB. Raise `spark.driver.memory`."
    with pytest.raises(ConfigError, match=r"^A lane has more than 64 MB\. Raise `spark\.driver\.memory`\.$"):
        classify_with_heap(RuntimeError(f"Traceback\n{error}\nat jvm"), 1, [], str)
