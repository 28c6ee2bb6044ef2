"""The system's clock of single processes, set while they run (c/clock.c)."""

from __future__ import annotations

import shutil
import struct
import subprocess
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent / "c" / "clock.c"


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
