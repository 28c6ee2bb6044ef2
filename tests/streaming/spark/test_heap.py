"""A JVM without heap: what it does not hand over whole is not published, and the error says what to do."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

import pytest

from rebalance_monitor.cluster.errors import DependencyError
from rebalance_monitor.config.errors import ConfigError
from rebalance_monitor.streaming.job.heap_failures import HeapError, classify_with_heap
from rebalance_monitor.streaming.spark.heap import CROWDED, FILLED, FULL, MORE_HEAP, batch_sentence
from tests.processes import environment, module

if TYPE_CHECKING:
    from pathlib import Path

CUT = "at worker\n  streaming.handover.IncompleteBatchError: lane 1 (partitions 1, 3): 0 rows came\n"
FULL_HEAP = "Task 0 in stage 5.0 failed 1 times: java.lang.OutOfMemoryError: Java heap space"
# The lane that is large, its rows, the MB of each, and whether its worker is killed once most are served.
SMALL, KILLED, MANY, LARGE = (0, 1, 1), (1, 10, 2, True), (1, 60, 2), (0, 1, 80)
SHAPES = [KILLED, (2, 1, 48), MANY, SMALL, LARGE, SMALL]


@pytest.mark.slow
@pytest.mark.spark
def test_what_does_not_fit_into_the_heap_is_an_error_and_never_a_short_batch(tmp_path: Path) -> None:
    command = module("streaming.support.heap_job", tmp_path, 512, *map(json.dumps, SHAPES))
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=500, check=False, env=environment()
    )
    batches = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert len(batches) == len(SHAPES), done.stderr[-3_000:]
    for (_, rows, *_), batch in zip(SHAPES, batches, strict=True):
        # All lanes' rows, once each, or none.
        assert batch["taken"] == (-1 if batch["error"] else rows + 2)
    assert {bool(batch["error"]) for batch in batches} == {True, False}
    # A worker that was killed while it served is replaced, and what it had served counts once.
    assert (tmp_path / f"died-{SHAPES.index(KILLED)}").exists()
    assert not batches[SHAPES.index(KILLED)]["error"]
    # What the JVM itself says of it goes to its log alone.
    cut = [batch for batch in batches if batch["error"].startswith("IncompleteBatchError")]
    assert all(batch["peak"] >= FULL or batch["peak"] < 0 for batch in cut)
    # Whatever the error says: where the JVM lives on, its words or the heap's peak tell.
    for error, peak in [(batch["error"], batch["peak"]) for batch in batches]:
        if error and peak >= 0:
            with pytest.raises(HeapError):
                classify_with_heap(RuntimeError(error), 2, [], peak, dict)


@pytest.mark.parametrize("words", [CUT, FULL_HEAP])
def test_a_batch_that_did_not_fit_runs_again_once_and_is_then_given_up_with_lane_offsets_and_heap(
    words: str,
) -> None:
    spans = {3: (100, 2_100), 0: (-1, 7)}
    first = classify_with_heap(RuntimeError(words), 1, [], 0.97, lambda: spans)
    assert first["remedy"] == "the batch runs again"
    with pytest.raises(HeapError) as given_up:
        classify_with_heap(RuntimeError(words), 2, [], 0.97, lambda: spans)
    why = given_up.value.what
    assert "failed 2 times in a row" in why
    assert ("lane 1 (partitions 1, 3): 0 rows came" in why) == (words == CUT)
    assert "partition 0 from 0 to 6; 3 from 100 to 2,099" in why
    assert "The heap was 97% full at most" in why
    assert given_up.value.remedy == MORE_HEAP
    assert isinstance(given_up.value, DependencyError)


def test_an_error_that_does_not_name_the_heap_is_the_heaps_where_the_batch_filled_it_again() -> None:
    error = RuntimeError("Exception while getting task result: IllegalStateException: unread block data")
    # Of the first failure the peak may be older than the batch.
    for failures, peak in ((1, 1.0), (2, 0.5), (2, None)):
        assert "why" not in classify_with_heap(error, failures, [], peak, dict)
    with pytest.raises(HeapError, match=FILLED):
        classify_with_heap(error, 2, [], CROWDED, dict)


def test_where_the_heap_had_room_it_is_not_blamed() -> None:
    assert "may not be the cause" in batch_sentence({}, 0.1)


def test_a_batch_beyond_its_share_is_refused_with_what_to_set() -> None:
    error = "  HandoverLimitError: A lane has more than 64 MB. Raise `spark.driver.memory`."
    with pytest.raises(ConfigError, match=r"^A lane has more than 64 MB\. Raise `spark\.driver\.memory`\.$"):
        classify_with_heap(RuntimeError(f"Traceback\n{error}\nat jvm"), 1, [], None, dict)
