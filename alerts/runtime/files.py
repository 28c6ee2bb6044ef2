"""What the dispatcher keeps in the storage folder."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rebalance_monitor.alerts.runtime.inbox import Inbox
from rebalance_monitor.alerts.runtime.journal import Journal
from rebalance_monitor.alerts.runtime.memory_file import MemoryFile
from rebalance_monitor.checkpoints.storage.owned import make_folder

if TYPE_CHECKING:
    from rebalance_monitor.checkpoints.storage.places import Place


@dataclass(slots=True)
class Files:
    """The files in `folder`, which is made where it is missing."""

    folder: Place
    inbox: Inbox = field(init=False)
    memory: MemoryFile = field(init=False)
    journal: Journal = field(init=False)

    def __post_init__(self) -> None:
        make_folder(self.folder)
        self.inbox = Inbox(self.folder / "inbox")
        self.memory = MemoryFile(self.folder / "memory.jsonl")
        self.journal = Journal(self.folder)
