"""Failures of a Spark query because the heap of its JVM was too small, and the error that ends the job."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rebalance_monitor.engine.driver.failures import JobError, classify_failure, last_line
from rebalance_monitor.engine.health.notices import ERROR
from rebalance_monitor.streaming.spark.heap import (
    CROWDED,
    EXECUTOR_OOM,
    FILLED,
    MORE_HEAP,
    NO_HEAP,
    OUT_OF_MEMORY,
    batch_sentence,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from rebalance_monitor.cluster.captures.heavy import HeavyRecord

# A batch that did not fit into the heap twice does not fit.
HEAP_FAILURES = 2
INCOMPLETE = "IncompleteBatchError"


class HeapError(JobError):
    """The heap of Spark's JVM did not hold a batch; the message says which, and what to do."""


class HeavyRecordError(HeapError):
    """One record needs more heap than there is, at each start again: skip it, or give more heap."""


def classify_with_heap(
    error: Exception,
    failures: int,
    where: Iterable[str],
    peak: float | None,
    spans: Callable[[], Mapping[int, tuple[int, int]]],
) -> dict[str, str]:
    """Return what to log about the failure; `failures.classify_failure` takes all that have another reason.

    `peak`: how full the heap was since the failure before, None where the JVM no longer answers; `spans`:
    what the batch read. An error that Java's own code passes on (`unread block data`) says nothing of the
    heap that ran out: the peak does, once the batch has run again. Raises HeapError where it failed so often.
    """
    text = str(error)
    why = _heap(text)
    if not why:
        found = classify_failure(error, failures, where)
        if "why" in found or failures < HEAP_FAILURES or (peak or 0.0) < CROWDED:
            return found
        why = FILLED
    why = f"{why} {batch_sentence(spans(), peak)}".strip()
    if failures >= HEAP_FAILURES:
        raise HeapError(f"The same batch failed {failures} times in a row. {why}", MORE_HEAP)
    return {"why": why, "remedy": "the batch runs again", "error": text[:ERROR]}


def heap_error(why: str, heavy: HeavyRecord | None) -> HeapError:
    """Return the error that ends a job whose JVM ran out of heap; `heavy`: the record that is to blame."""
    if heavy is None:
        return HeapError(why, MORE_HEAP)
    sentence = f"{why} {heavy.sentence()}"
    if heavy.offset < 0:
        return HeapError(sentence, MORE_HEAP)
    skip = "source.skip: {" + ", ".join(f"{p}: {last}" for p, last in sorted(heavy.skip.items())) + "}"
    remedy = (
        f"If it is no record of Kafka's own, set `{skip}`: a new state is begun that reads the partition "
        "from behind its batch, and its groups are judged from their next records on. If it is, raise "
        "`spark.driver.memory`."
    )
    return HeavyRecordError(sentence, remedy)


def _heap(text: str) -> str:
    """Return what an error says about the heap, "" where it is another error."""
    if INCOMPLETE in text:
        return f"The batch did not reach the driver whole: {last_line(text, INCOMPLETE)}."
    return NO_HEAP if OUT_OF_MEMORY in text or EXECUTOR_OOM in text else ""
