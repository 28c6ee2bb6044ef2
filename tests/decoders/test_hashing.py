"""Groups are hashed as the broker hashes them."""

import pytest

from rebalance_monitor.decoders import bucket_of, coordinator_partition, java_hash


@pytest.mark.parametrize(
    ("group", "hashed", "partition"),
    [
        ("test", 3556498, 48),
        ("my-group", -1906497762, 12),
        ("orders", -1008770331, 31),
        ("payments-service", 332086293, 43),
        ("polygenelubricants", -2147483648, 0),
        ("", 0, 0),
        ("grüppe", -1233264812, 12),
        ("团队", 727933, 33),
        ("g-😀", 4884617, 17),
        ("connect-sink-es", -1632125883, 33),
    ],
)
def test_hash_and_partition_are_those_a_jvm_gives(group: str, hashed: int, partition: int) -> None:
    assert (java_hash(group), coordinator_partition(group, 50)) == (hashed, partition)


def test_groups_of_one_shard_spread_over_its_buckets() -> None:
    shard = [g for g in (f"group-{n}" for n in range(20_000)) if coordinator_partition(g, 50) == 7]
    sizes = [sum(bucket_of(g, 4) == bucket for g in shard) for bucket in range(4)]
    assert min(sizes) > len(shard) / 8
