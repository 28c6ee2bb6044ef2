"""Memory over months: Arrow returns unused memory to the system; when to collect cyclic garbage.

Arrow's own choice, mimalloc, keeps what a merge of files or a page of history took: 160 MB were resident for
38 MB in use after two hours of load. The system's allocator is asked to give back (`malloc_trim` with glibc),
which also covers what other libraries have freed, and to keep few heaps.
"""

from __future__ import annotations

import ctypes
import gc
import sys
from contextlib import contextmanager, suppress
from importlib.abc import MetaPathFinder
from itertools import count
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterator

SETTLES = frozenset({2, 20, 200, 2_000, 20_000})
"""Tasks of a worker before which what it holds is taken for good."""

COLLECT_AFTER = 50_000
"""New objects between two collections of cyclic garbage: many live long and hardly any is in a cycle."""

ARENAS = 2
_M_ARENA_MAX = -8

_tasks = count()


def use_system_pool() -> None:
    """Let Arrow take its buffers from the system's allocator from now on; for the whole process."""
    pa.set_memory_pool(pa.system_memory_pool())


class _NoPandas(MetaPathFinder):
    """Says of pandas that it is not installed."""

    @classmethod
    def find_spec(cls, name: str, *_: object) -> None:
        if name == "pandas":
            raise ModuleNotFoundError(name)


def without_pandas() -> None:
    """Let Arrow do without pandas, where that is installed; for the whole process, before it makes an array.

    Arrow loads it to see whether a list is one of its series: 35 MB and half a second of CPU for nothing.
    """
    if "pandas" in sys.modules:
        return
    sys.meta_path.insert(0, _NoPandas)
    try:
        # It asks once.
        pa.array([0])
    finally:
        sys.meta_path.remove(_NoPandas)


def few_arenas() -> None:
    """Let all threads of the process share two heaps of glibc's; elsewhere nothing.

    It gives each thread one of its own, and each keeps what others could use: 270 MB of 500 after hours of
    load. Where the environment's MALLOC_ARENA_MAX can be set, as for JVMs, that does the same.
    """
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, ARENAS)


def give_back() -> None:
    """Return freed memory to the system; takes milliseconds."""
    pa.default_memory_pool().release_unused()


def settle() -> None:
    """Exclude what a worker holds for good from garbage collection; called at the beginning of a task.

    pyspark collects cyclic garbage after every task, through every library and all objects that live from
    batch to batch. A few times only: a frozen object that ends in a cycle is never freed.
    """
    if next(_tasks) in SETTLES:
        gc.freeze()


@contextmanager
def uncollected() -> Iterator[None]:
    """Suspend garbage collection: tens of thousands of findings hold no cycles, and a collection is dear.

    Each collection walks through all objects since the last one, and often through all of the process.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@contextmanager
def collected_rarely() -> Iterator[None]:
    """Collect cyclic garbage after `COLLECT_AFTER` objects meanwhile, for the whole process.

    Python's default, 700, made each batch of a steady job end with a collection: a quarter of its CPU.
    """
    first, *others = gc.get_threshold()
    gc.set_threshold(COLLECT_AFTER, *others)
    try:
        yield
    finally:
        gc.set_threshold(first, *others)


def take_for_good() -> None:
    """Exclude the present objects from later collections of cyclic garbage; return what is free.

    Young garbage is freed first. Freeing old garbage too would stop everything for half a second. Reading
    history leaves much unused: 43 of 370 MB with 10,000 groups.
    """
    gc.collect(1)
    gc.freeze()
    give_back()
