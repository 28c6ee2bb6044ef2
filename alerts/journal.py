"""The journal of notifications: one JSON line for each that arrived, with why it was sent.

Bounded: a full file becomes the one old file that is kept. It is for people and `history`; what has been told
is decided by the memory alone, so a journal that is lost loses nothing.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from rebalance_monitor.alerts.plan import Outgoing

MAX_BYTES = 5_000_000
MAX_NAMED = 50


class Journal:
    """`notifications.jsonl` in `folder`, and `notifications.old.jsonl`."""

    def __init__(self, folder: Path, max_bytes: int = MAX_BYTES) -> None:
        self._path = folder / "notifications.jsonl"
        self._old = folder / "notifications.old.jsonl"
        self._max_bytes = max_bytes

    def write(self, outgoing: Outgoing, now: int) -> None:
        """Append one notification that arrived at `now` (ms). Raises OSError."""
        line = json.dumps(entry(outgoing, now), ensure_ascii=False) + "\n"
        if self._path.exists() and self._path.stat().st_size >= self._max_bytes:
            self._path.replace(self._old)
        with self._path.open("ab") as file:
            file.write(line.encode(errors="replace"))


def entry(outgoing: Outgoing, now: int) -> dict[str, Any]:
    """Return what is noted of one notification: whom, what, why, and about which findings."""
    due, told = outgoing.due, outgoing.notification
    return {
        "at": now,
        "receiver": told.receiver,
        "route": due.key[0],
        "group": dict(due.key[1]),
        "phase": told.phase.value,
        "reason": due.reason.value,
        "firing": len(due.firing),
        "resolved": len(due.resolved),
        "title": told.message.title,
        "thread": told.thread,
        "key": told.key,
        "findings": [alert.finding.id for alert in told.alerts[:MAX_NAMED]],
    }
