"""The life of a worker: poll, process, commit, obey commands, write all of it as JSON lines to stdout.

Commands come as lines on stdin: `stall SECONDS` (process for so long), `subscribe TOPICS`, `unsubscribe`,
`commit`, `leak` (go on with a new client and never close the old one), `close`. When stdin ends the worker
closes: one whose runner died never stays behind. With `--groups N` it has one client in each of N groups,
each in a thread; all obey every command.
"""

from __future__ import annotations

import json
import queue
import random
import signal
import sys
import threading
import time
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from rebalance_monitor.lab.workers.flags import Flags

# Clients of one process that all started in the same moment would all commit in the same moment.
APART_S = 0.27
# A large herd is there within this time.
STARTED_S = 60.0
FOR_EVER_S = 86_400.0
# Lives and rests of clients that come and go are between so much of what their flags say, and so much.
AROUND = (0.1, 1.9)
# After each poll, or after each record: then a poll takes one.
AFTER_POLL = frozenset({"manual", "record"})


class Client(Protocol):
    """What a client library must be able to do for a worker."""

    def poll(self, timeout_s: float) -> int:
        """Poll once, waiting at most `timeout_s`; give the number of records."""

    def commit(self) -> None:
        """Commit what was read, and wait for the answer."""

    def subscribe(self, topics: list[str]) -> None:
        """Change the subscription."""

    def unsubscribe(self) -> None:
        """Leave the group without closing."""

    def member(self) -> str:
        """Give the current member id, "" before there is one."""

    def obey(self, command: list[str]) -> bool:
        """Do what only this client can; False if it knows no such command."""

    def close(self) -> None:
        """Leave the group and end."""


class Journal:
    """Writes what happens to the worker, one JSON line each, with the time in ms."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def write_event(self, event: str, **fields: object) -> None:
        """Write one event."""
        line = json.dumps({"at": int(time.time() * 1000), "event": event, **fields})
        with self._lock:
            sys.stdout.write(line + "\n")
            sys.stdout.flush()


class Commands:
    """The commands still to obey, fed from stdin and by SIGTERM and SIGINT (which mean `close`)."""

    def __init__(self) -> None:
        self._inboxes: list[queue.SimpleQueue[list[str]]] = []
        self.closing = threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self._close())
        threading.Thread(target=self._read, daemon=True).start()

    def _close(self) -> None:
        self.closing.set()

    def _read(self) -> None:
        for line in sys.stdin:
            if line.strip() == "close":
                break
            for inbox in self._inboxes:
                inbox.put(line.split())
        self._close()

    def inbox(self) -> Callable[[], list[str]]:
        """Give a function that returns the next command of one client, [] when there is none."""
        mine: queue.SimpleQueue[list[str]] = queue.SimpleQueue()
        self._inboxes = [*self._inboxes, mine]
        return lambda: [] if mine.empty() else mine.get()


def live(build: Callable[[Flags, Journal], Client], flags: Flags) -> None:
    """Run a worker in every group that the flags name, until all have closed."""
    journal, commands = Journal(), Commands()
    everyone = list(flags.each())
    if len(everyone) == 1:
        Worker(build, everyone[0], journal, commands).run()
        return
    threads = []
    apart = min(APART_S, STARTED_S / len(everyone))
    for one in everyone:
        threads.append(threading.Thread(target=Worker(build, one, journal, commands).run))
        threads[-1].start()
        commands.closing.wait(apart)
    for thread in threads:
        thread.join()


def _about(seconds: float) -> float:
    """Give another time each time, of which the mean is `seconds`."""
    return seconds * random.uniform(*AROUND)  # noqa: S311 - variation, not secrecy


class Worker:
    """Drives one client until a command closes it or its lifetime is over."""

    def __init__(
        self, build: Callable[[Flags, Journal], Client], flags: Flags, journal: Journal, commands: Commands
    ) -> None:
        self.flags = flags
        self.journal = journal
        self.commands = commands
        self._build = build
        self._next = commands.inbox()
        self._due = 0.0
        self._polled = time.time()
        self._leaked: list[Client] = []

    def run(self) -> None:
        """Live once, or over and over until everything is to end."""
        self._live()
        while self.flags.rest_s and not self.commands.closing.wait(_about(self.flags.rest_s)):
            self._live()

    def _live(self) -> None:
        """Live; ends with a clean close."""
        self.client = self._build(self.flags, self.journal)
        self.journal.write_event("started", group=self.flags.group, client_id=self.flags.client_id)
        self._due = time.monotonic() + self.flags.commit_ms / 1000
        lifetime = _about(self.flags.lifetime_s) if self.flags.rest_s else self.flags.lifetime_s
        end = time.monotonic() + (lifetime or float("inf"))
        while not self.commands.closing.is_set() and time.monotonic() < end:
            self._obey(self._next())
            self._turn()
        self.journal.write_event("closing", member=self.client.member())
        self.client.close()
        self.journal.write_event("closed")

    def _turn(self) -> None:
        self._polled = time.time()
        count = self.client.poll(self.flags.wait_ms / 1000)
        if count and self.flags.processing_s:
            self.commands.closing.wait(self.flags.processing_s)
        if count and self.flags.commit in AFTER_POLL:
            self.client.commit()
        if self.flags.commit == "timer" and time.monotonic() >= self._due:
            self._due = time.monotonic() + self.flags.commit_ms / 1000
            self.client.commit()

    def _obey(self, command: list[str]) -> None:
        match command:
            case []:
                return
            case ["stall", seconds]:
                self._stall(float(seconds))
            case ["subscribe", topics]:
                self.client.subscribe(topics.split(","))
            case ["unsubscribe"]:
                self.client.unsubscribe()
            case ["commit"]:
                self.client.commit()
            case ["leak"]:
                # From now on no thread polls it.
                self._log_processing(FOR_EVER_S)
                self._leaked.append(self.client)
                self.client = self._build(self.flags, self.journal)
            case _ if not self.client.obey(command):
                self.journal.write_event("error", error=f"unknown command {' '.join(command)}")
        self.journal.write_event("obeyed", command=" ".join(command))

    def _stall(self, seconds: float) -> None:
        self._log_processing(seconds)
        self.commands.closing.wait(seconds)

    def _log_processing(self, seconds: float) -> None:
        flags = self.flags
        self.journal.write_event(
            "processing",
            seconds=seconds,
            limit_ms=flags.poll_ms,
            # From then on the limit counts; when it has passed the client says so at its next heartbeat,
            # and a static member's session goes on.
            polled=int(self._polled * 1000),
            grace_ms=flags.heartbeat_ms + (flags.session_ms if flags.instance_id else 0),
            member=self.client.member(),
            group=flags.group,
        )
