"""A hand-written topic: rows as the decode stage gives them, from a few verbs."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from itertools import pairwise
from struct import pack
from typing import TYPE_CHECKING, Any

from rebalance_monitor.checkpoints.state.codec import decode_state, encode_state
from rebalance_monitor.coordinator.findings.outputs import FindingOut, GroupOut, Output, PositionsOut
from rebalance_monitor.coordinator.lag.board import Board
from rebalance_monitor.coordinator.live import Live
from rebalance_monitor.coordinator.probe.sample import ProbeSample, RebalancingGroup
from rebalance_monitor.coordinator.settings import DetectionSettings
from rebalance_monitor.coordinator.shard import ShardCoordinator, new_shard_state
from rebalance_monitor.decoders import Row, rows

if TYPE_CHECKING:
    from collections.abc import Callable

    from rebalance_monitor.coordinator.findings.finding import Finding
    from rebalance_monitor.coordinator.findings.kinds import Kind

T0 = 1_795_000_000_000
S, P = 6_000, 8_000


@dataclass
class Client:
    """A member as a test writes it down; session and rebalance timeout in ms.

    `believes`: the generation that its subscription names.
    """

    member_id: str
    partitions: tuple[int, ...] = ()
    client_id: str = "consumer-g-1"
    host: str = "/10.0.0.1"
    instance_id: str | None = None
    topics: tuple[str, ...] = ("orders",)
    session: int = S
    rebalance: int = P
    believes: int = 0


def text(value: str | None) -> bytes:
    if value is None:
        return b"\xff\xff"
    raw = value.encode()
    return pack(">H", len(raw)) + raw


def blob(raw: bytes) -> bytes:
    return pack(">i", len(raw)) + raw


def subscription(topics: tuple[str, ...], believes: int = 0) -> bytes:
    names = b"".join(text(topic) for topic in topics)
    return pack(">hi", 3, len(topics)) + names + pack(">iii", -1, 0, believes) + text(None)


def assignment(topic: str, partitions: tuple[int, ...]) -> bytes:
    body = text(topic) + pack(f">i{len(partitions)}i", len(partitions), *partitions)
    return pack(">hi", 0, 1) + body + pack(">i", -1)


def metadata(
    generation: int, clients: list[Client], cst: int, protocol: str = "range", leader: str | None = None
) -> bytes:
    """A GroupMetadata value, version 3."""
    head = pack(">h", 3) + text("consumer") + pack(">i", generation)
    if clients:
        head += text(protocol) + text(leader or clients[0].member_id)
    else:
        head += text(None) + text(None)
    out = bytearray(head + pack(">qi", cst, len(clients)))
    for client in clients:
        out += text(client.member_id) + text(client.instance_id) + text(client.client_id) + text(client.host)
        out += pack(">ii", client.rebalance, client.session)
        out += blob(subscription(client.topics, client.believes))
        out += blob(assignment(client.topics[0], client.partitions))
    return bytes(out)


@dataclass
class Topic:
    """One shard's records, in order."""

    group: str = "g"
    shard: int = 7
    rows: list[Row] = field(default_factory=list)
    offset: int = 0

    def record(self, at: int, key: bytes, value: bytes | None, group: str | None = None) -> None:
        name = self.group if group is None else group
        body = rows.record_body(key, value)
        self.rows.append(Row(self.shard, 0, "record", self.offset, self.offset, T0 + at, name, -1, 1, body))
        self.offset += 1

    def generation(
        self, at: int, number: int, clients: list[Client], *, sync: int = 20, protocol: str = "range"
    ) -> None:
        """A completed generation (or, without clients, Empty) whose join phase ended `sync` ms before."""
        cst = T0 + at - (sync if clients else 0)
        self.record(at, b"\0\2" + text(self.group), metadata(number, clients, cst, protocol))

    def tombstone(self, at: int, kind: int = 2) -> None:
        self.record(at, pack(">h", kind) + text(self.group), None)

    def commit(self, at: int, offsets: dict[int, int], topic: str = "orders") -> None:
        """One OffsetCommit request: partition -> offset."""
        parts, values = b"", b""
        for index, (partition, offset) in enumerate(offsets.items()):
            parts += rows.partition_entry(None if index else topic.encode(), partition)
            values += pack(">q", offset)
        last = self.offset + len(offsets) - 1
        body = rows.run_body(parts, values)
        self.rows.append(
            Row(
                self.shard,
                0,
                "commit_run",
                self.offset,
                last,
                T0 + at,
                self.group,
                T0 + at,
                len(offsets),
                body,
            )
        )
        self.offset = last + 1

    def commits(self, first: int, last: int, client: Client, *, every: int = 1_000, moving: int = 0) -> None:
        """Regular commits of all partitions of one member, from `first` to `last` inclusive."""
        for index, at in enumerate(range(first, last + 1, every)):
            self.commit(at, dict.fromkeys(client.partitions, 100 + moving * index))

    def sorted(self) -> Topic:
        """The same rows by time, renumbered: members' commits interleave."""
        merged = Topic(self.group, self.shard)
        for row in sorted(self.rows, key=lambda row: row.record_ts):
            first = merged.offset
            last = first + row.count - 1
            merged.rows.append(
                Row(
                    row.shard,
                    row.bucket,
                    row.row_kind,
                    first,
                    last,
                    row.record_ts,
                    row.group,
                    row.commit_ts,
                    row.count,
                    row.body,
                )
            )
            merged.offset = last + 1
        return merged


