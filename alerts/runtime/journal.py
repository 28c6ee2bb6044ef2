"""The journal of notifications: one JSON line for each that arrived, with why it was sent.

Bounded: a full file becomes the one old file that is kept. On storage without append it is a folder of parts
(checkpoints/storage/lines.py), of which the oldest are deleted. It is for people: the memory alone decides
what has been notified, so a lost journal changes nothing.
"""

from __future__ import annotations

import json
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from rebalance_monitor.checkpoints.storage.lines import LineParts, read_whole
from rebalance_monitor.checkpoints.storage.places import is_remote
from rebalance_monitor.checkpoints.storage.sealed import parsed

if TYPE_CHECKING:
    from collections.abc import Collection

    from rebalance_monitor.alerts.dispatch.plan import Outgoing
    from rebalance_monitor.alerts.messages.notification import Notification
    from rebalance_monitor.checkpoints.storage.places import Place

MAX_BYTES = 5_000_000
MAX_NAMED = 50
INCIDENTS = 5
"""A line of the job's own log names so many incidents."""
PART_BYTES = 64_000
"""What one part holds: it is put anew with each notification."""


def incidents_of(notification: Notification) -> list[str]:
    """Return the incidents that a notification is about, for the log: a few."""
    named = (alert.finding.incident or alert.finding.id for alert in notification.alerts)
    return list(dict.fromkeys(named))[:INCIDENTS]


class Pages(Protocol):
    """Where lines of the journal go."""

    def append(self, line: bytes) -> None:
        """Append one line. Raises OSError."""


class Journal:
    """`notifications.jsonl` in `folder`, and `notifications.old.jsonl`."""

    def __init__(self, folder: Place, max_bytes: int = MAX_BYTES, part_bytes: int = PART_BYTES) -> None:
        path = folder / "notifications.jsonl"
        self._pages: Pages = (
            JournalParts(path, 2 * max_bytes, part_bytes)
            if is_remote(path)
            else JournalFile(Path(str(path)), max_bytes)
        )

    def write(self, outgoing: Outgoing, now: int) -> None:
        """Append one notification that arrived at `now` (ms). Raises OSError."""
        line = json.dumps(entry(outgoing, now), ensure_ascii=False) + "\n"
        self._pages.append(line.encode(errors="replace"))


def notified(folder: Place, identities: Collection[str], limit: int) -> list[dict[str, Any]]:
    """Return the newest lines about incidents or findings of these ids, newest first. Raises OSError."""
    wanted, named = set(identities), [json.dumps(one).encode() for one in identities]
    found: deque[dict[str, Any]] = deque(maxlen=limit)
    for name in ("notifications.old.jsonl", "notifications.jsonl"):
        for line in read_whole(folder / name).split(b"\n"):
            if any(one in line for one in named) and (entry := _read(line)) is not None:
                about = {*entry.get("findings", ()), *entry.get("incidents", ())}
                if wanted & about:
                    found.append(entry)
    return list(found)[::-1]


def _read(line: bytes) -> dict[str, Any] | None:
    """Return the line, None for one that a crash cut short."""
    try:
        return dict(parsed(line))
    except (ValueError, TypeError):
        return None


class JournalFile:
    """One file, and one old one."""

    def __init__(self, path: Path, max_bytes: int) -> None:
        self._path = path
        self._max_bytes = max_bytes

    def append(self, line: bytes) -> None:
        """Append one line; not synced: nothing depends on it."""
        if self._path.exists() and self._path.stat().st_size >= self._max_bytes:
            self._path.replace(self._path.with_name("notifications.old.jsonl"))
        with self._path.open("ab") as file:
            file.write(line)


class JournalParts:
    """A folder of parts; every process begins one of its own."""

    def __init__(self, folder: Place, max_bytes: int, part_bytes: int) -> None:
        self._folder = folder
        self._parts = LineParts(folder)
        self._max_bytes = max_bytes
        self._part_bytes = part_bytes
        self._begin = -1
        self._part = b""

    def append(self, line: bytes) -> None:
        """Put the last part with one line more."""
        if self._begin < 0:
            self._begin = self._parts.end()
        elif len(self._part) >= self._part_bytes:
            self._begin, self._part = self._begin + len(self._part), b""
            self._parts.forget(self._begin - self._max_bytes)
        self._part += line
        self._parts.append(self._part, self._begin)


def entry(outgoing: Outgoing, now: int) -> dict[str, Any]:
    """Return the journal entry of one notification: receiver, result, reason and findings."""
    due, notification = outgoing.due, outgoing.notification
    return {
        "at": now,
        "receiver": notification.receiver,
        "route": due.key[0],
        "group": dict(due.key[1]),
        "phase": notification.phase.value,
        "reason": due.reason.value,
        "firing": len(due.firing),
        "resolved": len(due.resolved),
        "title": notification.message.title,
        "thread": notification.thread,
        "key": notification.key,
        "incidents": incidents_of(notification)[:MAX_NAMED],
        "findings": [alert.finding.id for alert in notification.alerts[:MAX_NAMED]],
    }
