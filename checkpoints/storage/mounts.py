"""Mounts of Databricks: volumes and DBFS, which take whole files and moves; appending is not supported."""

from __future__ import annotations

import os
import sys

_WHOLE_FILES = ("/Volumes/", "/dbfs/")


def takes_whole_files(path: str) -> bool:
    """Whether the path lies on such a mount; macOS mounts any disk below /Volumes."""
    return path.startswith(_WHOLE_FILES) and sys.platform != "darwin"


def name_for_spark(path: str) -> str | None:
    """Return the URI under which the platform's Spark knows a path on such a mount, None for any other."""
    if not takes_whole_files(path) or "DATABRICKS_RUNTIME_VERSION" not in os.environ:
        return None
    return f"dbfs:{path.removeprefix('/dbfs')}"
