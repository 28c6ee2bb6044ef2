"""What made an accuracy page: command, versions, seeds, time."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True, slots=True)
class Origin:
    """What made the page: the command, broker versions, seeds, scenario count, wall time (s), remarks.

    `ran` has, per broker version, the client families of each scenario; `software` what the runs say that
    they were made with, `days` when (ms) the first began and the last ended.
    """

    command: str
    brokers: Sequence[str]
    seeds: Sequence[int]
    runs: int
    seconds: float
    remarks: Sequence[str] = ()
    ran: Mapping[str, Mapping[str, Sequence[str]]] = field(default_factory=dict)
    software: Sequence[str] = ()
    days: tuple[int, int] = (0, 0)
