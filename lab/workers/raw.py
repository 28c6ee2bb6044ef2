"""A worker that speaks the group protocol itself, so that it can do what no client library lets one do.

`--mode` chooses how it behaves:

- `follow` as a good member should;
- `hold` heartbeats, but never joins again when the group rebalances (it is removed at the join deadline);
- `nosync` joins and never asks for its assignment (it is removed at the sync deadline);
- `hang` joins again and again with other metadata and never syncs: generations come and none is written;
- `die` as `hang`, but forgets every time that it was a member (the old self expires);
- `large` joins with metadata of 6000 bytes, so that the group's record grows;
- `stale` commits when it should not: during both phases of a rebalance, and with an old generation.

`--groups N` makes it one member in each of N groups: a herd that costs one process.
"""

from __future__ import annotations

import socket
import struct
import time
from dataclasses import dataclass, field
from typing import Any

from kafka.protocol.consumer.group import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from kafka.protocol.metadata import MetadataRequest, MetadataResponse

from rebalance_monitor.lab.workers.flags import Flags, group_names, parse
from rebalance_monitor.lab.workers.loop import Commands, Journal, Worker

OLD_GENERATION, UNKNOWN_MEMBER, IN_PROGRESS, NEED_MEMBER_ID = 22, 25, 27, 79
HANG_S = 1.5
LARGE = 6_000
TIMEOUT_S = 60.0


class Wire:
    """One connection; requests are answered in order."""

    def __init__(self, flags: Flags) -> None:
        host, _, port = flags.bootstrap.split(",")[0].rpartition(":")
        self._socket = socket.create_connection((host, int(port)), TIMEOUT_S)
        self._client_id = flags.client_id or "raw"

    def ask(self, kind: Any, answer: Any, version: int, **fields: Any) -> Any:  # noqa: ANN401 - untyped
        """Send a request of the library's class `kind` and give the answer."""
        request = kind[version](**fields)
        request.with_header(correlation_id=1, client_id=self._client_id)
        self._socket.sendall(bytes(request.encode(header=True, framed=True)))
        (size,) = struct.unpack(">i", self._exactly(4))
        return answer.decode(self._exactly(size), version=version, header=True)

    def _exactly(self, size: int) -> bytes:
        found = b""
        while len(found) < size:
            part = self._socket.recv(size - len(found))
            if not part:
                raise ConnectionError("the broker closed the connection")
            found += part
        return found

    def close(self) -> None:
        """Close it without a word."""
        self._socket.close()


def subscription(topics: list[str], remark: bytes = b"") -> bytes:
    """Give a subscription of version 0: topics and user data."""
    names = b"".join(struct.pack(">h", len(name)) + name.encode() for name in topics)
    return struct.pack(">hi", 0, len(topics)) + names + struct.pack(">i", len(remark)) + remark


def assignment(topic: str, partitions: list[int]) -> bytes:
    """Give an assignment of version 0 with partitions of one topic."""
    parts = b"".join(struct.pack(">i", part) for part in partitions)
    head = struct.pack(">hih", 0, 1, len(topic)) + topic.encode()
    return head + struct.pack(">i", len(partitions)) + parts + struct.pack(">i", -1)


def assigned_partitions(data: bytes) -> list[int]:
    """Give the partitions of the first topic of an assignment; none of an empty one."""
    if len(data) < struct.calcsize(">hih"):
        return []
    _, topics, length = struct.unpack_from(">hih", data)
    (count,) = struct.unpack_from(">i", data, 8 + length)
    return list(struct.unpack_from(f">{count}i", data, 12 + length)) if topics else []


