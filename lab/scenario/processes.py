"""Worker processes: start them, command them, hurt them, and read their journals."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, cast

from rebalance_monitor.lab.workers.families import Family, command
from rebalance_monitor.lab.workers.toolchains import environment

if TYPE_CHECKING:
    from pathlib import Path

    from rebalance_monitor.lab.workers.flags import Flags

CLOSE_S = 15.0


class WorkerProcess:
    """One life of one member: from its start to its end by whatever means.

    Its journal goes to `<folder>/<member>.jsonl`, what its library logs to `<folder>/<member>.log`; both are
    appended to over several lives. With a `host`, a loopback address, its connections come from there.
    """

    def __init__(self, member: str, family: Family, flags: Flags, folder: Path, host: str = "") -> None:
        self.member = member
        self._member_ids: list[str] = []
        self._journal = folder / f"{member}.jsonl"
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / f"{member}.log").open("ab") as log:
            self._process = subprocess.Popen(
                command(family, flags),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
                env={**os.environ, **(environment(family.language, host) if host else {})},
                # What a client keeps on disk belongs to the run.
                cwd=folder,
            )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        output = self._process.stdout
        if output is None:
            return
        with output, self._journal.open("ab") as journal:
            for line in output:
                journal.write(line)
                journal.flush()
                with suppress(ValueError):
                    self._note(cast("dict[str, object]", json.loads(line)))

    def _note(self, event: dict[str, object]) -> None:
        identity = str(event.get("member", ""))
        if identity and identity not in self._member_ids:
            self._member_ids.append(identity)

    @property
    def member_ids(self) -> tuple[str, ...]:
        """The member ids of this life, newest last."""
        return tuple(self._member_ids)

    @property
    def alive(self) -> bool:
        """Whether the process is there."""
        return self._process.poll() is None

    def tell(self, text: str) -> None:
        """Send one command line."""
        if self._process.stdin is not None:
            with suppress(OSError):
                self._process.stdin.write(text.encode() + b"\n")
                self._process.stdin.flush()

    def close(self) -> None:
        """Ask for a clean close and return at once."""
        self.tell("close")

    def send(self, number: signal.Signals) -> None:
        """Send a signal."""
        if self.alive:
            with suppress(ProcessLookupError):
                os.kill(self._process.pid, number)

    def finish(self, timeout_s: float = CLOSE_S) -> None:
        """Close cleanly; kill what does not end within `timeout_s`. Frozen processes are thawed first."""
        self.send(signal.SIGCONT)
        self.close()
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdin is not None:
            with suppress(OSError):
                self._process.stdin.close()
        self._reader.join(timeout=2)
