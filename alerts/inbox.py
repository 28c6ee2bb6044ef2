"""Batches on their way from the batch writer to the dispatcher: one file each, named by query and batch.

The writer leaves a file before the ledger commits the batch and says afterwards that the batch is final; only
then may the dispatcher take it. A batch that runs again replaces its file. At a start the ledger tells which
files are final; the others are forgotten, since their batches run again.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rebalance_monitor.checkpoints.files import replace_file, sync_folder
from rebalance_monitor.coordinator.findings import from_json, to_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from rebalance_monitor.coordinator.findings import Finding

BatchName = tuple[str, int]
_NAME = re.compile(r"(?P<query>.+)-(?P<batch>\d{1,18})\.jsonl")


class Inbox:
    """The files in `folder`. Functions raise OSError as the file system gives it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def open(self, committed: Mapping[str, int]) -> list[BatchName]:
        """Forget what was never committed; return the rest in order. `committed`: query -> last batch."""
        self._folder.mkdir(parents=True, exist_ok=True)
        final = []
        files = [path for path in self._folder.iterdir() if path.is_file()]
        for path in sorted(files, key=lambda path: (path.stat().st_mtime_ns, path.name)):
            found = _NAME.fullmatch(path.name)
            name = (found["query"], int(found["batch"])) if found else None
            if name is not None and name[1] <= committed.get(name[0], -1):
                final.append(name)
            else:
                path.unlink()
        sync_folder(self._folder)
        return final

    def put(self, name: BatchName, findings: Iterable[Finding]) -> None:
        """Keep a batch durably; one without findings leaves no file."""
        lines = [to_json(finding) + "\n" for finding in findings]
        path = self._path(name)
        if lines:
            replace_file(path, "".join(lines).encode(errors="replace"))
        else:
            path.unlink(missing_ok=True)

    def read(self, name: BatchName) -> list[Finding]:
        """Return the findings of a batch, none if it left no file."""
        try:
            text = self._path(name).read_text(encoding="utf-8")
        except FileNotFoundError:
            return []
        return [from_json(line) for line in text.split("\n") if line]

    def has(self, name: BatchName) -> bool:
        """Whether a batch left a file that has not been dropped."""
        return self._path(name).exists()

    def drop(self, name: BatchName) -> None:
        """Forget a batch that has been taken."""
        self._path(name).unlink(missing_ok=True)

    def _path(self, name: BatchName) -> Path:
        return self._folder / f"{name[0]}-{name[1]}.jsonl"


def relevant(finding: Finding) -> bool:
    """Whether the dispatcher has to see this finding: news, and the end of what was open before a restart."""
    return not finding.history or finding.phase == "resolved"
