"""Streams groups (KIP-1071): tasks and the topology tell whose a commit is, and so why a member went."""

from struct import pack

import pytest

from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.finding import CLAIMED, Finding
from rebalance_monitor.coordinator.findings.kinds import Kind
from rebalance_monitor.coordinator.settings import DetectionSettings
from tests.coordinator.support.timeline import P, S, Topic, findings, text

SETTINGS = DetectionSettings(session_timeout_848_ms=S)
A, B = "member-a", "member-b"
STABLE = 1
NOTHING = b"\1"


def compact(value: str) -> bytes:
    return bytes([len(value) + 1]) + value.encode()


def listed(*parts: bytes) -> bytes:
    return bytes([len(parts) + 1]) + b"".join(parts)


class Streams(Topic):
    """A streams group's records, as its coordinator writes them."""

    def put(self, at: int, kind: int, value: bytes | None, member: str = "") -> None:
        self.record(at, pack(">h", kind) + text(self.group) + (text(member) if member else b""), value)

    def topology(self, at: int, sources: tuple[str, ...], repartitioned: str = "") -> None:
        again = listed(
            *(compact(one) + pack(">ih", 0, 0) + NOTHING + b"\0" for one in [repartitioned] if one)
        )
        part = compact("0") + listed(*map(compact, sources)) + NOTHING * 3 + again + NOTHING + b"\0"
        self.put(at, 23, b"\0\0" + pack(">i", 0) + listed(part) + b"\0")

    def epoch(self, at: int, number: int) -> None:
        self.put(at, 17, b"\0\0" + pack(">iq", number, 7) + b"\0")
        self.put(at, 20, b"\0\0" + pack(">i", number) + b"\0")

    def joins(self, at: int, member: str) -> None:
        value = b"\0\0" + b"\0\0" + compact("c-" + member) + compact("/10.0.0.1") + pack(">ii", P, 0)
        self.put(at, 19, value + compact("process") + b"\xff" + NOTHING + b"\0", member)

    def has(self, at: int, member: str, epoch: int, tasks: tuple[int, ...]) -> None:
        task = compact("0") + listed(*(pack(">i", one) for one in tasks)) + b"\0"
        body = pack(">iib", epoch, epoch - 1, STABLE) + listed(task) + NOTHING * 5 + b"\0"
        self.put(at, 22, b"\0\0" + body, member)

    def goes(self, at: int, member: str, epoch: int) -> None:
        for kind in (22, 21, 19):
            self.put(at, kind, None, member)
        self.epoch(at, epoch)


def lost(removed: int, *, last: int, topic: str = "orders", repartitioned: str = "") -> Finding:
    """B commits on its task every second until `last` and is removed at `removed`; A commits on its own."""
    group = Streams()
    group.joins(0, A)
    group.topology(0, ("orders",), repartitioned)
    group.joins(100, B)
    group.epoch(100, 2)
    group.has(200, A, 2, (0,))
    group.has(200, B, 2, (1,))
    for step, at in enumerate(range(1_000, removed, 1_000)):
        group.commit(at, {0: step}, topic)
        if at <= last:
            group.commit(at + 100, {1: step}, topic)
    group.commit(last + 150, {1: 99}, topic)
    group.goes(removed, B, 3)
    group.has(removed + 500, A, 3, (0, 1))
    rebalances = [one for one in findings(group.sorted(), SETTINGS) if one.kind is Kind.REBALANCE]
    return rebalances[-1]


@pytest.mark.parametrize(
    ("silence", "cause"),
    [(50, Cause.MEMBER_LEFT), (S, Cause.SESSION_TIMEOUT), (P + 500, Cause.POLL_INTERVAL_EXCEEDED)],
)
def test_the_silence_of_a_task_shows_why_its_member_departed(silence: int, cause: Cause) -> None:
    last = 20_000
    found = lost(last + 150 + silence, last=last)
    assert found.causes[0].cause is cause
    assert found.causes[0].member_id == B
    assert found.causes[0].confidence >= 0.6


def test_commits_of_topics_that_the_topology_writes_again_count_as_well() -> None:
    found = lost(20_200, last=20_000, topic="app-again-repartition", repartitioned="app-again-repartition")
    assert found.causes[0].cause is Cause.MEMBER_LEFT
    assert found.causes[0].confidence >= 0.6


def test_commits_of_topics_that_no_subtopology_reads_say_nothing() -> None:
    found = lost(20_200, last=20_000, topic="elsewhere")
    assert all(entry.confidence < CLAIMED for entry in found.causes)
