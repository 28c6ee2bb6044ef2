r"""Whether the files of Spark's checkpoint that the next start reads are whole.

Spark fails on a damaged file with an error that names neither the file nor the way out. So these are looked
at before Spark starts:

- every file with a checksum beside it: Hadoop's local file system writes `.NAME.crc` (magic `crc\0`, bytes
  per chunk, one CRC-32 a chunk). Object stores and HDFS check their own bytes;
- `offsets/N` and `commits/N` of the batches that a start reads (`spark_log.py` reads what they say);
- the query's `metadata`, the first offsets of each source (`sources/N/0`) and the schema of the state, where
  they are there: Spark writes them once, and reads them at every start;
- the state of each partition after the last committed batch: Spark loads the newest snapshot (`V.zip`,
  `V.snapshot`) up to version N + 1 and applies each change (`V.changelog`, `V.delta`) after it.
"""

from __future__ import annotations

import re
from struct import Struct, error
from typing import TYPE_CHECKING
from zlib import crc32

from rebalance_monitor.checkpoints.storage.places import is_remote

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from rebalance_monitor.checkpoints.storage.places import Place

_MAGIC = b"crc\0"
_HEAD = Struct(">4sI")
_SUM_BYTES = 4
# Checkpoint format 2 of Spark 4 puts a unique id behind the version.
_NAME = re.compile(r"(\d+)(?:_[\w-]+)?\.(zip|snapshot|changelog|delta)")
_SNAPSHOTS = frozenset({"zip", "snapshot"})


def state_problems(checkpoint: Place, committed: int, partitions: int) -> list[str]:
    """Return what is wrong with what is written once, or else with the state after batch `committed`.

    `partitions`: of the state, 0 where no start will read it. Raises OSError.
    """
    once = [problem for path in _written_once(checkpoint) if (problem := file_problem(path))]
    operators = [folder for folder in (checkpoint / "state").glob("*") if folder.name.isdigit()]
    if once or committed < 0 or not partitions:
        return once
    if not operators:
        return [f"{checkpoint / 'state'} is gone."]
    places = (operator / str(number) for operator in operators for number in range(partitions))
    return [problem for place in places for problem in _partition_problems(place, committed + 1)]


def file_problem(path: Place) -> str:
    """Return in a sentence what is wrong with a file; "" where it is whole. Raises OSError."""
    if not path.is_file():
        return f"{path} is no file."
    if not path.stat().st_size:
        return f"{path} is empty."
    if is_remote(path):
        return ""
    content = path.read_bytes()
    sums = path.parent / f".{path.name}.crc"
    if sums.exists() and not _fits(content, sums.read_bytes()):
        return f"{path} is damaged: it does not match {sums.name}."
    return ""


def _written_once(checkpoint: Place) -> list[Place]:
    """Return the files that Spark writes at a query's first start and reads at every other."""
    firsts = (source / "0" for source in (checkpoint / "sources").glob("*"))
    schemas = (operator / "_metadata" / "schema" for operator in (checkpoint / "state").glob("*"))
    found = (checkpoint / "metadata", *sorted(firsts, key=str), *sorted(schemas, key=str))
    return [path for path in found if path.exists()]


def _partition_problems(folder: Place, version: int) -> Iterator[str]:
    """Yield what is wrong with the state of one partition at `version`."""
    if not folder.is_dir():
        yield f"{folder} is gone."
        return
    found = _versions(folder.glob("*"))
    snapshots = [number for number, kinds in found.items() if number <= version and kinds.keys() & _SNAPSHOTS]
    base = max(snapshots, default=0)
    needed = [found[base][kind] for kind in found.get(base, {}) if kind in _SNAPSHOTS]
    for number in range(base + 1, version + 1):
        changes = [path for kind, path in found.get(number, {}).items() if kind not in _SNAPSHOTS]
        if not changes:
            yield f"{folder} lacks the changes of version {number}."
            return
        needed += changes
    yield from filter(None, map(file_problem, needed))


def _versions(paths: Iterable[Place]) -> Mapping[int, dict[str, Place]]:
    found: dict[int, dict[str, Place]] = {}
    for path in paths:
        if name := _NAME.fullmatch(path.name):
            found.setdefault(int(name[1]), {})[name[2]] = path
    return found


def _fits(content: bytes, sums: bytes) -> bool:
    """Whether `content` has the checksums that Hadoop wrote beside it."""
    try:
        magic, size = _HEAD.unpack_from(sums)
    except error:
        return False
    if magic != _MAGIC or size <= 0:
        return False
    chunks = (content[at : at + size] for at in range(0, len(content), size))
    return sums[_HEAD.size :] == b"".join(crc32(chunk).to_bytes(_SUM_BYTES, "big") for chunk in chunks)
