"""The JVM that started this driver, before there is a session: on YARN, Kubernetes and Databricks."""

from __future__ import annotations

import os
from typing import Any


def drivers_jvm() -> Any:  # noqa: ANN401 - of a JVM
    """Return py4j's view of it, None where this process was not started by one."""
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        return None
    from pyspark import SparkContext  # noqa: PLC0415 - heavy, and an optional dependency

    SparkContext._ensure_initialized()  # noqa: SLF001 - connects to it, and starts no context
    return SparkContext._jvm  # noqa: SLF001 - there is no public way
