"""What `lab/truth/facts.py` and `lab/truth/epoch_facts.py` fold truth events into: facts, and groups on the way there."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Fact:
    """One thing to detect. `label` is `kind` or `cause:name`; `member` "" where the group is meant.

    `generation` is the one that a record first shows it in, or -1; `at` is the broker's log time, ms. One
    that is not `required` may be told of or not: nobody can know.
    """

    label: str
    group: str
    generation: int
    member: str
    at: int
    required: bool = True
    count: int = 1


@dataclass(slots=True)
class Change:
    """A member came or went, at `at`, for `cause`."""

    at: int
    cause: str
    member: str


@dataclass(slots=True)
class GroupFold:
    """One group while its log is folded."""

    name: str
    members: set[str] = field(default_factory=set)
    written: set[str] = field(default_factory=set)
    changes: list[Change] = field(default_factory=list)
    joined_phase: tuple[int, int, set[str]] = (-1, 0, set())
    began_empty: bool = True
    unwritten: int = 0
    unstored: bool = False
    replaced: set[str] = field(default_factory=set)
    # Epoch-based groups only: the newest epoch told of, whether removals bump it without a line, and whether
    # the last that went had been silent for its session.
    epoch: int = 0
    silent_bumps: bool = False
    expired: bool = False
