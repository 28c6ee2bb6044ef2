"""Server-sent events: after each batch, what changed since the reader's version.

One event serves every reader that is at the same version. A reader that is too far behind, or would be sent
too much, gets `reset` and asks for its page again. Readers never slow the monitor: it only raises a flag.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from rebalance_monitor.dashboard.view.snapshot import Known, Snapshot, Update
    from rebalance_monitor.dashboard.web.views.board import Board
    from rebalance_monitor.dashboard.web.views.shapes import Overview

MAX_READERS = 64
MAX_ROWS = 300
PING_S = 15.0

Event = dict[str, str]


class Stream:
    """The changes of one snapshot for any number of readers, all on one event loop."""

    def __init__(
        self, snapshot: Snapshot, board: Callable[[Known], Board], overview: Callable[[Board], Overview]
    ) -> None:
        self._snapshot = snapshot
        self._board = board
        self._overview = overview
        self._loop: asyncio.AbstractEventLoop | None = None
        self._flags: set[asyncio.Event] = set()
        self._seated = 0
        self._made: tuple[int, int, Event] = (-1, -1, {})
        self._is_open = True
        snapshot.listen(self._on_change)

    @contextmanager
    def seat(self) -> Iterator[bool]:
        """Count a reader in from the moment it asks; False where there are too many.

        To be entered on the event loop: nothing comes between the look and the count.
        """
        is_free = self._seated < MAX_READERS
        self._seated += is_free
        try:
            yield is_free
        finally:
            self._seated -= is_free

    def close(self) -> None:
        """End the streams of all readers; callable from any thread."""
        self._is_open = False
        self._wake()

    async def events(self, since: int) -> AsyncIterator[Event]:
        """Yield events for one reader that knows version `since` (-1: what is known now)."""
        self._loop = asyncio.get_running_loop()
        flag = asyncio.Event()
        self._flags.add(flag)
        try:
            version = self._snapshot.known.version if since < 0 else since
            yield {"event": "hello", "data": json.dumps({"version": version})}
            while self._is_open:
                known = self._snapshot.known
                if known.version != version:
                    yield await asyncio.to_thread(self._event, version, known)
                    version = known.version
                    continue
                await flag.wait()
                flag.clear()
        finally:
            self._flags.discard(flag)

    def _on_change(self, _known: Known, _update: Update) -> None:
        self._wake()

    def _wake(self) -> None:
        loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._raise_flags)

    def _raise_flags(self) -> None:
        for flag in self._flags:
            flag.set()

    def _event(self, since: int, known: Known) -> Event:
        before, after, made = self._made
        if (before, after) == (since, known.version):
            return made
        event = self._make(since, known)
        self._made = (since, known.version, event)
        return event

    def _make(self, since: int, known: Known) -> Event:
        board = self._board(known)
        data: dict[str, Any] = {"version": known.version, "now": board.now, "overview": self._overview(board)}
        touched = self._snapshot.changed_since(since)
        if touched is None or len(touched) > MAX_ROWS:
            return {"event": "reset", "data": _text(data)}
        entries = {name: board.get(name) for name in touched if name}
        data["rows"] = [board.row(entry) for entry in entries.values() if entry is not None]
        data["removed"] = [name for name, entry in entries.items() if entry is None]
        data["others"] = "" in touched
        return {"event": "change", "data": _text(data)}


def _text(data: Any) -> str:  # noqa: ANN401 - anything JSON
    """Return JSON; what is no text of Unicode (a lone surrogate) is escaped."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "backslashreplace").decode()
