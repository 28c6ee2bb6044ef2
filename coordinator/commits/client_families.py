"""Client families: what a member's silence means depends on the client library it runs.

The default client id, the protocol name, the shape of the subscription and the pair of timeouts hint at the
family. Users override the first and the last: where the shape leaves it open, a family is a guess. The
behaviour comes from the clients' sources and from captures of ten families (docs/detection.md). An unknown
family claims less, never more.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rebalance_monitor.decoders.embedded.consumer import Subscription

MAX_HEARTBEAT_MS = 3_000
"""Default heartbeat interval; no record holds the configured one."""


def heartbeat_of(session: int) -> int:
    """Return the most (ms) between heartbeats of a member with a session of so many ms."""
    return min(MAX_HEARTBEAT_MS, max(session // 3, 1))


@dataclass(frozen=True, slots=True)
class Family:
    """Behaviour of one client library.

    `commits_idle`: auto-commit repeats unchanged offsets (None: unknown). `enforces_poll`: leaves the group
    when the application stops polling. `says_goodbye`: sends LeaveGroup on close. `poll_late_ms`: the client
    notices the breach so much later; `poll_at_beat`: it checks for a breach only with its heartbeats.
    `commits_stalled`: goes on committing while its application is stalled, and its max.poll.interval is in no
    record. `polls_to_rejoin`: rejoins within the application's poll, so it commits what it processed before,
    and nothing after.

    For advice: `assignors`: Kafka's assignors that it has (None: unknown, or not in all versions).
    `mixes_assignors`: may list eager assignors beside cooperative ones. `static`: has group.instance.id
    (None: unknown). `batch`: its setting for the records of one poll, "" if it has none.
    """

    name: str
    commits_idle: bool | None
    enforces_poll: bool | None
    says_goodbye: bool = True
    poll_late_ms: int = 0
    poll_at_beat: bool = False
    commits_stalled: bool = False
    polls_to_rejoin: bool = False
    assignors: frozenset[str] | None = None
    mixes_assignors: bool = True
    static: bool | None = None
    batch: str = ""

    def poll_late(self, session: int) -> int:
        """Return the most (ms) until the client notices its breach, by its session timeout (ms)."""
        return max(self.poll_late_ms, heartbeat_of(session) if self.poll_at_beat else 0)


_KAFKAS_ASSIGNORS = frozenset({"range", "roundrobin", "sticky", "cooperative-sticky"})
_EAGER_ASSIGNORS = _KAFKAS_ASSIGNORS - {"cooperative-sticky"}
_NONE: frozenset[str] = frozenset()

STREAMS_1071 = "streams-1071"
"""Kafka Streams with its own protocol (KIP-1071): all members of a streams group."""

CONNECT = "connect"
"""Workers of Kafka Connect: their group's members commit nothing, the consumers of its sink tasks do."""

FAMILIES: dict[str, Family] = {
    family.name: family
    for family in (
        Family(
            "java",
            commits_idle=True,
            enforces_poll=True,
            poll_late_ms=100,
            polls_to_rejoin=True,
            assignors=_KAFKAS_ASSIGNORS,
            static=True,
            batch="max.poll.records",
        ),
        Family(
            "streams",
            commits_idle=False,
            enforces_poll=True,
            says_goodbye=False,
            assignors=_NONE,
            static=True,
            batch="max.poll.records",
        ),
        Family(CONNECT, commits_idle=False, enforces_poll=True, assignors=_NONE, static=False),
        Family(
            "librdkafka",
            commits_idle=False,
            enforces_poll=True,
            poll_late_ms=500,
            polls_to_rejoin=True,
            assignors=_KAFKAS_ASSIGNORS - {"sticky"},
            mixes_assignors=False,
            static=True,
        ),
        Family(
            "kafka-python",
            commits_idle=True,
            enforces_poll=True,
            poll_at_beat=True,
            polls_to_rejoin=True,
            batch="max_poll_records",
        ),
        Family(
            "aiokafka",
            commits_idle=True,
            enforces_poll=False,
            commits_stalled=True,
            assignors=_EAGER_ASSIGNORS,
            static=True,
            batch="max_poll_records",
        ),
        Family("sarama", commits_idle=False, enforces_poll=False, assignors=_EAGER_ASSIGNORS, static=True),
        Family("franz-go", commits_idle=False, enforces_poll=False, assignors=_KAFKAS_ASSIGNORS, static=True),
        Family(
            "kafka-go",
            commits_idle=False,
            enforces_poll=False,
            assignors=_EAGER_ASSIGNORS - {"sticky"},
            static=False,
        ),
        Family("kafkajs", commits_idle=False, enforces_poll=False, assignors=_NONE, static=False),
        Family(
            "java-848",
            commits_idle=True,
            enforces_poll=True,
            poll_late_ms=100,
            static=True,
            batch="max.poll.records",
        ),
        Family(
            "librdkafka-848",
            commits_idle=False,
            enforces_poll=True,
            static=True,
        ),
        Family(
            STREAMS_1071, commits_idle=False, enforces_poll=True, poll_late_ms=100, batch="max.poll.records"
        ),
        Family("unknown-848", commits_idle=None, enforces_poll=True),
        Family("unknown", commits_idle=None, enforces_poll=None),
    )
}
"""name -> behaviour."""

