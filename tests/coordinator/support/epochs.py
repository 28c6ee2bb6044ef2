"""Hand-written epoch-based groups (KIP-848, KIP-932, KIP-1071): their records from a few verbs."""

from struct import pack

from rebalance_monitor.coordinator.settings import DetectionSettings
from tests.coordinator.support.timeline import P, S, Topic, text

SETTINGS = DetectionSettings(session_timeout_848_ms=S)
TOPIC = bytes(range(16))
A, B = "zgORvoSYQXmmm5n5_hae9Q", "k5AKl_XXSA2_Ho3RQc0IVw"
C = "tXqYc0pVQm2sLr4bDk6eFg"


def compact(value: str | None) -> bytes:
    return b"\0" if value is None else bytes([len(value) + 1]) + value.encode()


class Epochs(Topic):
    """A KIP-848 group's records, as its coordinator writes them."""

    def put(self, at: int, kind: int, value: bytes | None, member: str = "") -> None:
        self.record(at, pack(">h", kind) + text(self.group) + (text(member) if member else b""), value)

    def bump(self, at: int, epoch: int) -> None:
        self.put(at, 3, b"\0\0" + pack(">i", epoch) + b"\0")

    def target(self, at: int, epoch: int) -> None:
        self.put(at, 6, b"\0\0" + pack(">i", epoch) + b"\0")

    def ack(self, at: int, member: str, epoch: int, partitions: tuple[int, ...] = (), state: int = 0) -> None:
        given = TOPIC + bytes([len(partitions) + 1]) + pack(f">{len(partitions)}i", *partitions) + b"\0"
        body = pack(">iib", epoch, epoch - 1, state) + b"\2" + given + b"\1" + b"\0"
        self.put(at, 8, b"\0\0" + body, member)

    def metadata(
        self,
        at: int,
        member: str,
        instance: str | None = None,
        *,
        topic: str = "orders",
        classic: int | None = None,
        rebalance: int | None = None,
    ) -> None:
        """Describe a member; `classic`: it speaks the classic protocol, with this session timeout (ms)."""
        value = b"\0\0" + compact(instance) + b"\0" + compact("c-" + member[:2]) + compact("/10.0.0.1")
        value += b"\2" + compact(topic) + b"\0" + pack(">i", P if rebalance is None else rebalance) + b"\0"
        own = b"" if classic is None else b"\1" + pack(">i", classic) + b"\1\0"
        value += b"\1\0" + bytes([len(own)]) + own if own else b"\0"
        self.put(at, 5, value, member)

    def join(
        self, at: int, member: str, epoch: int, partitions: tuple[int, ...], instance: str | None = None
    ) -> None:
        self.metadata(at, member, instance)
        self.bump(at, epoch)
        self.target(at, epoch)
        self.ack(at, member, epoch, partitions)

    def leave(self, at: int, member: str, epoch: int | None) -> None:
        for kind in (8, 7, 5):
            self.put(at, kind, None, member)
        if epoch is not None:
            self.bump(at, epoch)


class Share(Epochs):
    """A share group's records: metadata 10, epoch 11, target 12, member's state 14."""

    def bump(self, at: int, epoch: int) -> None:
        self.put(at, 11, b"\0\0" + pack(">iq", epoch, 7) + b"\0")

    def target(self, at: int, epoch: int) -> None:
        self.put(at, 12, b"\0\0" + pack(">i", epoch) + b"\0")

    def metadata(self, at: int, member: str, instance: str | None = None, **_: object) -> None:
        assert instance is None
        value = b"\0\0\0" + compact("c-" + member[:2]) + compact("/10.0.0.1") + b"\2" + compact("orders")
        self.put(at, 10, value + b"\0", member)

    def ack(self, at: int, member: str, epoch: int, partitions: tuple[int, ...] = (), state: int = 0) -> None:
        given = bytes(16) + bytes([len(partitions) + 1]) + pack(f">{len(partitions)}i", *partitions) + b"\0"
        self.put(at, 14, b"\0\0" + pack(">iib", epoch, epoch - 1, state) + b"\2" + given + b"\0", member)

    def leave(self, at: int, member: str, epoch: int | None) -> None:
        for kind in (14, 13, 10):
            self.put(at, kind, None, member)
        if epoch is not None:
            self.bump(at, epoch)


class Streams(Epochs):
    """Records of a streams group: metadata 19, epoch 17, target 20, member's state 22 (2 unrevoked)."""

    def bump(self, at: int, epoch: int) -> None:
        self.put(at, 17, b"\0\0" + pack(">iq", epoch, 7) + b"\0")

    def target(self, at: int, epoch: int) -> None:
        self.put(at, 20, b"\0\0" + pack(">i", epoch) + b"\0")

    def metadata(self, at: int, member: str, instance: str | None = None, **_: object) -> None:
        value = b"\0\0" + compact(instance) + b"\0" + compact("c-" + member[:2]) + compact("/10.0.0.1")
        self.put(at, 19, value + pack(">ii", P, 1) + compact("process") + b"\xff" + b"\1" + b"\0", member)

    def ack(self, at: int, member: str, epoch: int, partitions: tuple[int, ...] = (), state: int = 1) -> None:
        assert not partitions
        body = pack(">iib", epoch, epoch - 1, state) + b"\1" * 6 + b"\0"
        self.put(at, 22, b"\0\0" + body, member)

    def leave(self, at: int, member: str, epoch: int | None) -> None:
        for kind in (22, 21, 19):
            self.put(at, kind, None, member)
        if epoch is not None:
            self.bump(at, epoch)


def pair() -> Epochs:
    """A and B joined one after the other and converged on epoch 2."""
    topic = Epochs()
    topic.join(0, A, 1, (0, 1))
    topic.join(1_000, B, 2, ())
    topic.ack(2_000, A, 2, (0,))
    topic.ack(2_500, B, 2, (1,))
    return topic


def committing(topic: Epochs, first: int, last: int, partition: int) -> None:
    for at in range(first, last + 1, 1_000):
        topic.commit(at, {partition: 5})
