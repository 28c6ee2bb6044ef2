"""Bytes of a `__consumer_offsets` record to a typed record, or a typed failure.

Pure Python, numpy and pyarrow: no Spark, no Kafka client, no clock.
"""

from rebalance_monitor.decoders.batches.batch import decode_batch, pieces
from rebalance_monitor.decoders.hashing import bucket_of, coordinator_partition, java_hash
from rebalance_monitor.decoders.record import Decoded, Failure, Key, decode_record
from rebalance_monitor.decoders.records.classic import (
    GroupMember,
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from rebalance_monitor.decoders.rows import ROW_SCHEMA, CommitRun, Row

__all__ = [
    "ROW_SCHEMA",
    "CommitRun",
    "Decoded",
    "Failure",
    "GroupMember",
    "GroupMetadataKey",
    "GroupMetadataValue",
    "Key",
    "OffsetCommitKey",
    "OffsetCommitValue",
    "Row",
    "bucket_of",
    "coordinator_partition",
    "decode_batch",
    "decode_record",
    "java_hash",
    "pieces",
]
