"""What an engine reports of a finished batch, and why an engine ended."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


class End(StrEnum):
    """Why an engine ended."""

    STOPPED = "stopped"
    FINISHED = "finished"
    FAILED = "failed"
    REPLACED = "replaced"


@dataclass(frozen=True, slots=True)
class Progress:
    """One batch. ends: partition -> next offset to read, None where the source does not say.

    stages: what took how long, s. lag_records: how many records the topic had beyond. state_store_memory:
    bytes that the state takes in memory beside the coordinators. unled: partitions without a leader.
    """

    ends: Mapping[int, int] | None = None
    stages: Mapping[str, float] = field(default_factory=dict)
    lag_records: int = 0
    state_store_memory: int = 0
    unled: tuple[int, ...] = ()
