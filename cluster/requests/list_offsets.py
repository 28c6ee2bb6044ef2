"""ListOffsets for many partitions by kafka-python, without an object for each (KIP-79, KIP-98).

The library's own call fails as a whole where one partition has moved or may not be described, and costs ten
times as much. Here the request's bytes are laid out at once, and the answer is read as columns. All leaders
are asked side by side: one that hangs makes nobody wait for the others longer than for itself.
"""

from __future__ import annotations

import struct
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rebalance_monitor.coordinator.lag.ends import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rebalance_monitor.cluster.requests.topology import Topic

    Asked = Mapping[str, list[int]]
    """Topic -> the partitions that a leader is asked for."""

LATEST, EARLIEST = -1, -2
NO_LEADER = "LEADER_NOT_AVAILABLE"
NO_OFFSET = "_NO_OFFSET"
UNREACHED = "_UNREACHED"
"""Prefix of the reason if a partition's leader could not be asked: our own reasons begin so."""

API_KEY, VERSION = 2, 2
"""The version that says which offsets are wanted (Kafka 0.11); no later one is laid out as simply."""

NOT_A_BROKER = -1
_PLACE = np.dtype([("partition", ">i4"), ("stamp", ">i8")])
_ANSWER = np.dtype([("partition", ">i4"), ("error", ">i2"), ("stamp", ">i8"), ("offset", ">i8")])


@dataclass(frozen=True, slots=True)
class Wanted:
    """stamp: LATEST, EARLIEST or a time (ms). committed: as a consumer of committed records sees it."""

    stamp: int
    committed: bool = False


class Outcomes(NamedTuple):
    """Topic -> offset of each partition, UNKNOWN where there is none; how often which error came."""

    offsets: dict[str, list[int]]
    errors: Counter[str]


def list_offsets(client: Any, topics: Mapping[str, Topic], what: Wanted) -> Outcomes:  # noqa: ANN401 - the library has no types
    """Ask the leaders of all partitions of topics."""
    found = Outcomes({name: [UNKNOWN] * topic.partitions for name, topic in topics.items()}, Counter())
    wanted: dict[int, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for name, topic in topics.items():
        for place in topic.leaders:
            if place.broker < 0:
                found.errors[NO_LEADER] += 1
            else:
                wanted[place.broker][name].append(place.partition)
    bodies = {leader: _body(asked, what) for leader, asked in wanted.items()}
    answers = client._manager.run(_ask, client._manager, bodies)  # noqa: SLF001 - as its own requests
    for leader, asked in wanted.items():
        answer = answers[leader]
        left = sum(map(len, asked.values())) - (0 if answer is None else _take(answer, asked, found))
        if left:
            found.errors[UNREACHED] += left
    return found


async def _ask(manager: Any, bodies: Mapping[int, bytes]) -> dict[int, bytes | None]:  # noqa: ANN401
    from kafka.errors import KafkaError  # noqa: PLC0415 - slow to import

    sent: dict[int, Any] = {}
    found: dict[int, bytes | None] = dict.fromkeys(bodies)
    for leader, body in bodies.items():
        try:
            sent[leader] = manager.send(_Request(body), node_id=leader)
        except (KafkaError, OSError):
            continue
    for leader, future in sent.items():
        try:
            found[leader] = (await future).body
        except (KafkaError, OSError):
            continue
    return found


def _body(asked: Asked, what: Wanted) -> bytes:
    parts = [struct.pack(">ibi", NOT_A_BROKER, what.committed, len(asked))]
    for name, partitions in asked.items():
        places = np.empty(len(partitions), _PLACE)
        places["partition"], places["stamp"] = partitions, what.stamp
        parts += [_text(name), struct.pack(">i", len(partitions)), places.tobytes()]
    return b"".join(parts)


def _take(body: bytes, asked: Asked, found: Outcomes) -> int:
    """Read an answer; return of how many partitions that were asked for it says something."""
    from kafka.errors import for_code  # noqa: PLC0415 - as above

    said = 0
    for name, rows in _answers(body):
        offsets, wanted = found.offsets.get(name, []), {*asked.get(name, ())}
        for partition, error, _, offset in rows.tolist():
            if partition not in wanted:
                continue
            wanted.discard(partition)
            said += 1
            if error:
                found.errors[str(for_code(error).message)] += 1
            elif offset < 0:
                found.errors[NO_OFFSET] += 1
            else:
                offsets[partition] = offset
    return said


def _answers(body: bytes) -> Iterable[tuple[str, Any]]:
    """Yield topic and partitions of an answer."""
    (topics,), at = struct.unpack_from(">i", body, 4), 8
    for _ in range(topics):
        (size,) = struct.unpack_from(">h", body, at)
        name = body[at + 2 : at + 2 + size].decode()
        at += 2 + size
        (count,) = struct.unpack_from(">i", body, at)
        yield name, np.frombuffer(body, _ANSWER, count, at + 4)
        at += 4 + count * _ANSWER.itemsize


def _text(text: str) -> bytes:
    encoded = text.encode()
    return struct.pack(">h", len(encoded)) + encoded


class _Request:
    """A request as kafka-python's connection sends it, whose body is there already; its own header, too."""

    API_KEY, API_VERSION = API_KEY, VERSION

    def __init__(self, body: bytes) -> None:
        self._body = body
        self.correlation_id, self._client_id = 0, ""

    @property
    def header(self) -> _Request:
        """What the connection keeps until the answer comes."""
        return self

    def with_header(self, correlation_id: int, client_id: str) -> None:
        """Take what the connection puts into the header."""
        self.correlation_id, self._client_id = correlation_id, client_id

    def encode(self, *, framed: bool, header: bool) -> bytes:  # noqa: ARG002 - always both
        """Return the whole request."""
        head = struct.pack(">hhi", API_KEY, VERSION, self.correlation_id) + _text(self._client_id)
        return struct.pack(">i", len(head) + len(self._body)) + head + self._body

    def expect_response(self) -> bool:
        """Whether an answer comes."""
        return True

    def get_response_class(self) -> type[_Response]:
        """Return what reads the answer."""
        return _Response


@dataclass(frozen=True, slots=True)
class _Response:
    """An answer: left as it is where it is a body, and its correlation id where it is a header."""

    correlation_id: int = -1
    body: bytes = b""
    throttle_time_ms: int = 0

    @classmethod
    def parse_header(cls, data: Any) -> _Response:  # noqa: ANN401 - the library has no types
        """Read the header."""
        return cls(correlation_id=struct.unpack(">i", data.read(4))[0])

    @classmethod
    def decode(cls, data: Any) -> _Response:  # noqa: ANN401
        """Read the body."""
        body = bytes(data.read())
        return cls(body=body, throttle_time_ms=struct.unpack_from(">i", body)[0])
