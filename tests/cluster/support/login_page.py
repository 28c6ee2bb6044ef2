"""The blocks of the pages on logins as configurations, with the addresses of a test's own broker."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from collections.abc import Mapping

PAGES = Path(__file__).parents[3] / "docs" / "howto"


def block(heading: str, replaced: Mapping[str, str], page: str = "logins.md") -> dict[str, Any]:
    """The first YAML block below a heading; each of `replaced` must stand in it."""
    text = (PAGES / page).read_text(encoding="utf-8").partition(f"# {heading}\n")[2]
    found = re.search(r"```yaml\n(.*?)```", text, re.DOTALL)
    assert found, heading
    filled = found[1]
    for old, new in replaced.items():
        assert old in filled, (heading, old)
        filled = filled.replace(old, new)
    return yaml.safe_load(filled)


def table(heading: str, page: str = "logins.md", *, header: bool = False) -> list[list[str]]:
    """The rows of the first table below a heading, as the text of their cells."""
    text = (PAGES / page).read_text(encoding="utf-8").partition(f"# {heading}\n")[2]
    first, _, *rows = text[text.index("\n|") + 1 :].partition("\n\n")[0].splitlines()
    lines = [first, *rows] if header else rows
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
