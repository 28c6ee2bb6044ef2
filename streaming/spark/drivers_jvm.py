"""The JVM of this driver: on YARN, Kubernetes and Databricks it runs before there is a session."""

from __future__ import annotations

import os
import sys
from typing import Any


def drivers_jvm() -> Any:  # noqa: ANN401 - of a JVM
    """Return py4j's view of it, None where this process was not started by one."""
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        return None
    from pyspark import SparkContext  # noqa: PLC0415 - heavy, and an optional dependency

    SparkContext._ensure_initialized()  # noqa: SLF001 - connects to it, and starts no context
    return SparkContext._jvm  # noqa: SLF001 - there is no public way


def sessions_jvm() -> Any:  # noqa: ANN401 - as above
    """Return py4j's view of the JVM that a session of this process has started, None where there is none."""
    loaded = sys.modules.get("pyspark")
    return None if loaded is None else loaded.SparkContext._jvm  # noqa: SLF001 - as above
