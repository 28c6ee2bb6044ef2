"""What lies in a job's folder: the state generations, which of them is in use, and which may be removed.

Reads the manifest and Spark's log only: no Spark, no broker. Only whole generations that the manifest does
not name are ever removed; ledger, findings and tables never. Where Spark keeps a generation elsewhere its
folder here holds the name of that place (`ELSEWHERE`), whatever the configuration says by now.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rebalance_monitor.checkpoints.errors import REBUILD, FolderError, first_line
from rebalance_monitor.checkpoints.state.batch_log import batches_kept, read_log
from rebalance_monitor.checkpoints.state.manifest import ManifestError, read_manifest
from rebalance_monitor.checkpoints.state.spark_log import require_whole
from rebalance_monitor.checkpoints.storage.files import remove_folder
from rebalance_monitor.checkpoints.storage.places import place_at
from rebalance_monitor.config.errors import ConfigError

if TYPE_CHECKING:
    from rebalance_monitor.checkpoints.state.manifest import Manifest
    from rebalance_monitor.checkpoints.state.spark_log import SparkLog
    from rebalance_monitor.checkpoints.storage.places import Place

ELSEWHERE = "elsewhere"
"""The file in a generation's folder that holds the URI at which Spark keeps it."""

_PRUNE = "It is not in use: `checkpoint prune` removes it."


@dataclass(frozen=True, slots=True)
class Generation:
    """One folder below `state/`. size: bytes. log: None where it cannot be read, then `problem` says why.

    elsewhere: the URI at which Spark keeps it, "" in its folder; out_of_reach: why that cannot be looked at.
    """

    number: int
    in_use: bool
    size: int
    batches: int
    log: SparkLog | None
    problem: str = ""
    elsewhere: str = ""
    out_of_reach: str = ""


@dataclass(frozen=True, slots=True)
class Inspection:
    """The whole folder. manifest: None where there is none, or it cannot be read (`problems` says which)."""

    manifest: Manifest | None
    generations: tuple[Generation, ...]
    problems: tuple[str, ...]


def inspect(manifest: Place, states: Place) -> Inspection:
    """Return what lies at `manifest` and below `states`. Writes nothing. Raises OSError."""
    problems: list[str] = []
    found: Manifest | None = None
    try:
        found = read_manifest(manifest)
    except ManifestError as error:
        problems.append(str(error))
    used = found.generation if found else None
    lanes = found.identity.lanes if found else 0
    generations = tuple(
        _inspect_generation(folder, int(folder.name) == used, lanes if int(folder.name) == used else 0)
        for folder in _folders(states)
    )
    problems += [generation.problem for generation in generations if generation.problem]
    return Inspection(found, generations, tuple(problems))


def superseded(found: Inspection) -> list[Generation]:
    """Return the generations that may go: those the manifest gave up. None without a readable manifest."""
    return [generation for generation in found.generations if found.manifest and not generation.in_use]


def remove(states: Place, generation: Generation) -> None:
    """Remove one generation, first what Spark keeps elsewhere. Raises FolderError, OSError."""
    places = [place_at(generation.elsewhere)] if generation.elsewhere else []
    for folder in (*places, states / str(generation.number)):
        if folder.exists():
            remove_folder(folder)


def _folders(states: Place) -> list[Place]:
    return sorted((path for path in states.glob("*") if path.name.isdigit()), key=lambda path: int(path.name))


def _inspect_generation(folder: Place, in_use: bool, lanes: int) -> Generation:  # noqa: FBT001 - one of its fields
    number, note, uri = int(folder.name), folder / ELSEWHERE, ""
    try:
        uri = note.read_text(encoding="utf-8").strip() if note.exists() else ""
        place = place_at(uri) if uri else folder
        return Generation(number, in_use, *_contents(place, lanes, in_use=in_use), elsewhere=uri)
    except (FolderError, OSError, UnicodeDecodeError) as error:
        if not uri and isinstance(error, OSError):
            raise
        why = first_line(error)
        return Generation(number, in_use, 0, 0, None, elsewhere=uri or str(note), out_of_reach=why)


def _contents(folder: Place, lanes: int, *, in_use: bool) -> tuple[int, int, SparkLog | None, str]:
    """Return size, number of batches, log and what is wrong with it."""
    log, problem = None, ""
    try:
        log = read_log(folder)
        require_whole(folder, log, lanes)
    except ConfigError as error:
        problem = f"{error.problems[0]} {REBUILD if in_use else _PRUNE}"
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    return size, batches_kept(folder), log, problem
