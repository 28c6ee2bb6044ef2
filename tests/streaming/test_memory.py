"""What Arrow has freed goes back to the system, though buffers between it are still in use."""

from __future__ import annotations

import subprocess
import sys

import pytest

RUN = """
import pyarrow as pa
from rebalance_monitor.streaming.memory import give_back, use_system_pool

def resident():
    with open("/proc/self/statm") as looked:
        return int(looked.read().split()[1])

use_system_pool()
pa.array(["what the first one loads"])
before = resident()
kept = [pa.array(["x" * 1_000 for _ in range(100)]) for _ in range(1_000)][::50]
held = resident()
give_back()
print(before, held, resident())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="resident memory is read from /proc")
def test_freed_buffers_are_given_back_while_others_between_them_stay() -> None:
    done = subprocess.run([sys.executable, "-c", RUN], capture_output=True, text=True, check=True)
    before, held, after = map(int, done.stdout.split())
    assert after - before < (held - before) / 3, done.stdout
