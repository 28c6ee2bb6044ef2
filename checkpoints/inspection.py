"""What lies in a job's folder: the state generations, which of them is in use, and what may go.

Reads the manifest and Spark's log only: no Spark, no broker. Only whole generations that the manifest does
not name are ever removed; ledger, findings and tables never.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rebalance_monitor.checkpoints.files import remove_folder
from rebalance_monitor.checkpoints.manifest import ManifestError, read_manifest
from rebalance_monitor.checkpoints.spark_log import SparkLog, SparkLogError, batches, read_spark_log

if TYPE_CHECKING:
    from rebalance_monitor.checkpoints.manifest import Manifest
    from rebalance_monitor.checkpoints.places import Place


@dataclass(frozen=True, slots=True)
class Generation:
    """One folder below `state/`. size: bytes. log: None where it cannot be read, then `problem` says why."""

    number: int
    in_use: bool
    size: int
    batches: int
    log: SparkLog | None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Inspection:
    """The whole folder. manifest: None where there is none, or it cannot be read (`problems` says which)."""

    manifest: Manifest | None
    generations: tuple[Generation, ...]
    problems: tuple[str, ...]


def inspect(manifest: Place, states: Place, elsewhere: Place | None = None) -> Inspection:
    """Return what lies at `manifest` and below `states`; Spark's own files may be `elsewhere`. OSError."""
    problems: list[str] = []
    found: Manifest | None = None
    try:
        found = read_manifest(manifest)
    except ManifestError as error:
        problems.append(str(error))
    used = found.generation if found else None
    spark = states if elsewhere is None else elsewhere
    generations = tuple(_generation(spark / folder.name, used) for folder in _folders(states))
    problems += [generation.problem for generation in generations if generation.problem]
    return Inspection(found, generations, tuple(problems))


def superseded(found: Inspection) -> list[Generation]:
    """Return the generations that may go: those the manifest gave up. None without a readable manifest."""
    return [generation for generation in found.generations if found.manifest and not generation.in_use]


def remove(states: Place, generation: Generation, elsewhere: Place | None = None) -> None:
    """Remove one generation's folder, first what Spark wrote `elsewhere`. Raises OSError."""
    for place in (elsewhere, states):
        folder = None if place is None else place / str(generation.number)
        if folder is not None and folder.exists():
            remove_folder(folder)


def _folders(states: Place) -> list[Place]:
    return sorted((path for path in states.glob("*") if path.name.isdigit()), key=lambda path: int(path.name))


def _generation(folder: Place, used: int | None) -> Generation:
    log, problem = None, ""
    try:
        log = read_spark_log(folder)
    except SparkLogError as error:
        problem = str(error)
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    number = int(folder.name)
    return Generation(number, number == used, size, len(batches(folder)), log, problem)
