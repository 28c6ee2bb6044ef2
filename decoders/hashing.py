"""Which partition of `__consumer_offsets` owns a group, and which bucket of it a group's state is in.

Kafka takes `abs(String.hashCode(group)) % partitions`, with `abs` of the smallest int being 0, since 0.8.2:
not `hash & 0x7fffffff`, which is wrong for half of all groups.
"""

from functools import lru_cache

_MIN_INT, _MAX_INT = -(2**31), 2**31 - 1
# Characters of a name that is remembered: a name may be as long as a record's key.
USUAL = 256


def java_hash(text: str) -> int:
    """Return Java's `String.hashCode` (signed 32 bits) over UTF-16 code units.

    >>> java_hash("my-group")
    -1906497762
    """
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for at in range(0, len(units), 2):
        value = (31 * value + (units[at] << 8 | units[at + 1])) & 0xFFFFFFFF
    return value - 2**32 if value > _MAX_INT else value


def coordinator_partition(group: str, partitions: int) -> int:
    """Return the partition of a `__consumer_offsets` with `partitions` partitions that owns `group`.

    >>> coordinator_partition("my-group", 50)
    12
    """
    value = java_hash(group)
    return 0 if value == _MIN_INT else abs(value) % partitions


def bucket_of(group: str, buckets: int) -> int:
    """Return the bucket in [0, buckets) of a group within its shard.

    All groups of a shard agree in `abs(hash) % partitions`, so the hash is mixed before it is taken modulo
    `buckets`: the multiplier is Knuth's (2**32 / golden ratio), and the high bits decide.
    """
    if buckets <= 1:
        return 0
    return (_mixed(group) if len(group) <= USUAL else _mixed.__wrapped__(group)) * buckets >> 32


@lru_cache(maxsize=65536)
def _mixed(group: str) -> int:
    return (java_hash(group) * 2654435761) & 0xFFFFFFFF
