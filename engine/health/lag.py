"""The lag of the monitor while it is an incident: when to update the incident, and the highest lag.

Pure: the wall clock (ms) is passed in. Lag is the time since the newest batch began: up to then the topic is
read. An update is published each time lag has doubled, so a long incident has few updates: thirteen from ten
seconds to a day.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


class Lag:
    """`least_ms`: the least lag of an incident; `state` is what `snapshot` returned, None for a new start."""

    def __init__(self, least_ms: int, state: Mapping[str, Any] | None = None) -> None:
        memory = state or {}
        self._least_ms = least_ms
        self._published_ms: int = memory.get("told", 0)
        self._most_ms: int = memory.get("most", 0)
        self._most_records: int = memory.get("records", 0)
        # When the newest batch of Spark's began; -1 before the first of this process.
        self._read_until = -1

    def snapshot(self) -> dict[str, int]:
        """JSON-able memory."""
        return {"told": self._published_ms, "most": self._most_ms, "records": self._most_records}

    def read(self, until: int) -> None:
        """Take a batch that began at `until` (ms), -1 for one that read nothing."""
        if until >= 0:
            self._read_until = until

    def ms(self, wall: int) -> int | None:
        """Return how far behind it is at `wall`, None before the first batch."""
        return None if self._read_until < 0 else max(wall - self._read_until, 0)

    @property
    def due_at(self) -> int | None:
        """When (ms) the incident is updated if nothing is read until then, None where unknown."""
        if self._read_until < 0:
            return None
        return self._read_until + max(2 * self._published_ms, self._least_ms)

    def is_due(self, wall: int) -> bool:
        """Whether the lag has doubled since it was last published."""
        return self.due_at is not None and wall >= self.due_at

    def take_details(self, wall: int, records: int) -> dict[str, int]:
        """Return the details of the incident, and count them as published; `records` as in `note`."""
        self.note(wall, records)
        found = {"records": records} if records else {}
        lag = self.ms(wall)
        if lag is not None:
            self._published_ms = lag
            found["lag_ms"] = lag
        return found

    def note(self, wall: int, records: int) -> None:
        """Keep the lag at `wall` if it is the highest so far; `records`: of the batch that was so late."""
        self._most_ms = max(self._most_ms, self.ms(wall) or 0)
        self._most_records = max(self._most_records, records)

    def over(self) -> dict[str, int]:
        """Return the details with the highest lag, and start over."""
        most = {"lag_ms": self._most_ms, "records": self._most_records}
        self._published_ms = self._most_ms = self._most_records = 0
        return {key: value for key, value in most.items() if value}
