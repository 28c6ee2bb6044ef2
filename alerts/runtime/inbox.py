"""Batches on their way from the batch writer to the dispatcher: one file each, named by query and batch.

The writer leaves a file before the ledger commits the batch. After the commit it marks the batch as final,
and only then may the dispatcher take it. A batch that runs again replaces its file. At a start the ledger
shows which files are final; the others are deleted, because their batches run again. Long texts are cut on
the way in: each would be written again with every incident that names it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rebalance_monitor.checkpoints.storage.files import replace_file, sync_folder
from rebalance_monitor.checkpoints.storage.owned import make_folder
from rebalance_monitor.coordinator.findings.finding import from_json, to_json
from rebalance_monitor.coordinator.findings.names import bounded

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rebalance_monitor.checkpoints.storage.places import Place
    from rebalance_monitor.coordinator.findings.finding import Finding

BatchName = tuple[str, int]
_NAME = re.compile(r"(?P<query>.+)-(?P<batch>\d{1,18})\.jsonl")


class Inbox:
    """The files in `folder`. Functions raise OSError as the file system gives it.

    The names of its files are remembered, so the storage is never asked for a missing file. The writer's
    thread puts, the dispatcher's reads and drops.
    """

    def __init__(self, folder: Place) -> None:
        self._folder = folder
        self._there: set[BatchName] = set()

    def open(self, committed: Mapping[str, int]) -> list[BatchName]:
        """Forget what was never committed; return the rest in order. `committed`: query -> last batch."""
        make_folder(self._folder)
        found: list[tuple[BatchName, int]] = []
        for path in [path for path in self._folder.iterdir() if path.is_file()]:
            matched = _NAME.fullmatch(path.name)
            name = (matched["query"], int(matched["batch"])) if matched else None
            if name is not None and name[1] <= committed.get(name[0], -1):
                found.append((name, path.stat().st_mtime_ns))
            else:
                path.unlink(missing_ok=True)
        sync_folder(self._folder)
        self._there = {name for name, _ in found}
        return _in_order(found)

    def put(self, name: BatchName, findings: Iterable[Finding]) -> None:
        """Keep a batch durably; one without findings leaves no file."""
        lines = [to_json(bounded(finding)) + "\n" for finding in findings]
        if lines:
            self._there.add(name)
            replace_file(self._path(name), "".join(lines).encode(errors="replace"))
        else:
            self.drop(name)

    def read(self, name: BatchName) -> list[Finding]:
        """Return the findings of a batch, none if it left no file."""
        if name not in self._there:
            return []
        try:
            text = self._path(name).read_text(encoding="utf-8")
        except FileNotFoundError:
            return []
        return [from_json(line) for line in text.split("\n") if line]

    def set_aside(self, name: BatchName) -> Place:
        """Forget a batch whose file cannot be read; the file stays, and the next process tries it again."""
        self._there.discard(name)
        return self._path(name)

    def has(self, name: BatchName) -> bool:
        """Whether a batch left a file that has not been dropped."""
        return name in self._there

    def drop(self, name: BatchName) -> None:
        """Forget a batch that has been taken."""
        if name in self._there:
            self._path(name).unlink(missing_ok=True)
            self._there.discard(name)

    def _path(self, name: BatchName) -> Place:
        return self._folder / f"{name[0]}-{name[1]}.jsonl"


def _in_order(found: list[tuple[BatchName, int]]) -> list[BatchName]:
    """Return batches by the time they were written; batches of one query by their number.

    Object stores count whole seconds, and their machines' clocks differ.
    """
    times: dict[str, int] = {}
    keys: dict[BatchName, tuple[int, BatchName]] = {}
    for name, written in sorted(found):
        times[name[0]] = max(written, times.get(name[0], 0))
        keys[name] = (times[name[0]], name)
    return sorted(keys, key=keys.__getitem__)


def relevant(finding: Finding) -> bool:
    """Whether the dispatcher has to see this finding: news, and the end of what was open before a restart."""
    return not finding.history or finding.phase == "resolved"
