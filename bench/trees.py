"""CPU time and memory of a process and everything under it (Linux /proc): the JVM and its Python workers."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

TICK_S = 1 / os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
# Fields of /proc/PID/stat after the command: parent, then own and reaped children's CPU time.
PARENT, CPU, RESIDENT = 1, slice(11, 15), 21


@dataclass(frozen=True, slots=True)
class Usage:
    """CPU seconds since each process began, and resident bytes now, by kind of process."""

    jvm_s: float
    python_s: float
    jvm_bytes: int
    python_bytes: int

    @property
    def cpu_s(self) -> float:
        """CPU seconds of the whole tree."""
        return self.jvm_s + self.python_s


def _read(folder: Path) -> tuple[int, str, list[str]] | None:
    try:
        text = (folder / "stat").read_text()
    except OSError:
        return None
    name, _, rest = text.partition("(")[2].rpartition(")")
    return int(folder.name), name, rest.split()


def usage(root: int | None = None) -> Usage:
    """Measure the tree under `root` (default: this process). Reaped children count with their parents."""
    rows = [row for path in Path("/proc").glob("[0-9]*") if (row := _read(path))]
    parents = {pid: int(fields[PARENT]) for pid, _, fields in rows}
    top = root or os.getpid()
    cpu, resident = {True: 0.0, False: 0.0}, {True: 0, False: 0}
    for pid, name, fields in rows:
        if _is_under(pid, top, parents):
            cpu[name == "java"] += sum(map(int, fields[CPU])) * TICK_S
            resident[name == "java"] += int(fields[RESIDENT]) * PAGE
    return Usage(cpu[True], cpu[False], resident[True], resident[False])


def _is_under(pid: int, top: int, parents: dict[int, int]) -> bool:
    while pid and pid != top:
        pid = parents.get(pid, 0)
    return pid == top
