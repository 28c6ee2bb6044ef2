"""What ends the job is published before it ends."""

from __future__ import annotations

import json
from subprocess import Popen
from threading import Event
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from py4j.protocol import Py4JNetworkError

from rebalance_monitor.config.model import Settings
from rebalance_monitor.coordinator.settings import DetectionSettings
from rebalance_monitor.engine.batch.step import Plan
from rebalance_monitor.engine.driver.failures import JobError
from rebalance_monitor.engine.driver.job import Job, Options
from rebalance_monitor.engine.driver.outputs import Outputs
from rebalance_monitor.engine.storage import Storage
from rebalance_monitor.engine.topic.facts import TopicFacts
from rebalance_monitor.streaming.job import job as jobs
from rebalance_monitor.streaming.job.heap_failures import HeapError
from rebalance_monitor.streaming.query.query import ended_by_others
from rebalance_monitor.streaming.spark.heap import NO_HEAP, OOM_CODE

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

FACTS = TopicFacts("__consumer_offsets", "topic", "c1", {0: 0}, {0: 0})
OFF: Mapping[str, Any] = {"enabled": False}


def end(root: Path, stop: Event, code: int = 137) -> None:
    """Run a job whose JVM has gone, with this code."""
    settings, detection = Settings(web=OFF, probe=OFF, audit={"every_batches": 0}), DetectionSettings()
    with Outputs(settings, Storage(root), FACTS, detection) as outputs, ended_by_others(stop):
        plan: Any = Plan(detection, "c1", {})
        storage = Storage(root)
        with Popen(["sh", "-c", f"exit {code}"]) as jvm:
            jvm.wait()
        session: Any = SimpleNamespace(sparkContext=SimpleNamespace(_gateway=SimpleNamespace(proc=jvm)))
        state = str(root / "state")
        engine = jobs.SparkEngine(settings, Options(), stop, session, outputs.writer, state)
        Job(settings, Options(), stop, engine, outputs, plan, storage, None).run(FACTS)


def told(root: Path) -> list[str]:
    lines = Storage(root).jsonl.read_text(encoding="utf-8").splitlines()
    return [json.loads(line)["causes"][0]["why"] for line in lines]


@pytest.fixture(autouse=True)
def _gone(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(*_: object) -> None:
        raise Py4JNetworkError("Answer from Java side is empty")

    monkeypatch.setattr(jobs, "start_query", gone)


def test_a_jvm_that_was_killed_is_a_dependency_that_is_away_and_is_reported(tmp_path: Path) -> None:
    with pytest.raises(JobError, match="ran out of memory"):
        end(tmp_path, Event())
    assert told(tmp_path) == ["the monitor stopped: Answer from Java side is empty"]


def test_a_jvm_that_ended_for_want_of_heap_is_reported_as_that_with_what_to_raise(tmp_path: Path) -> None:
    with pytest.raises(HeapError, match=r"ran out of heap\.\nRaise `spark\.driver\.memory`"):
        end(tmp_path, Event(), OOM_CODE)
    assert told(tmp_path) == [f"the monitor stopped: {NO_HEAP}"]


def test_a_jvm_that_ended_because_the_job_was_stopped_is_not_reported(tmp_path: Path) -> None:
    stop = Event()
    stop.set()
    end(tmp_path, stop)
    assert told(tmp_path) == []