def outputs(
    topic: Topic,
    settings: DetectionSettings | None = None,
    *,
    until: int = 0,
    clock: int = 1_000,
    history: int | None = None,
) -> list[Output]:
    """Everything said about `topic`, with a clock row every `clock` ms up to `until` ms after its end."""
    shard = ShardCoordinator(new_shard_state(topic.shard, 0, history), settings or DetectionSettings(), "c1")
    out: list[Output] = []
    now = topic.rows[0].record_ts if topic.rows else T0
    for row in topic.rows:
        while row.record_ts >= now + clock:
            now += clock
            out += shard.on_clock(now)
        out += shard.on_row(row)
    end = (topic.rows[-1].record_ts if topic.rows else T0) + until
    while now < end:
        now += clock
        out += shard.on_clock(now)
    return out


def findings(
    topic: Topic, settings: DetectionSettings | None = None, *, until: int = 0, history: int | None = None
) -> list[Finding]:
    """The findings among `outputs`."""
    found = outputs(topic, settings, until=until, history=history)
    return [out.finding for out in found if isinstance(out, FindingOut)]


def of(found: list[Finding], kind: Kind) -> list[Finding]:
    return [finding for finding in found if finding.kind is kind]


def watched(
    topic: Topic,
    seen: Callable[[int], str],
    *,
    until: int,
    epoch: Callable[[int], int] = lambda _: 1,
    every: int = 1_000,
    settings: DetectionSettings | None = None,
) -> list[Finding]:
    """The findings of `topic` and of probe samples once a second up to `until`, in batches of `every` ms.

    `seen`: the state that a look at this time (ms) sees the group in, if any; `epoch`: its leader epoch.
    """
    settings = settings or DetectionSettings()
    shard = ShardCoordinator(new_shard_state(topic.shard, 0, None), settings, "c1")
    live = Live(settings, "c1")
    summaries: dict[str, dict[str, Any]] = {}
    told: list[Finding] = []
    board = Board(measures=False)
    for end in range(every, until + every, every):
        batch = [row for row in topic.rows if T0 + end - every <= row.record_ts < T0 + end]
        out = [said for row in batch for said in shard.on_row(row)] + shard.on_clock(T0 + end)
        summaries |= {said.group: said.summary for said in out if isinstance(said, GroupOut)}
        looks = [
            ProbeSample(
                T0 + at,
                tuple(RebalancingGroup("g", state, "classic", "consumer") for state in [seen(at)] if state),
                ((topic.shard, 1, epoch(at)),),
                ((1, True),),
            )
            for at in range(end - every + 1_000, end + 1_000, 1_000)
        ]
        found = [said.finding for said in out if isinstance(said, FindingOut)]
        sighted = live.on_samples(looks, summaries, found, {topic.shard: shard.state.now}, board)
        for said in (one for one in out if isinstance(one, PositionsOut)):
            board.publish(said.group, said.held, T0 + end)
        told += sighted + live.refine(found)
        live = Live(settings, "c1", json.loads(json.dumps(live.snapshot())))
    return told


def in_batches(
    topic: Topic, cuts: list[int], *, clocks: bool = True, history: int | None = None
) -> list[Finding]:
    """Findings when the state is written and read at each cut, with a clock row there."""
    settings = DetectionSettings()
    state = new_shard_state(topic.shard, 0, history)
    found: list[Output] = []
    bounds = [0, *sorted(set(cuts)), len(topic.rows)]
    for start, end in pairwise(bounds):
        state = decode_state(encode_state(state))
        shard = ShardCoordinator(state, settings, "c1")
        for row in topic.rows[start:end]:
            found += shard.on_row(row)
        if clocks and end > start:
            found += shard.on_clock(topic.rows[end - 1].record_ts)
        state = shard.state
    return [out.finding for out in found if isinstance(out, FindingOut)]
