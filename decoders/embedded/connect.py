"""The Connect protocol inside groups of protocol type "connect": worker metadata and assignment.

Version 0 is protocol "default" (eager), 1 "compatible" (KIP-415), 2 "sessioned" (KIP-507). From v1 a worker's
metadata carries the assignment it has, and assignments carry what to revoke and how long a rebalance is put
off (ms). Connect reads any later version as the newest and tolerates missing trailing fields; so does this.
"""

from dataclasses import dataclass

from rebalance_monitor.decoders.embedded.lenient import read_prefix
from rebalance_monitor.decoders.errors import DecodeError
from rebalance_monitor.decoders.layouts.schema import array, wire
from rebalance_monitor.decoders.record import Failure

NEWEST = 2
CONNECTOR = -1
"""Task number of the connector itself."""


@dataclass(frozen=True, slots=True)
class ConnectorTasks:
    """Tasks of one connector; task -1 is the connector itself."""

    connector: str = wire("string")
    tasks: tuple[int, ...] = array("int32")


@dataclass(frozen=True, slots=True)
class _Metadata:
    url: str = wire("string")
    config_offset: int = wire("int64")
    allocation: bytes | None = wire("bytes", since=1, null_since=1, default=None)


@dataclass(frozen=True, slots=True)
class _Assignment:
    error: int = wire("int16")
    leader: str = wire("string")
    leader_url: str = wire("string")
    config_offset: int = wire("int64")
    assignment: tuple[ConnectorTasks, ...] | None = array(ConnectorTasks, null_since=1)
    revoked: tuple[ConnectorTasks, ...] | None = array(ConnectorTasks, since=1, null_since=1)
    delay: int = wire("int32", since=1)


@dataclass(frozen=True, slots=True)
class ConnectAssignment:
    """What a worker was given, and from v1 what it must give up and the announced delay in ms."""

    version: int
    error: int
    leader: str
    leader_url: str
    config_offset: int
    assignment: tuple[ConnectorTasks, ...]
    revoked: tuple[ConnectorTasks, ...]
    delay: int
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ConnectMetadata:
    """What a worker says of itself: its URL, the config offset it has read, and what it runs (v1+)."""

    version: int
    url: str
    config_offset: int
    allocation: ConnectAssignment | None
    notes: tuple[str, ...] = ()


def decode_connect_assignment(data: bytes) -> ConnectAssignment | Failure:
    """Read a worker's assignment; never raises. Zero bytes are an assignment of nothing (version -1)."""
    if not data:
        return ConnectAssignment(-1, 0, "", "", -1, (), (), 0)
    try:
        return _assignment(data)
    except DecodeError as error:
        return Failure(error.reason, "value", error.at, error.field)


def decode_connect_metadata(data: bytes) -> ConnectMetadata | Failure:
    """Read a worker's metadata; never raises. Positions inside the allocation count from its own start.

    >>> decode_connect_metadata(bytes.fromhex("0001 0002 6877 000000000000002a ffffffff")).config_offset
    42
    """
    try:
        version, found, notes = read_prefix(_Metadata, data, NEWEST)
        allocation = _assignment(found.allocation) if found.allocation else None
    except DecodeError as error:
        return Failure(error.reason, "value", error.at, error.field)
    return ConnectMetadata(version, found.url, found.config_offset, allocation, notes)


def _assignment(data: bytes) -> ConnectAssignment:
    version, found, notes = read_prefix(_Assignment, data, NEWEST)
    return ConnectAssignment(
        version,
        found.error,
        found.leader,
        found.leader_url,
        found.config_offset,
        found.assignment or (),
        found.revoked or (),
        found.delay,
        notes,
    )
