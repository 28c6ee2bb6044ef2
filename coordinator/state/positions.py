"""What is kept of a group's committed offsets: the newest of each partition, with its commit time.

Plain data in the form in which it arrives, so that a commit costs no decoding. `runs` holds whole commit
runs, oldest first: the list of partitions (T of the row contract, decoders/rows.py) -> (commit time in ms,
offsets (O)). A later run overrides an earlier one; an offset of -1 says that the coordinator has dropped the
partition. `table` holds what was in earlier runs, one entry a partition (coordinator/commits/positions.py
packs it, 20 bytes each). `size` is the bytes of `runs`. `commits`: how many offsets were committed so far.
`lone`: the group has no record of its own. `marked`: a commit of it had a hole of one offset behind it, as a
transaction's marker leaves one.
"""

from __future__ import annotations

import msgspec


class Positions(msgspec.Struct, array_like=True, gc=False):
    """The committed offsets of one group."""

    table: bytes = b""
    runs: dict[bytes, tuple[int, bytes]] = msgspec.field(default_factory=dict)
    size: int = 0
    commits: int = 0
    lone: bool = False
    marked: bool = False