@dataclass(slots=True)
class Member:
    """One member of one group, as its own state machine on a shared connection."""

    wire: Wire
    flags: Flags
    group: str
    journal: Journal
    id: str = ""
    generation: int = -1
    partitions: list[int] = field(default_factory=list)
    joins: int = 0
    beat_at: float = 0.0
    commit_at: float = 0.0
    position: int = 0

    def join(self) -> None:
        """Join (again) and, if the mode lets it, sync."""
        answer = self._ask_to_join()
        if answer.error_code == NEED_MEMBER_ID:
            self.id = answer.member_id
            answer = self._ask_to_join()
        if answer.error_code:
            self.journal.write_event("join_refused", error=answer.error_code, member=self.id)
            self.id, self.beat_at = "", time.monotonic() + 1
            return
        self.id, self.generation = answer.member_id, answer.generation_id
        if self.flags.mode == "stale":
            self.commit("completing", self.generation)
        if self.flags.mode not in {"nosync", "hang", "die"}:
            self._sync(answer)
        self.beat_at = time.monotonic() + (HANG_S if self.flags.mode in {"hang", "die"} else self._pace())

    def _ask_to_join(self) -> Any:  # noqa: ANN401 - untyped
        self.joins += 1
        remark = str(self.joins).encode() if self.flags.mode in {"hang", "die"} else b""
        remark = b"x" * LARGE if self.flags.mode == "large" else remark
        protocol = JoinGroupRequest.JoinGroupRequestProtocol(
            name=self.flags.assignor, metadata=subscription(self.flags.topic_list, remark)
        )
        return self.wire.ask(
            JoinGroupRequest,
            JoinGroupResponse,
            5,
            group_id=self.group,
            session_timeout_ms=self.flags.session_ms,
            rebalance_timeout_ms=self.flags.poll_ms,
            member_id=self.id,
            group_instance_id=self.flags.instance_id or None,
            protocol_type="consumer",
            protocols=[protocol],
        )

    def _sync(self, joined: Any) -> None:  # noqa: ANN401 - untyped
        shares = self._shares([one.member_id for one in joined.members]) if joined.leader == self.id else []
        given = [
            SyncGroupRequest.SyncGroupRequestAssignment(member_id=member, assignment=share)
            for member, share in shares
        ]
        fields = {"group_id": self.group, "generation_id": self.generation, "member_id": self.id}
        answer = self.wire.ask(
            SyncGroupRequest, SyncGroupResponse, 3, **fields, group_instance_id=None, assignments=given
        )
        if answer.error_code == 0:
            self.partitions = assigned_partitions(bytes(answer.assignment))
            self.journal.write_event("assigned", member=self.id, partitions=self.partitions, group=self.group)

    def _shares(self, members: list[str]) -> list[tuple[str, bytes]]:
        topic = self.flags.topic_list[0]
        wanted = [MetadataRequest.MetadataRequestTopic(name=topic)]
        fields = {"topics": wanted, "allow_auto_topic_creation": False}
        found = self.wire.ask(MetadataRequest, MetadataResponse, 5, **fields)
        count = len(found.topics[0].partitions)
        ordered = sorted(members)
        return [
            (member, assignment(topic, list(range(number, count, len(ordered)))))
            for number, member in enumerate(ordered)
        ]

    def turn(self) -> None:
        """Do what is due: heartbeat, commit, join again."""
        now = time.monotonic()
        if now >= self.beat_at:
            self._beat(now)
        if self.partitions and self.flags.commit != "none" and now >= self.commit_at:
            self.commit_at = now + self.flags.commit_ms / 1000
            self.commit("stable", self.generation)
            if self.flags.mode == "stale":
                self.commit("old generation", self.generation - 1)

    def _beat(self, now: float) -> None:
        mode = self.flags.mode
        if mode == "die":
            self.id = ""
        if not self.id or mode in {"hang", "die"}:
            self.join()
            return
        self.beat_at = now + self._pace()
        fields = {"group_id": self.group, "generation_id": self.generation, "member_id": self.id}
        error = self.wire.ask(
            HeartbeatRequest, HeartbeatResponse, 3, **fields, group_instance_id=None
        ).error_code
        if error == IN_PROGRESS and mode not in {"hold", "nosync"}:
            if mode == "stale":
                self.commit("preparing", self.generation)
            self.join()
        elif error in {OLD_GENERATION, UNKNOWN_MEMBER}:
            self.journal.write_event("removed", member=self.id, error=error)
            self.id, self.partitions = "", []

    def _pace(self) -> float:
        return self.flags.heartbeat_ms / 1000

    def commit(self, phase: str, generation: int) -> None:
        """Commit the next position of every partition; a refusal is written with the phase it came in."""
        self.position += 1
        request = OffsetCommitRequest.OffsetCommitRequestTopic
        part = request.OffsetCommitRequestPartition
        parts = [
            part(partition_index=one, committed_offset=self.position, committed_metadata="")
            for one in self.partitions or [0]
        ]
        answer = self.wire.ask(
            OffsetCommitRequest,
            OffsetCommitResponse,
            7,
            group_id=self.group,
            generation_id_or_member_epoch=generation,
            member_id=self.id,
            group_instance_id=None,
            topics=[request(name=self.flags.topic_list[0], partitions=parts)],
        )
        errors = {one.error_code for topic in answer.topics for one in topic.partitions}
        if phase != "stable" or errors != {0}:
            self.journal.write_event("committed", phase=phase, errors=sorted(errors), member=self.id)

    def leave(self) -> None:
        """Leave the group."""
        if self.id:
            self.wire.ask(LeaveGroupRequest, LeaveGroupResponse, 1, group_id=self.group, member_id=self.id)
        self.id = ""


class RawClient:
    """The member, or the herd, behind the worker's `Client`."""

    def __init__(self, flags: Flags, journal: Journal) -> None:
        self._wire = Wire(flags)
        self._members = [Member(self._wire, flags, name, journal) for name in group_names(flags)]

    def poll(self, timeout_s: float) -> int:
        """Let every member do what is due."""
        for member in self._members:
            member.turn()
        time.sleep(timeout_s / 4)
        return 0

    def commit(self) -> None:
        """Commit for every member."""
        for member in self._members:
            member.commit("stable", member.generation)

    def subscribe(self, topics: list[str]) -> None:
        """Change nothing: its subscription is what it was started with."""

    def unsubscribe(self) -> None:
        """Leave without closing."""
        for member in self._members:
            member.leave()

    def member(self) -> str:
        """Give the first member's id."""
        return self._members[0].id

    def obey(self, command: list[str]) -> bool:
        """Know no command of its own."""
        return not command

    def close(self) -> None:
        """Leave and close."""
        self.unsubscribe()
        self._wire.close()


def main() -> None:
    """Run one worker."""
    flags, journal = parse(), Journal()
    Worker(RawClient, flags, journal, Commands()).run()


if __name__ == "__main__":
    main()
