"""A job that is killed (SIGKILL) at random moments, who of it, and where in its life that was.

All of it at once, as a container is ended; its driver alone, of which the JVM must take notice; or its JVM
alone, as the kernel does where memory is short, with which the driver must end.

Short lives are killed at a moment drawn from the start of the process on, over somewhat more than a start
took last: while it starts, recovers its state, or runs a batch again. Long ones commit a batch first, so that
the job gets on however slow the machine is.
"""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from itertools import cycle
from typing import TYPE_CHECKING, NamedTuple

from rebalance_monitor.cli.exit_codes import ExitCode
from rebalance_monitor.lab.cluster.node import wait_until

if TYPE_CHECKING:
    import random

    from tests.chaos.support.rig import ChaosJob

# What the job's log says once its query runs.
WATCHES = '"watching"'
# What a start is taken to last before one was seen, and how much further short lives may reach; long ones
# go on for up to so many seconds after a batch.
START_S = 20.0
BEYOND = 1.25
AFTER_S = 4.0
STARTS = "before the query ran"
FIRST = "in the first batch"
AGAIN = "in a first batch that had begun in another life"
AFTER = "after a batch"
ALL, DRIVER, THE_JVM = "all of it", "its driver", "its JVM"


class Reached(NamedTuple):
    """The newest batch that Spark has planned, and has committed; -1 before the first."""

    planned: int
    committed: int


def reached(job: ChaosJob) -> Reached:
    """How far the checkpoint of the job is."""

    def newest(what: str) -> int:
        return max((int(path.name) for path in job.storage.glob(f"state/*/{what}/[0-9]*")), default=-1)

    return Reached(newest("offsets"), newest("commits"))


class Kills:
    """Starts the job and kills it; counts where in its life each kill fell, and whom it hit."""

    def __init__(self, job: ChaosJob, dice: random.Random, patience_s: float) -> None:
        self._job, self._dice, self._patience_s = job, dice, patience_s
        self._start_s = START_S
        self.stages: Counter[str] = Counter()
        self.victims: Counter[str] = Counter()
        self._turns = cycle((THE_JVM, DRIVER, ALL))

    def early(self) -> None:
        """Kill it at a random moment of its start, or shortly after."""
        life_s = self._dice.uniform(0, BEYOND * self._start_s)
        before = reached(self._job)
        with self._job:
            wait_until(lambda: not self._job.alive, life_s)
            self._kill(before)

    def late(self) -> None:
        """Let it commit a batch, and kill it at a random moment after that."""
        before, began = reached(self._job), time.monotonic()
        with self._job:
            assert wait_until(
                lambda: reached(self._job).committed > before.committed or not self._job.alive,
                self._patience_s,
            )
            self._start_s = time.monotonic() - began
            time.sleep(self._dice.uniform(0, AFTER_S))
            self._kill(before)

    def _kill(self, before: Reached) -> None:
        self._job.require()
        jvms = self._job.jvms()
        # None is there at the beginning.
        victim = next(self._turns) if jvms else ALL
        if victim is ALL:
            self._job.kill()
        else:
            os.kill(jvms[0] if victim is THE_JVM else self._job.pid, signal.SIGKILL)
        assert wait_until(lambda: not self._job.alive, self._patience_s)
        if victim is THE_JVM:
            assert self._job.code == ExitCode.UNREACHABLE, self._job.log
        # Nobody is left who writes on.
        assert wait_until(lambda: not self._job.rest(), self._patience_s), victim
        self.victims[victim] += 1
        self.stages[self._stage(before)] += 1

    def _stage(self, before: Reached) -> str:
        if reached(self._job).committed > before.committed:
            return AFTER
        if WATCHES not in self._job.log:
            return STARTS
        return AGAIN if before.planned > before.committed else FIRST
