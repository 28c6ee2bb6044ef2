"""Which versions of Python, the client libraries and the code run here, for what a suite keeps of itself."""

from __future__ import annotations

import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

LIBRARIES = ("confluent-kafka", "kafka-python", "aiokafka", "pyspark")


def installed() -> list[str]:
    """Give `name version` of Python and of each library that is there."""
    return [f"Python {platform.python_version()}", *filter(None, map(_said, LIBRARIES))]


def _said(name: str) -> str:
    try:
        return f"{name} {version(name)}"
    except PackageNotFoundError:
        return ""


def commit() -> str:
    """Give the commit of the code that runs, marked where the code differs from it; "" outside a checkout."""
    found = _git("describe", "--always", "--exclude", "*")
    return f"{found}-dirty" if found and _git("status", "--porcelain", "--", ":/*.py") else found


def _git(*arguments: str) -> str:
    command = ["git", *arguments]
    try:
        done = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return done.stdout.strip()
