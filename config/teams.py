"""Whose group it is: shell patterns over names of groups, the first that matches wins."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


def team_of(group: str | None, teams: Mapping[str, str]) -> str:
    """Return the team of a group, "" where no pattern of `teams` matches."""
    if group is None:
        return ""
    return next((team for pattern, team in teams.items() if fnmatchcase(group, pattern)), "")


def nobodys(_group: str) -> str:
    """Return that the group is of no team."""
    return ""
