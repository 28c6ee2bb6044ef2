"""What a capture is made of: its file names, its metadata, and the error of a damaged one.

A capture is a folder with `records.parquet` and, where the probe ran, `sightings.jsonl` and `ends.jsonl`:
what the brokers said of groups, and how far the consumed topics had grown. Where the records come from stands
in the Parquet metadata under METADATA_KEY, as one JSON object.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field

import msgspec

from rebalance_monitor.cluster.clients.admin import OFFSETS_TOPIC
from rebalance_monitor.config.errors import ConfigError

FORMAT = 1
METADATA_KEY = b"rebalance_monitor.capture"
RECORDS, SIGHTINGS, ENDS = "records.parquet", "sightings.jsonl", "ends.jsonl"
BATCH_ROWS = 32_768
DAMAGE = (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError)
"""What reading a line of JSON raises that holds something else than a sample."""


class CaptureError(ConfigError):
    """A path that holds no capture, or a damaged one; the sentence names the path and what is wrong."""


@dataclass(frozen=True, slots=True)
class Metadata:
    """Where the records come from; `end_offsets` by partition, exclusive; -1 and "" where unknown.

    `broker_values`: the brokers' values that detection uses, as far as they were returned.
    `session_timeouts`: ms, of epoch-based groups with one of their own; None for a group, or for all, if it
    could not be read. `unled`: partitions that no broker led: it has no record of them.
    """

    format: int = FORMAT
    topic: str = OFFSETS_TOPIC
    cluster_id: str = ""
    topic_id: str = ""
    partitions: int = -1
    end_offsets: dict[int, int] = field(default_factory=dict)
    leader_epochs: dict[int, int] = field(default_factory=dict)
    broker_version: str = ""
    broker_values: dict[str, int] = field(default_factory=dict)
    session_timeouts: dict[str, int | None] | None = field(default_factory=dict)
    captured_at: int = -1
    unled: list[int] = field(default_factory=list)

    def offsets_retention_ms(self) -> int | None:
        """Give the brokers' retention of committed offsets, ms."""
        return self.broker_values.get("offsets_retention_ms")

    def max_message_bytes(self) -> int | None:
        """Give the largest message that the topic took, bytes."""
        return self.broker_values.get("max_message_bytes")

    def session_timeout_848_ms(self) -> int | None:
        """Give the brokers' session timeout of KIP-848 groups, ms."""
        return self.broker_values.get("session_timeout_848_ms")

    def session_timeout_share_ms(self) -> int | None:
        """Give the brokers' session timeout of share groups, ms."""
        return self.broker_values.get("session_timeout_share_ms")

    def session_timeout_streams_ms(self) -> int | None:
        """Give the brokers' session timeout of groups of the streams protocol, ms."""
        return self.broker_values.get("session_timeout_streams_ms")

    def group_session_timeouts(self) -> dict[str, int | None] | None:
        """Give the session timeouts (ms) of the epoch-based groups that have one of their own."""
        return self.session_timeouts

    def to_json(self) -> str:
        """Give the JSON object of the Parquet metadata."""
        return json.dumps(asdict(self), separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str | bytes) -> Metadata:
        """Read the JSON object; unknown keys are left out. Raises ValueError where it holds another type."""
        return msgspec.json.decode(text, type=cls)
