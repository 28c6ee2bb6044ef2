"""The blocks of docs/howto/logins.md as configurations, with the addresses of a test's own broker."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from collections.abc import Mapping

PAGE = Path(__file__).parents[3] / "docs" / "howto" / "logins.md"


def block(heading: str, replaced: Mapping[str, str]) -> dict[str, Any]:
    """The first YAML block below a heading; each of `replaced` must stand in it."""
    text = PAGE.read_text(encoding="utf-8").partition(f"\n## {heading}\n")[2]
    found = re.search(r"```yaml\n(.*?)```", text, re.DOTALL)
    assert found, heading
    filled = found[1]
    for old, new in replaced.items():
        assert old in filled, (heading, old)
        filled = filled.replace(old, new)
    return yaml.safe_load(filled)
