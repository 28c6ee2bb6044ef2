"""The system's clock is set, an hour back and forth, under a running job: it goes on, and tells the same.

For driver, JVM and workers, by c/clock.c; the broker's clock stays.
"""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark")

from rebalance_monitor.lab.broker import LabBroker
from tests.chaos.rig import PATIENCE_S, Rig, of_faults

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = of_faults(1_200 + 5 * PATIENCE_S)
SOURCE = Path(__file__).parent / "c" / "clock.c"
HOUR_S = 3_600


@pytest.fixture
def broker() -> Iterator[LabBroker]:
    with LabBroker(offsets_partitions=8) as found:
        yield found


class Clock:
    """The clock of processes that are started with `environment`; `folder` is its own."""

    def __init__(self, folder: Path) -> None:
        if not shutil.which("cc"):
            pytest.skip("there is no C compiler here (make deps-ci)")
        library, self._file = folder / "clock.so", folder / "clock"
        command = ["cc", "-shared", "-fPIC", "-O2", "-Wall", "-Werror", "-o", library, SOURCE]
        subprocess.run(command, check=True)
        self.environment = {"LD_PRELOAD": str(library), "CLOCK_FILE": str(self._file)}
        self.set(0)

    def set(self, ahead_s: int) -> None:
        """Set it, at once for all of them."""
        with self._file.open("r+b" if self._file.exists() else "wb") as file:
            file.write(struct.pack("=q", ahead_s))


def test_the_clock_is_what_it_is_set_to(tmp_path: Path) -> None:
    clock = Clock(tmp_path)
    code = "import time; print(time.time() - time.monotonic())"
    leads = []
    for ahead_s in (0, -HOUR_S, HOUR_S):
        clock.set(ahead_s)
        command = [sys.executable, "-c", code]
        environment = {**os.environ, **clock.environment}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        leads.append(round(float(done.stdout) - (time.time() - time.monotonic())))
    assert leads == [0, -HOUR_S, HOUR_S]


def test_a_clock_that_is_set_an_hour_back_and_forth_stops_nothing(
    broker: LabBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(tmp_path)
    rig = Rig(broker.bootstrap, tmp_path / "job")
    rig.pulse("clock-steady")
    for name, value in clock.environment.items():
        monkeypatch.setenv(name, value)
    with rig.job:
        rig.job.wait_ready()
        for ahead_s in (-HOUR_S, HOUR_S, 0):
            clock.set(ahead_s)
            began, group = time.monotonic(), f"clock{ahead_s:+d}"
            rig.pulse(group)
            rig.await_told(lambda f, group=group: f.group == group and f.kind == "rebalance")
            assert time.monotonic() - began < HOUR_S / 2
        rig.require_truth()
        rig.job.require()
        assert rig.job.log.count("the clock was set back") == 2
