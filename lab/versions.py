"""Which versions of Python and the client libraries run here, for what a suite keeps of itself."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

LIBRARIES = ("confluent-kafka", "kafka-python", "aiokafka", "pyspark")


def installed() -> list[str]:
    """Give `name version` of Python and of each library that is there."""
    return [f"Python {platform.python_version()}", *filter(None, map(_said, LIBRARIES))]


def _said(name: str) -> str:
    try:
        return f"{name} {version(name)}"
    except PackageNotFoundError:
        return ""
