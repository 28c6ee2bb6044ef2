"""CPU time and memory of a process and everything under it (Linux /proc): the JVM and its Python workers."""

from __future__ import annotations

import os
import threading
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from re import sub
from typing import TYPE_CHECKING, NamedTuple, Self

if TYPE_CHECKING:
    from collections.abc import Iterator

MACHINE = "/proc/stat"
TICK_S = 1 / os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
# Fields of /proc/PID/stat after the command: parent, own CPU time, with that of children that have ended,
# start, resident pages.
PARENT, OWN, ALL, START, RESIDENT = 1, slice(11, 13), slice(11, 15), 19, 21
STOLEN = 8  # a field of the first line of MACHINE


@dataclass(frozen=True, slots=True)
class Usage:
    """CPU seconds since the meter began, and resident bytes (now, or the peak), by kind of process."""

    jvm_s: float
    python_s: float
    jvm_bytes: int
    python_bytes: int

    @property
    def cpu_s(self) -> float:
        """CPU seconds of the whole tree."""
        return self.jvm_s + self.python_s


class _Process(NamedTuple):
    pid: int
    is_jvm: bool
    parent: int
    start: int
    cpu_s: float
    resident: int


def _processes() -> Iterator[_Process]:
    # The meter shares the process with what it measures, and pathlib takes four times as long.
    for name in os.listdir("/proc"):  # noqa: PTH208 - as above
        found = process_of(int(name)) if name.isdecimal() else None
        if found is not None:
            yield found


def process_of(pid: int) -> _Process | None:
    """Return what one process has used so far, None if it is gone."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:  # noqa: PTH123 - as above
            text = file.read()
    except OSError:
        return None
    command, _, rest = text.partition("(")[2].rpartition(")")
    fields = rest.split()
    is_jvm = command == "java"
    # The JVM's own children are commands of a millisecond, which no sample meets.
    cpu_s = sum(map(int, fields[ALL if is_jvm else OWN])) * TICK_S
    resident = int(fields[RESIDENT]) * PAGE
    return _Process(pid, is_jvm, int(fields[PARENT]), int(fields[START]), cpu_s, resident)


def stolen_s() -> float:
    """CPU seconds since boot that the host gave to other machines while this one had work for them."""
    with open(MACHINE, encoding="ascii") as file:  # noqa: PTH123 - as above
        return int(file.readline().split()[STOLEN]) * TICK_S


class Meter:
    """Follows the tree under this process, or under `top`, while the block runs, by samples twice a second.

    A worker that is killed takes its CPU time with it: what was sampled of it stays counted, so at most half
    a second of each is lost.
    """

    def __init__(self, every_s: float = 0.5, top: int | None = None) -> None:
        self._every_s = every_s
        self._top = top or os.getpid()
        self._lock = threading.Lock()
        self._cpu: dict[tuple[int, int, bool], float] = {}
        self._peak = (0, 0)
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._done.wait(self._every_s):
            self.read()

    def read(self) -> Usage:
        """Sample now; CPU of all processes seen so far, memory at its peak so far."""
        processes = list(_processes())
        parents = {process.pid: process.parent for process in processes}
        tree = [process for process in processes if _is_under(process.pid, self._top, parents)]
        with self._lock:
            self._cpu |= {(p.pid, p.start, p.is_jvm): p.cpu_s for p in tree}
            resident = tuple(sum(p.resident for p in tree if p.is_jvm is jvm) for jvm in (True, False))
            self._peak = max(self._peak[0], resident[0]), max(self._peak[1], resident[1])
            jvm = sum(cpu for (*_, is_jvm), cpu in self._cpu.items() if is_jvm)
            return Usage(jvm, sum(self._cpu.values()) - jvm, *self._peak)


def jvm_threads() -> Counter[str]:
    """CPU ticks (TICK_S) so far of the threads of the JVMs under this process, by name without numbers."""
    processes = list(_processes())
    parents = {process.pid: process.parent for process in processes}
    found: Counter[str] = Counter()
    for process in processes:
        if not process.is_jvm or not _is_under(process.pid, os.getpid(), parents):
            continue
        for thread in Path(f"/proc/{process.pid}/task").iterdir():
            with suppress(OSError):
                name, _, rest = (thread / "stat").read_text().partition("(")[2].rpartition(")")
                found[sub(r"[-#0-9. ]*\d+$", "", name)] += sum(map(int, rest.split()[OWN]))
    return found


def _is_under(pid: int, top: int, parents: dict[int, int]) -> bool:
    while pid and pid != top:
        pid = parents.get(pid, 0)
    return pid == top
