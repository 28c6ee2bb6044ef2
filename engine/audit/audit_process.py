"""One audit in a process of its own: settings and storage come on stdin, outcomes or a sentence go to stdout.

Both are pickled, between two processes of one installation. A process started like this shares nothing with
the job: what it starts, warns of or leaves behind when it is ended stays off the job's log.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rebalance_monitor.config.model import Settings
    from rebalance_monitor.dashboard.audit.check import Outcome
    from rebalance_monitor.engine.storage import Storage

NICE = 10
SENTENCE = 500
LONGEST_S = 900.0


class AuditProcess:
    """One audit that runs from the moment this is made. Raises OSError where no process can be started."""

    def __init__(self) -> None:
        pipe = subprocess.PIPE
        command = [sys.executable, "-P", "-m", __name__]
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe)

    def outcomes(self, settings: Settings, storage: Storage) -> list[Outcome] | str:
        """Wait for the outcomes, or for why there are none."""
        try:
            output, said = self._process.communicate(pickle.dumps((settings, storage)), LONGEST_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()
            return f"it took longer than {LONGEST_S:.0f} s"
        if self._process.returncode == 0:
            # Our own process wrote it.
            found: list[Outcome] | str = pickle.loads(output)  # noqa: S301
            return found
        last = said.decode(errors="replace").strip().rpartition("\n")[2]
        return f"its process ended early: {last or self._process.returncode}"[:SENTENCE]

    def end(self) -> None:
        """End the audit: its caller gets a sentence."""
        self._process.terminate()


def main() -> None:
    """Audit the live topic and the tables that stdin names; write the outcomes, or the error as text."""
    from rebalance_monitor.engine.audit.auditing import audit, of_topic  # noqa: PLC0415 - the job needs no readers

    os.nice(NICE)
    # Output that a library prints is not part of the answer.
    answer = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    settings, storage = pickle.load(sys.stdin.buffer)  # noqa: S301 - the job's own
    found: list[Outcome] | str
    try:
        found = audit(settings, storage, of_topic(settings))
    except Exception as error:  # noqa: BLE001 - the job reports it
        found = f"{type(error).__name__}: {error}"[:SENTENCE]
    with answer:
        pickle.dump(found, answer)


if __name__ == "__main__":
    main()
