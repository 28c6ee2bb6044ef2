"""What Arrow has freed goes back to the system, and threads share what they free."""

from __future__ import annotations

import ctypes
import gc
import subprocess
import sys

import pytest

from rebalance_monitor.engine.memory import ARENAS, COLLECT_AFTER, collected_rarely, uncollected

RUN = """
import sys
import pyarrow as pa
from rebalance_monitor.engine import memory
from rebalance_monitor.engine.memory import use_system_pool

def resident():
    with open("/proc/self/statm") as looked:
        return int(looked.read().split()[1])

use_system_pool()
pa.array(["what the first one loads"])
before = resident()
kept = [pa.array(["x" * 1_000 for _ in range(100)]) for _ in range(1_000)][::50]
held = resident()
getattr(memory, sys.argv[1])()
print(before, held, resident())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="resident memory is read from /proc")
@pytest.mark.parametrize("by", ["give_back", "take_for_good"])
def test_freed_buffers_are_given_back_while_others_between_them_stay(by: str) -> None:
    done = subprocess.run([sys.executable, "-c", RUN, by], capture_output=True, text=True, check=True)
    before, held, after = map(int, done.stdout.split())
    assert after - before < (held - before) / 3, done.stdout


SETTLED = """
import gc
from rebalance_monitor.engine.memory import settle
gc.collect()
counts, kept = [], []
for task in range(300):
    kept.append([])
    settle()
    counts.append(gc.get_freeze_count())
print([at for at, (a, b) in enumerate(zip(counts, counts[1:]), 1) if b > a])
"""


def test_a_worker_takes_what_it_holds_for_good_a_few_times_only() -> None:
    """Each time costs what is in a cycle then: it is never freed."""
    done = subprocess.run([sys.executable, "-c", SETTLED], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[2, 20, 200]"


HEAPS = """
import ctypes, re, sys, tempfile, threading
from rebalance_monitor.engine.memory import few_arenas
if sys.argv[1] == "few":
    few_arenas()
libc = ctypes.CDLL(None)
libc.fdopen.restype = libc.malloc.restype = ctypes.c_void_p
together = threading.Barrier(8)

def work():
    together.wait()
    for _ in range(1_000):
        libc.malloc(ctypes.c_size_t(3_000))
    together.wait()

threads = [threading.Thread(target=work) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
with tempfile.TemporaryFile() as file:
    stream = libc.fdopen(file.fileno(), b"w")
    libc.malloc_info(0, ctypes.c_void_p(stream))
    libc.fflush(ctypes.c_void_p(stream))
    file.seek(0)
    print(len(re.findall(rb"<heap nr=", file.read())))
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_info"), reason="heaps are counted by glibc")
def test_all_threads_share_two_heaps() -> None:
    found = {}
    for how in ("few", "usual"):
        done = subprocess.run([sys.executable, "-c", HEAPS, how], capture_output=True, text=True, check=True)
        found[how] = int(done.stdout)
    assert found["few"] <= ARENAS < found["usual"], found


def test_the_collector_goes_on_after_what_is_not_looked_through_even_where_that_fails() -> None:
    assert gc.isenabled()
    with uncollected():
        assert not gc.isenabled()
    assert gc.isenabled()
    with pytest.raises(ZeroDivisionError), uncollected():
        1 / 0  # noqa: B018 - it fails
    assert gc.isenabled()
    gc.disable()
    try:
        with uncollected():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_garbage_is_looked_for_rarely_for_as_long_as_a_block_lasts_and_as_before_behind_it() -> None:
    before = gc.get_threshold()
    with collected_rarely():
        assert gc.get_threshold() == (COLLECT_AFTER, *before[1:])
    assert gc.get_threshold() == before
    with pytest.raises(ZeroDivisionError), collected_rarely():
        1 / 0  # noqa: B018 - it fails
    assert gc.get_threshold() == before


HELD = """
import gc, weakref
from rebalance_monitor.engine.memory import take_for_good

class Node: pass

def cycle():
    one = Node()
    one.itself = one
    return weakref.ref(one)

gc.disable()
lost, held = cycle(), [Node() for _ in range(1_000)]
take_for_good()
print(lost() is None, gc.get_freeze_count() >= 1_000)
"""


def test_what_is_held_is_taken_for_good_and_cyclic_garbage_is_freed_first() -> None:
    done = subprocess.run([sys.executable, "-c", HELD], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "True"]


PANDAS = """
import sys
import pyarrow as pa
from rebalance_monitor.engine.memory import without_pandas
without_pandas()
pa.array([b"x", None], pa.binary()).to_pylist()
print("pandas" in sys.modules)
import pandas
print(pandas.Series([1]).sum())
"""


def test_arrow_works_without_pandas_and_with_it_once_imported() -> None:
    pytest.importorskip("pandas")
    done = subprocess.run([sys.executable, "-c", PANDAS], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "1"]
