"""How much work something is, in a measure that no machine changes."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType


def calls_in(work: Callable[[], object]) -> int:
    """Return how many functions `work` calls, Python's and those in C."""
    calls, before = 0, sys.getprofile()

    def count_calls(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in {"call", "c_call"}

    sys.setprofile(count_calls)
    try:
        work()
    finally:
        sys.setprofile(before)
    return calls
