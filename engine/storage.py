"""The job's folder: where state, manifest, ledger and tables lie.

They lie side by side, so that state can be rebuilt in a new folder without losing the others. The folder is a
path of the driver's file system or a URI that pyarrow reaches (checkpoints/storage/places.py). Only the
checkpoint below `state/` is written by Spark itself, and may lie elsewhere (`storage.checkpoint`), where
executors run on other machines: the folder of that generation is then an empty one, which says that it was
begun. There it lies in a folder of the storage's own, so that neither another job nor a storage made anew
meets its batches.
"""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rebalance_monitor.checkpoints.errors import FolderError
from rebalance_monitor.checkpoints.storage.files import replace_file
from rebalance_monitor.checkpoints.storage.owned import make_folder
from rebalance_monitor.checkpoints.storage.places import is_remote, place_at
from rebalance_monitor.config.errors import ConfigError
from rebalance_monitor.config.paths import expanded

if TYPE_CHECKING:
    import os

    from rebalance_monitor.checkpoints.storage.places import Place

_BYTES = 6
# The letter: a name must not look like the number of a generation.
_NAME = re.compile(rf"m[0-9a-f]{{{2 * _BYTES}}}")


@dataclass(frozen=True, slots=True)
class Storage:
    """Names of everything below `root`."""

    root: Place
    remote: str = ""

    @property
    def manifest(self) -> Place:
        """What the current state was made of."""
        return self.root / "manifest.json"

    @property
    def leaders(self) -> Place:
        """The leaders of the topic's partitions when they were read, and how far they were read."""
        return self.root / "leaders.json"

    @property
    def states(self) -> Place:
        """One checkpoint folder per generation of the state."""
        return self.root / "state"

    def checkpoint(self, generation: int) -> Place:
        """Spark's checkpoint of one generation."""
        return self.states / str(generation)

    @property
    def name(self) -> Place:
        """The file that holds the name of the storage's folder below `remote`."""
        return self.states / "name"

    @property
    def elsewhere(self) -> str:
        """The URI below which Spark writes the checkpoints, "" for `states`. Raises OSError, ConfigError."""
        if not self.remote:
            return ""
        try:
            name = self.name.read_text(encoding="utf-8").strip()
        except UnicodeDecodeError as error:
            name = str(error)
        if not _NAME.fullmatch(name):
            raise ConfigError(
                f"{self.name} holds {name!r}, which is no name of a checkpoint; remove the file"
            )
        return f"{self.remote.rstrip('/')}/{name}"

    def give_name(self) -> None:
        """Choose the name, where checkpoints lie elsewhere and none was chosen yet. Raises OSError."""
        if self.remote and not self.name.exists():
            make_folder(self.states)
            replace_file(self.name, f"m{secrets.token_hex(_BYTES)}".encode())

    def location(self, generation: int) -> str:
        """Where Spark writes the checkpoint of one generation: a path or a URI. Raises OSError."""
        own = self.checkpoint(generation)
        if self.remote:
            return f"{self.elsewhere}/{generation}"
        return own.as_uri() if is_remote(own) else str(own)

    @property
    def ledger(self) -> Place:
        """The published batches."""
        return self.root / "ledger"

    @property
    def alerts(self) -> Place:
        """What receivers were notified of: the dispatcher's memory, inbox and journal, and the silences."""
        return self.root / "alerts"

    @property
    def findings(self) -> Place:
        """The findings table."""
        return self.root / "tables" / "findings"

    @property
    def groups(self) -> Place:
        """The table of what every group is now."""
        return self.root / "tables" / "groups"

    @property
    def audit(self) -> Place:
        """The Data Docs of the last audit."""
        return self.root / "audit"

    @property
    def quarantine(self) -> Place:
        """The table of unreadable records."""
        return self.root / "tables" / "quarantine"

    @property
    def identity_key(self) -> Place:
        """The key under which identities are hashed."""
        return self.root / "identity.key"

    @property
    def jsonl(self) -> Place:
        """Findings as JSON lines."""
        return self.root / "findings.jsonl"


def storage_at(path: str | os.PathLike[str], remote: str = "") -> Storage:
    """Return the storage at a path or URI; a path is made absolute: Spark resolves relative ones elsewhere.

    `remote`: where Spark's checkpoint lies, "" for in it. Raises FolderError.
    """
    place = place_at(path)
    return Storage(_absolute(place) if isinstance(place, Path) else place, remote)


def _absolute(path: Path) -> Path:
    whole = expanded(path)
    try:
        whole.stat()
    except (FileNotFoundError, NotADirectoryError):
        # Made at the start, or reported with what stands in its way.
        pass
    except OSError as error:
        # A circle of links, a name that is too long, a folder above that may not be entered.
        raise FolderError(f"{whole} cannot be used: {error.strerror}. Correct `storage.path`.") from None
    return whole.resolve()
