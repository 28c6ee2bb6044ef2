"""Which files of a Delta table count: its log, read without Spark.

The log (`_delta_log`, Delta's protocol) is one file of JSON actions per version; a checkpoint is the Parquet
form of all actions up to its version. `add` makes a file part of the table, `remove` takes it away, `txn`
says which batch of which writer was the last. Refuses, as an OSError that says so, what our own writer never
makes: deletion vectors, mapped columns, checkpoints of another kind, gaps.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from rebalance_monitor.checkpoints.storage.sealed import parsed
from rebalance_monitor.dashboard.tables.parquet import parquet_file

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rebalance_monitor.checkpoints.storage.places import Place

LOG = "_delta_log"
_COMMIT = re.compile(r"^(\d{20})\.json$")
_CHECKPOINT = re.compile(r"^(\d{20})\.checkpoint(?:\.(\d{10})\.(\d{10}))?\.parquet$")
_COLUMNS = ("add", "remove", "txn", "metaData", "protocol")
_READER = 3


@dataclass(slots=True)
class DeltaState:
    """What a log says. files: relative paths, decoded; transactions: application id -> last version."""

    files: set[str] = field(default_factory=set)
    transactions: dict[str, int] = field(default_factory=dict)

    def apply(self, actions: Iterable[Mapping[str, Any]]) -> None:
        """Apply the actions of one version. Raises OSError for what cannot be read."""
        for action in actions:
            if removed := action.get("remove"):
                self.files.discard(unquote(removed["path"]))
            if added := action.get("add"):
                _require_whole(added)
                self.files.add(unquote(added["path"]))
            if txn := action.get("txn"):
                self.transactions[txn["appId"]] = txn["version"]
            _require_plain(action)


def is_delta(folder: Place) -> bool:
    """Whether the table in `folder` is Delta's."""
    return (folder / LOG).is_dir()


def read_log(folder: Place) -> DeltaState:
    """Return the newest state of the table in `folder`. Raises OSError, also for a log it cannot read."""
    names = [path.name for path in (folder / LOG).iterdir()]
    commits = sorted(int(match[1]) for match in map(_COMMIT.match, names) if match)
    start, parts = _last_checkpoint(names)
    state = DeltaState()
    try:
        for part in parts:
            state.apply(_checkpointed(folder / LOG / part))
        for number, version in enumerate((v for v in commits if v > start), start + 1):
            if version != number:
                raise OSError(f"the log of the Delta table {folder} lacks version {number}")
            state.apply(_committed(folder / LOG / f"{version:020d}.json"))
    except (ValueError, KeyError, TypeError) as error:
        raise OSError(f"the log of the Delta table {folder} cannot be read: {error}") from error
    return state


def _last_checkpoint(names: Iterable[str]) -> tuple[int, list[str]]:
    """Return the version of the newest checkpoint that is whole, with its files; -1 where there is none."""
    found: dict[tuple[int, int], list[str]] = {}
    for match in filter(None, map(_CHECKPOINT.match, names)):
        found.setdefault((int(match[1]), int(match[3] or 1)), []).append(match[0])
    whole = [(version, parts) for (version, total), parts in found.items() if len(parts) == total]
    return max(whole, default=(-1, []))


def _checkpointed(path: Place) -> list[dict[str, Any]]:
    file = parquet_file(path)
    columns = [name for name in _COLUMNS if name in file.schema_arrow.names]
    rows: list[dict[str, Any]] = file.read(columns=columns).to_pylist()
    return [_without_nulls(row) for row in rows]


def _without_nulls(row: Mapping[str, Any]) -> dict[str, Any]:
    found = {name: value for name, value in row.items() if value is not None}
    if "metaData" in found:
        # Parquet's maps are lists of pairs.
        found["metaData"] = {"configuration": dict(found["metaData"].get("configuration") or ())}
    return found


def _committed(path: Place) -> list[dict[str, Any]]:
    # Not `splitlines`: statistics hold names of groups, and these what Unicode counts as a line break.
    return [parsed(line) for line in path.read_text(encoding="utf-8").split("\n") if line]


def _require_whole(added: Mapping[str, Any]) -> None:
    if added.get("deletionVector"):
        raise OSError(
            f"{added['path']} has a deletion vector, which is not read here: "
            "run REORG TABLE … APPLY (PURGE) on the findings table"
        )


def _require_plain(action: Mapping[str, Any]) -> None:
    configuration = (action.get("metaData") or {}).get("configuration") or {}
    if configuration.get("delta.columnMapping.mode", "none") != "none":
        raise OSError("the findings table maps its columns (delta.columnMapping), which is not read here")
    if ((action.get("protocol") or {}).get("minReaderVersion") or 0) > _READER:
        raise OSError("the findings table asks for a newer reader of Delta's log than this version has")
