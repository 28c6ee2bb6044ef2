"""Lanes: the keys of Spark's state. A lane carries the coordinators of many shards through one Python call.

Spark's price for a key of `applyInPandasWithState` is a few CPU milliseconds a batch, for pandas frames
around its rows and state, whatever is in them; with a key for each of 50 shards that is most of what an idle
batch costs. A lane is therefore one task's whole share: as many lanes as shuffle partitions, and keys chosen
so that Spark's hash puts each lane into a partition of its own. Fixed once a job has state, like the number
of partitions itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import count
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Number = TypeVar("Number", int, "NDArray[np.int32]")
_WORD = 0xFFFF_FFFF
# The seed of Spark's Murmur3Hash.
_SEED = 42


@dataclass(frozen=True, slots=True)
class Lanes:
    """How the coordinators of `shards` x `buckets` share `count` state keys."""

    shards: int
    buckets: int
    count: int

    def lane(self, shard: Number, bucket: Number) -> Number:
        """Return the lane, from 0 on, of one coordinator, or the lanes of an array of them.

        The buckets of a shard lie in different ones.
        """
        return (shard * self.buckets + bucket) % self.count

    def members(self, lane: int) -> list[tuple[int, int]]:
        """List the (shard, bucket) pairs of `lane`."""
        places = range(lane, self.shards * self.buckets, self.count)
        return [divmod(place, self.buckets) for place in places]

    @property
    def keys(self) -> tuple[int, ...]:
        """Return Spark's key for each lane."""
        return lane_keys(self.count)


@lru_cache
def lane_keys(partitions: int) -> tuple[int, ...]:
    """Return for each of `partitions` the smallest whole number that Spark's partitioner puts there."""
    found: dict[int, int] = {}
    numbers = count()
    while len(found) < partitions:
        number = next(numbers)
        found.setdefault(spark_hash(number) % partitions, number)
    return tuple(found[partition] for partition in range(partitions))


def spark_hash(number: int) -> int:
    """Return Spark's `hash` of one int column: Murmur3, 32 bits, seed 42, with sign."""
    word = _rotated((number & _WORD) * 0xCC9E2D51, 15) * 0x1B873593 & _WORD
    mixed = (_rotated(_SEED ^ word, 13) * 5 + 0xE6546B64) & _WORD
    mixed ^= 4  # the length of an int
    mixed = (mixed ^ mixed >> 16) * 0x85EBCA6B & _WORD
    mixed = (mixed ^ mixed >> 13) * 0xC2B2AE35 & _WORD
    mixed ^= mixed >> 16
    return mixed - (1 << 32) if mixed >> 31 else mixed


def _rotated(word: int, bits: int) -> int:
    word &= _WORD
    return (word << bits | word >> 32 - bits) & _WORD
