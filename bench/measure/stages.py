"""Batches of a running job, by its own metrics: how many there were, and how long their stages took."""

from __future__ import annotations

import re
from contextlib import suppress
from http.client import HTTPException
from typing import TYPE_CHECKING
from urllib.parse import urljoin
from urllib.request import urlopen

if TYPE_CHECKING:
    from collections.abc import Collection

STAGES = {"spark": {"triggerExecution"}, "embedded": {"apply", "write"}}
"""Engine -> the stages that make a batch; the embedded engine's `read` is waiting."""

_STAGE = re.compile(r'batch_stage_seconds_(sum|count)\{.*stage="(\w+)"[^}]*\} (\S+)')
_PATIENCE_S = 30.0


def stages(page: str, wanted: Collection[str]) -> dict[str, float]:
    """Return how many batches the page knows of, and the seconds of these stages; {} where it is away."""
    address = urljoin(page, "metrics")
    with suppress(OSError, HTTPException), urlopen(address, timeout=_PATIENCE_S) as answer:  # noqa: S310
        found = [one for one in _STAGE.findall(answer.read().decode()) if one[1] in wanted]
        sums = [float(value) for what, _, value in found if what == "sum"]
        counts = [float(value) for what, _, value in found if what == "count"]
        return {"sum": sum(sums), "count": max(counts)} if counts else {}
    return {}
