"""What the driver learns from Spark's progress reports."""

from __future__ import annotations

from typing import Any

import pytest

from rebalance_monitor.engine.batch.progress import Progress
from rebalance_monitor.streaming.query.reports import progress_of, source_ends

PROGRESS: dict[str, Any] = {
    "batchId": 3,
    "durationMs": {"addBatch": 250, "walCommit": 40},
    "sources": [
        {
            "description": "KafkaV2[Assign[t]]",
            "endOffset": {"t": {"0": 10, "1": 5}},
            "latestOffset": {"t": {"0": 12, "1": 5}},
        },
        {
            "description": "RatePerMicroBatchStream[]",
            "endOffset": {"offset": 4},
            "latestOffset": {"offset": 4},
        },
        {"description": "Memory", "endOffset": None, "latestOffset": None},
    ],
    "stateOperators": [{"memoryUsedBytes": 300}, {"memoryUsedBytes": 40}],
}


def test_a_report_gives_ends_stages_lag_and_the_memory_of_the_stores() -> None:
    stages = {"addBatch": 0.25, "walCommit": 0.04}
    assert progress_of(PROGRESS, "t") == Progress({0: 10, 1: 5}, stages, 2, 340)


def test_progress_of_other_sources_is_passed_over() -> None:
    rate = {"description": "RatePerMicroBatchStream[...]", "endOffset": {"offset": 3}}
    kafka = {"description": "KafkaV2[Assign[...]]", "endOffset": {"__consumer_offsets": {"0": 12}}}
    assert source_ends({"sources": [rate, kafka]}, "__consumer_offsets") == {0: 12}
    assert source_ends({"sources": [rate]}, "__consumer_offsets") is None


@pytest.mark.parametrize("ends", [None, {}, {"other": {"0": 1}}])
def test_a_source_without_offsets_has_read_nothing(ends: object) -> None:
    progress = {"sources": [{"description": "KafkaV2[...]", "endOffset": ends}]}
    assert source_ends(progress, "__consumer_offsets") == {}
