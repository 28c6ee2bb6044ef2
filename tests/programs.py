"""Programs that some tests need and a machine may lack; `make deps-ci` installs them."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

# Where `go install` puts what make deps-ci asks of it.
PLACES = os.pathsep.join([os.environ.get("PATH", ""), str(Path.home() / "go" / "bin")])


def installed(*names: str) -> str:
    """Return the path of the first program that is here; else skip the test (fails with REQUIRE_ALL=1)."""
    for name in names:
        if found := shutil.which(name, path=PLACES):
            return found
    pytest.skip(f"{' or '.join(names)} is not installed: make deps-ci")