_BY_CLIENT_ID = (
    ("rdkafka", "librdkafka"),
    ("kafka-python", "kafka-python"),
    ("aiokafka", "aiokafka"),
    ("sarama", "sarama"),
    ("kgo", "franz-go"),
    ("kafkajs", "kafkajs"),
    ("consumer-", "java"),
    ("connect-", CONNECT),
)
_PREFIXES = tuple(prefix for prefix, _ in _BY_CLIENT_ID)
_ANYBODYS = "consumer-"
# No other library sends a subscription of this shape.
_BY_SHAPE = frozenset({"streams", CONNECT, "kafkajs", "kafka-go"})
_BY_TIMEOUTS = {
    (10_000, 60_000): "sarama",
    (45_000, 60_000): "franz-go",
    (30_000, 30_000): "kafka-go",
    (30_000, 60_000): "kafkajs",
}
_THREAD = re.compile(r"-StreamThread-\d+(-(restore-)?consumer)?$")
_CONSUMER = re.compile(r"(?<=-)\d+$")
_NEWEST_SUBSCRIPTION = 3
_UUID_TEXT = 22
_GENERATION_BYTES = 4


def recognise(
    client_id: str, session: int, rebalance: int, protocol_type: str, protocol: str, sub: Subscription | None
) -> str:
    """Name of the likeliest family, `unknown` where nothing speaks for one; timeouts in ms."""
    if protocol_type == CONNECT:
        return CONNECT
    if protocol == "stream":
        return "streams"
    shaped = _by_subscription(sub, protocol, same=session == rebalance)
    # Any client may be named consumer-…. Java clients before 2.4 send what kafka-python sends.
    others = shaped[:1] in {("librdkafka",), ("aiokafka",)}
    if client_id.startswith(_PREFIXES) and not (others and client_id.startswith(_ANYBODYS)):
        return next(name for prefix, name in _BY_CLIENT_ID if client_id.startswith(prefix))
    if "segmentio/kafka-go" in client_id:
        return "kafka-go"
    if protocol == "RoundRobinAssigner":
        return "kafkajs"
    timed = _BY_TIMEOUTS.get((session, rebalance), "unknown")
    return shaped[0] if shaped and timed not in shaped else timed


def is_named(client_id: str, family: str) -> bool:
    """Whether a library's default client id, or the shape of what only it sends, names the family."""
    own = next((name for prefix, name in _BY_CLIENT_ID if client_id.startswith(prefix)), "")
    return own == family or family in _BY_SHAPE


def instance_of(client: str) -> str:
    """Return the instance of Kafka Streams that a thread's client id belongs to; other ids as they are.

    A thread that dies of a record is replaced by one with another number.
    """
    return _THREAD.sub("", client)


def process_of(client: str) -> str:
    """Return what the client ids of one process have in common: Java numbers the consumers of one process."""
    instance = instance_of(client)
    return _CONSUMER.sub("", instance) if instance.startswith("consumer-") else instance


def consumer_number(client: str) -> int:
    """Return the number that a Java client has given itself within its process, 0 where it has not."""
    found = _CONSUMER.search(client) if client.startswith("consumer-") else None
    return int(found[0]) if found else 0


def recognise_848(member_id: str) -> str:
    """Recognise a KIP-848 client by the base64 alphabet of its member id: Java's is URL-safe.

    About half of all ids have no character that differs; these are `unknown`.
    """
    if len(member_id.rstrip("=")) != _UUID_TEXT:
        return "unknown"
    if "+" in member_id or "/" in member_id:
        return "librdkafka-848"
    return "java-848" if "-" in member_id or "_" in member_id else "unknown"


def _by_subscription(sub: Subscription | None, protocol: str, *, same: bool) -> tuple[str, ...]:
    """Name the families that send such a subscription, likeliest first; `same`: both timeouts are equal."""
    if sub is None:
        return ()
    if sub.user_data is None:
        return (_without_user_data(sub),)
    if sub.version == _NEWEST_SUBSCRIPTION:
        return _newest(sub, sub.user_data, sticky=protocol == "cooperative-sticky")
    if protocol == "cooperative-sticky" and len(sub.user_data) == _GENERATION_BYTES:
        return ("java",)
    if sub.version == 0 and not sub.user_data:
        own = () if protocol in _KAFKAS_ASSIGNORS else ("kafkajs",)
        return ("aiokafka" if same else "kafka-python", *own)
    return ()


def _without_user_data(sub: Subscription) -> str:
    """Name the family that sends none: Java's before 2.4 sent empty ones with version 0.

    sarama sends version 0, kafka-go version 1 without the partitions that it owns, Java every newer one.
    """
    if sub.version == 0:
        return "sarama"
    return "kafka-go" if sub.version == 1 and sub.notes else "java"


def _newest(sub: Subscription, user_data: bytes, *, sticky: bool) -> tuple[str, ...]:
    """Name the family that sends user data with the newest version.

    librdkafka's are empty, but from its second cooperative generation on; without a rack it sends an empty
    one, where Java and franz-go send none. As cooperative-sticky Java sends its generation alone, which is
    never 0; franz-go sends the partitions that it owns, at first none of them and no generation.
    """
    if not sticky:
        return () if user_data else ("librdkafka",)
    if len(user_data) == _GENERATION_BYTES:
        return ("java",) if any(user_data) else ("franz-go",)
    return ("franz-go",) if user_data and sub.rack_id is None else ("librdkafka",)
