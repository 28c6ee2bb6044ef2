"""The heap of the driver's JVM: its size, its peak, and the advice where it was too small.

An error of the heap may leave no trace but a line of the JVM: its thread ends, and the caller of that thread
gets a closed socket. The JVM still reports the peak of the heap. A task without heap ends the JVM of
a local master with an exit code of its own.
"""

from __future__ import annotations

import subprocess
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

OUT_OF_MEMORY = "java.lang.OutOfMemoryError"
MORE_HEAP = (
    "Raise `spark.driver.memory` under `spark:` (1g where nothing is set) and start again: the batch is read "
    "again, nothing is lost. History that is too long for one batch is cut by "
    "`source.max_offsets_per_trigger`, with --rebuild-state once."
)
# Spark's code for it (SparkExitCode.OOM), by which its JVM ends after an error of the heap in a task.
OOM_CODE = 52
EXECUTOR_OOM = f"Command exited with code {OOM_CODE}"
NO_HEAP = "Spark's JVM ran out of heap."
ENDING_S = 10.0
# What does not fit is not counted in, and is often a copy of the largest thing there is.
FULL = 0.5
SHOWN = 5
# A batch that fills so much of it, and fails again, is too large for it.
CROWDED = 0.9
FILLED = "The batch filled the heap of Spark's JVM again, which its error may not say."
# Pools of new objects, which are full again and again.
_YOUNG = ("Eden", "Survivor")


def heap_bytes(session: SparkSession) -> int:
    """Return the largest heap that the driver's JVM may have."""
    size: int = _jvm(session).java.lang.Runtime.getRuntime().maxMemory()
    return size


def heap_peak(session: SparkSession) -> float:
    """Return the peak of the heap since the last call, as a share of its largest size.

    What is garbage by then is collected, so that the next peak is of what came after.
    """
    beans = _jvm(session).java.lang.management.ManagementFactory.getMemoryPoolMXBeans()
    old = [pool for pool in beans if pool.getType().name() == "HEAP" and not _is_young(pool.getName())]
    shares = [pool.getPeakUsage().getUsed() / pool.getUsage().getMax() for pool in old]
    _jvm(session).java.lang.System.gc()
    for pool in old:
        pool.resetPeakUsage()
    return max(shares, default=0.0)


def batch_sentence(spans: Mapping[int, tuple[int, int]], peak: float | None) -> str:
    """Say what a batch read (partition -> first offset, offset to stop before) and how full the heap was.

    `peak`: None where the JVM no longer answers.
    """
    read = [f"{p} from {max(first, 0):,} to {end - 1:,}" for p, (first, end) in sorted(spans.items())]
    more = f" and {len(read) - SHOWN} more" if len(read) > SHOWN else ""
    offsets = f"It read the offsets of partition {'; '.join(read[:SHOWN])}{more}. " if read else ""
    if peak is None:
        return offsets.strip()
    verdict = "that is too small for this batch" if peak >= FULL else "so the heap may not be the cause"
    return f"{offsets}The heap was {peak:.0%} full at most: {verdict}."


def _is_young(pool: str) -> bool:
    return any(name in pool for name in _YOUNG)


def ended_without_heap(session: SparkSession) -> bool:
    """Whether the driver's JVM has ended, or is about to, because a task ran out of heap.

    False where it is not our child: a platform says so itself. Blocks for some seconds.
    """
    process = getattr(session.sparkContext._gateway, "proc", None)  # noqa: SLF001 - there is no public way to its process
    if process is None:
        return False
    with suppress(subprocess.TimeoutExpired):
        return bool(process.wait(ENDING_S) == OOM_CODE)
    return False


def _jvm(session: SparkSession) -> Any:  # noqa: ANN401 - py4j makes its types at run time
    return session._jvm  # noqa: SLF001 - there is no public way to ask
