"""The job's folder: where state, manifest, ledger and tables lie.

They lie side by side, so that state can be rebuilt in a new folder without losing the others. The folder is a
path of the driver's file system; only the checkpoint below `state/` is written by Spark itself, and may lie
elsewhere (`storage.checkpoint`), where executors run on other machines: the folder of that generation is then
an empty one, which says that it was begun.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Storage:
    """Names of everything below `root`."""

    root: Path
    remote: str = ""

    @property
    def manifest(self) -> Path:
        """What the current state was made of."""
        return self.root / "manifest.json"

    @property
    def states(self) -> Path:
        """One checkpoint folder per generation of the state."""
        return self.root / "state"

    def checkpoint(self, generation: int) -> Path:
        """Spark's checkpoint of one generation."""
        return self.states / str(generation)

    def location(self, generation: int) -> str:
        """Where Spark writes the checkpoint of one generation: a path or a URI."""
        own = self.checkpoint(generation)
        return f"{self.remote.rstrip('/')}/{generation}" if self.remote else str(own)

    @property
    def ledger(self) -> Path:
        """What has been told."""
        return self.root / "ledger"

    @property
    def alerts(self) -> Path:
        """What has been told to whom: the dispatcher's memory, inbox and journal, and the silences."""
        return self.root / "alerts"

    @property
    def findings(self) -> Path:
        """The findings table."""
        return self.root / "tables" / "findings"

    @property
    def groups(self) -> Path:
        """The table of what every group is now."""
        return self.root / "tables" / "groups"

    @property
    def audit(self) -> Path:
        """The Data Docs of the last audit."""
        return self.root / "audit"

    @property
    def quarantine(self) -> Path:
        """The table of unreadable records."""
        return self.root / "tables" / "quarantine"

    @property
    def identity_key(self) -> Path:
        """The key under which identities are hashed."""
        return self.root / "identity.key"

    @property
    def jsonl(self) -> Path:
        """Findings as JSON lines."""
        return self.root / "findings.jsonl"


def storage_at(path: Path, remote: str = "") -> Storage:
    """Return the storage at `path`, made absolute: Spark resolves relative paths elsewhere."""
    return Storage(path.expanduser().resolve(), remote)
