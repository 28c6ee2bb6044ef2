"""Modules of the tests that run in a process of their own."""

from __future__ import annotations

import os
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def module(name: str, *arguments: object) -> list[str]:
    """Return the command that runs `tests.<name>` with this Python."""
    return [sys.executable, "-m", f"tests.{name}", *map(str, arguments)]


def environment(**more: str) -> dict[str, str]:
    """Return this process's environment and `more`, with the repository on Python's path.

    `-m` finds the tests by the current folder alone, which Python passes over once a Spark session has been
    started in this process (`PYTHONSAFEPATH`).
    """
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    return {**os.environ, "PYTHONPATH": path, **more}
