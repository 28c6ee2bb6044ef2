"""The Containerfile as its stages: what each instruction says, and what a stage inherits."""

from __future__ import annotations

import re
import shlex
from functools import cache
from pathlib import Path
from typing import NamedTuple

IMAGE = Path(__file__).resolve().parents[2] / "deploy" / "image"


class Instruction(NamedTuple):
    """One instruction, with the words behind it."""

    name: str
    words: list[str]


@cache
def stages() -> dict[str, list[Instruction]]:
    """Stage -> its instructions, FROM first."""
    text = (IMAGE / "Containerfile").read_text(encoding="utf-8")
    text = re.sub(r"^#.*\n", "", text, flags=re.MULTILINE).replace("\\\n", " ")
    found: dict[str, list[Instruction]] = {}
    for line in filter(str.strip, text.splitlines()):
        name, _, rest = line.partition(" ")
        words = shlex.split(rest.replace("[", " ["))
        stage = words[-1] if name == "FROM" else [*found][-1]
        found.setdefault(stage, []).append(Instruction(name, words))
    return found


def whole(stage: str) -> list[Instruction]:
    """Return every instruction that makes a stage: those of its bases first."""
    own = stages()[stage]
    base = own[0].words[0]
    return [*(whole(base) if base in stages() else []), *own]


def words(stage: str, name: str) -> list[list[str]]:
    """Return the words of every instruction `name` that makes a stage."""
    return [each.words for each in whole(stage) if each.name == name]


def runs(stage: str, **arguments: str) -> str:
    """Return the commands that make a stage, with the arguments of the build or their defaults put in."""
    given = dict(word.split("=", 1) for each in words(stage, "ARG") for word in each) | arguments
    text = " && ".join(" ".join(each) for each in words(stage, "RUN"))
    return re.sub(r"\$(\w+)", lambda found: given.get(found[1], found[0]), text)


def variables(stage: str) -> dict[str, str]:
    """Return the environment of a stage."""
    pairs = (word.partition("=") for each in words(stage, "ENV") for word in each)
    return {name: value for name, _, value in pairs}
