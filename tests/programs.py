"""Programs that some tests need and a machine may lack; `make deps-ci` installs them."""

from __future__ import annotations

import shutil

import pytest


def installed(*names: str) -> str:
    """Return the path of the first program that is here; else skip the test (fails with REQUIRE_ALL=1)."""
    for name in names:
        if found := shutil.which(name):
            return found
    pytest.skip(f"{' or '.join(names)} is not installed: make deps-ci")
