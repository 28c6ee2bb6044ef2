"""The system's clock is set, an hour back and forth, under a running job: it goes on, and tells the same.

By libfaketime, for driver, JVM and workers; the broker's clock stays.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark")

from rebalance_monitor.lab.broker import LabBroker
from tests.chaos.rig import PATIENCE_S, Rig

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [
    pytest.mark.chaos,
    pytest.mark.spark,
    pytest.mark.broker,
    pytest.mark.timeout(1_200 + 5 * PATIENCE_S),
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
]
HOUR_S = 3_600


@pytest.fixture
def broker() -> Iterator[LabBroker]:
    with LabBroker(offsets_partitions=8) as found:
        yield found


class Clock:
    """What libfaketime adds to the time of processes that are started with it."""

    def __init__(self, file: Path) -> None:
        found = sorted(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))
        if not found:
            pytest.skip("libfaketime is not installed (make deps-ci)")
        self._file = file
        self.environment = {
            "LD_PRELOAD": str(found[0]),
            "FAKETIME_TIMESTAMP_FILE": str(file),
            "FAKETIME_NO_CACHE": "1",
            # A step of the system's clock moves neither of these.
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "NO_FAKE_STAT": "1",
        }
        self.set(0)

    def set(self, ahead_s: int) -> None:
        draft = self._file.with_suffix(".draft")
        draft.write_text(f"{ahead_s:+d}s")
        draft.replace(self._file)


def test_a_clock_that_is_set_an_hour_back_and_forth_stops_nothing(
    broker: LabBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(tmp_path / "clock")
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
