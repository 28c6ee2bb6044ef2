"""What an oracle needs and this machine may lack: then its tests are skipped, and the run says so."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from rebalance_monitor.cluster.errors import DependencyError

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def needs() -> Iterator[None]:
    """Skip the test, saying what is missing, when its oracle cannot run here."""
    try:
        yield
    except DependencyError as missing:
        pytest.skip(str(missing))
