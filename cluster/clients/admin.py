"""What the brokers say about the offsets topic and the cluster: a thin wrapper over kafka-python's admin.

Every call returns one thing that the monitor needs. An unreachable broker is a BrokerUnreachableError, a
missing permission an AccessDeniedError, both with a sentence and a remedy. Values that brokers need not have
(a group's session timeout, a retention) are None if they are not returned: the caller assumes one and reports
that. Needs Describe on the topic and the cluster; DescribeConfigs for the configuration values.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self, TypeVar

from rebalance_monitor.cluster.clients.connection import opened, sentence, unanswered
from rebalance_monitor.cluster.clients.properties import admin_arguments
from rebalance_monitor.cluster.clients.trial import cause_of, misnamed, require_answer
from rebalance_monitor.cluster.errors import AccessDeniedError, BrokerUnreachableError, DependencyError
from rebalance_monitor.cluster.logins.held import login_problem
from rebalance_monitor.cluster.requests.batch_ends import batch_end
from rebalance_monitor.cluster.requests.fetch_offsets import Committed, fetch_offsets
from rebalance_monitor.cluster.requests.leader_epochs import epoch_ends
from rebalance_monitor.cluster.requests.list_offsets import Outcomes, Wanted, list_offsets
from rebalance_monitor.cluster.requests.topology import Broker, PartitionLeader, Topic

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from types import TracebackType


T = TypeVar("T")
OFFSETS_TOPIC = "__consumer_offsets"
TIMEOUT_MS = 10_000
MINUTE_MS = 60_000
CLIENT_ID = "rebalance-monitor"
GROUPS_ASKED = 500
EPOCH_TYPES = frozenset({"consumer", "share", "streams"})
GROUPS_WITH_VALUES = (4, 0)


class ClusterAdmin:
    """One connection to a cluster; safe to share between threads; use as a context manager.

    `properties` are Kafka client properties by their Java names; `timeout_ms` bounds every request;
    `explains`: take some seconds to find out why a request failed. Raises BrokerUnreachableError when no
    broker answers, AccessDeniedError for a login that is refused, ConfigError for properties that cannot be
    mapped and files that cannot be used.
    """

    def __init__(
        self, properties: Mapping[str, str], timeout_ms: int = TIMEOUT_MS, *, explains: bool = True
    ) -> None:
        self.servers = properties.get("bootstrap.servers", "localhost:9092")
        self._properties = {"bootstrap.servers": self.servers, **properties}
        self._explains = explains
        require_answer(self._properties)
        arguments = {"client_id": CLIENT_ID, "request_timeout_ms": timeout_ms, **admin_arguments(properties)}
        arguments["bootstrap_servers"] = [part.strip() for part in self.servers.split(",")]
        self._arguments = {"bootstrap_timeout_ms": timeout_ms, **arguments}
        self._client = self._call(lambda: opened(self._arguments))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def reconnect(self) -> None:
        """Begin anew: a client that missed a broker does not learn that it is back. Raises as at first."""
        self.close()
        self._client = self._call(lambda: opened(self._arguments))

    def cluster_id(self) -> str:
        """Give the cluster's id, "" where it has none."""
        return str(self._cluster()["cluster_id"] or "")

    def brokers(self) -> tuple[Broker, ...]:
        """Give the brokers that the cluster's metadata names, by id; none that its controller has fenced."""
        named = self._cluster()["brokers"]
        return _brokers([one for one in named if not one.get("is_fenced")] or named, "broker_id")

    def misnamed(self) -> list[BrokerUnreachableError]:
        """Return an error for each address of the metadata where something else than a broker answers."""
        return misnamed(self._properties, [(one.host, one.port) for one in self.brokers()])

    def metadata(self, name: str = OFFSETS_TOPIC) -> tuple[tuple[Broker, ...], Topic | None]:
        """Give brokers and topic in one answer; no topic where it may not be described."""
        client = self._client
        found = self._call(lambda: client._manager.run(client._get_cluster_metadata, [name]))  # noqa: SLF001 - its `describe_topics` drops the brokers
        answer = found["topics"][0]
        return _brokers(found["brokers"], "node_id"), None if answer["error_code"] else _topic(answer)

    def broker_version(self) -> str:
        """Give the version that one broker's API versions amount to, e.g. "4.1"."""
        return ".".join(map(str, self._version()))

    def cluster_operations(self) -> frozenset[str]:
        """Give the operations that we may do on the cluster, e.g. "DESCRIBE"; empty where unknown."""
        return frozenset(self._cluster().get("authorized_operations") or ())

    def topic(self, name: str = OFFSETS_TOPIC) -> Topic | None:
        """Give the topic, or None where it does not exist (yet). AccessDeniedError without Describe on it."""
        answer = self._topic(name)
        return None if answer is None else _topic(answer)

    def describe_topics(self, names: Sequence[str]) -> dict[str, Topic | str]:
        """Give each of the topics, or Kafka's name of why it is unknown. Needs Describe on each."""
        from kafka.errors import for_code  # noqa: PLC0415

        described = self._call(lambda: self._client.describe_topics(list(names))) if names else []
        return {
            one["name"]: for_code(one["error_code"]).message if one["error_code"] else _topic(one)
            for one in described
        }

    def list_offsets(self, topics: Mapping[str, Topic], stamp: int, *, committed: bool = False) -> Outcomes:
        """Give an offset, or what is wrong, of every partition of these topics (list_offsets.py)."""
        return self._call(lambda: list_offsets(self._client, topics, Wanted(stamp, committed)))

    def committed_offsets(self, groups: Sequence[str]) -> dict[str, Committed | str]:
        """Give the committed offsets of each group, or why they are unknown (requests/fetch_offsets.py)."""
        return self._call(lambda: fetch_offsets(self._client, groups)) if groups else {}

    def topic_operations(self, name: str = OFFSETS_TOPIC) -> frozenset[str]:
        """Give the operations that we may do on the topic, e.g. "READ"; empty where unknown."""
        answer = self._topic(name)
        return frozenset(answer.get("authorized_operations") or ()) if answer else frozenset()

    def partition_count(self, name: str = OFFSETS_TOPIC) -> int:
        """Give the number of partitions, 0 where the topic does not exist."""
        topic = self.topic(name)
        return topic.partitions if topic else 0

    def begin_offsets(self, name: str = OFFSETS_TOPIC, *, partly: bool = False) -> dict[int, int]:
        """Give the first offset of each partition; `partly`: of each that has a leader."""
        return self._offsets(name, -2, partly=partly)

    def log_ends(self, name: str = OFFSETS_TOPIC, *, partly: bool = False) -> dict[int, tuple[int, int]]:
        """Return partition -> (next offset, epoch of the leader that returned it; -1 if it returns none).

        `partly`: as above.
        """
        answers = self._answers(name, -1, partly=partly).items()
        return {p: (one.offset, -1 if one.leader_epoch is None else one.leader_epoch) for p, one in answers}

    def epoch_ends(self, topic: Topic, epochs: Mapping[int, int]) -> dict[int, int]:
        """Give where the leaders' logs end those epochs, by partition (requests/leader_epochs.py)."""
        return self._call(lambda: epoch_ends(self._client, topic, epochs))

    def batch_end(self, partition: int, offset: int, name: str = OFFSETS_TOPIC) -> int | None:
        """Give the last offset of the batch that holds `offset`, None where it is unknown."""
        topic = self.topic(name)
        return self._call(lambda: batch_end(self._client, topic, partition, offset)) if topic else None

    def end_offsets(self, name: str = OFFSETS_TOPIC, *, partly: bool = False) -> dict[int, int]:
        """Give the offset that the next record of each partition will have; `partly`: as above."""
        return self._offsets(name, -1, partly=partly)

    def log_bytes(self, name: str = OFFSETS_TOPIC) -> int | None:
        """Give how many bytes the topic's leaders hold on disk; None without Describe on the cluster."""
        try:
            answers = self._call(lambda: self._client.describe_log_dirs([name]))
        except DependencyError:
            return None
        logs = [log for answer in answers for folder in answer["log_dirs"] for log in folder["topics"]]
        sizes: dict[int, int] = {}
        for partition in (one for log in logs if log["name"] == name for one in log["partitions"]):
            number = partition["partition_index"]
            # Replicas are alike; one that is still being copied is smaller.
            sizes[number] = max(sizes.get(number, 0), partition["partition_size"])
        return sum(sizes.values()) if sizes else None

    def offsets_at(self, timestamp: int, name: str = OFFSETS_TOPIC) -> dict[int, int]:
        """Give each partition's first offset written at or after `timestamp` (ms); its end where none is."""
        ends = self.end_offsets(name)
        found = self._offsets(name, timestamp)
        return {p: found[p] if found.get(p, -1) >= 0 else end for p, end in ends.items()}

    def topic_configs(self, name: str = OFFSETS_TOPIC) -> dict[str, str | None]:
        """Give the topic's configuration; empty without DescribeConfigs on it."""
        return self._configs("TOPIC", name, None)

    def max_message_bytes(self, name: str = OFFSETS_TOPIC) -> int | None:
        """Give the topic's `max.message.bytes`, None where it is unknown."""
        return _number(self.topic_configs(name).get("max.message.bytes"))

    def broker_configs(self, keys: Sequence[str]) -> dict[str, str | None]:
        """Give these configuration values of one broker; empty without DescribeConfigs on it."""
        return self._ask_one(lambda broker: self._configs("BROKER", str(broker), list(keys)))

    def offsets_retention_ms(self) -> int | None:
        """Give `offsets.retention.minutes` in ms, None where it is unknown."""
        minutes = _number(self.broker_configs(["offsets.retention.minutes"]).get("offsets.retention.minutes"))
        return None if minutes is None else minutes * MINUTE_MS

    def session_timeout_848_ms(self) -> int | None:
        """Give the brokers' `group.consumer.session.timeout.ms`, None before Kafka 3.7."""
        return self._session_timeout("consumer")

    def session_timeout_share_ms(self) -> int | None:
        """Give the brokers' `group.share.session.timeout.ms`, None before Kafka 4.0."""
        return self._session_timeout("share")

    def session_timeout_streams_ms(self) -> int | None:
        """Give the brokers' `group.streams.session.timeout.ms`, None before Kafka 4.1."""
        return self._session_timeout("streams")

    def group_session_timeouts(self) -> dict[str, int | None] | None:
        """Give the session timeout (ms) of each epoch-based group that has one of its own (Kafka 4.0+).

        None as a group's where it is unknown, and of all where a broker does not answer.
        """
        try:
            old, typed = self._version() < GROUPS_WITH_VALUES, self.epoch_based_groups()
            # A group need not exist to be asked for; the permission is wanted before there is one.
            asked = typed if typed or old else {CLIENT_ID: "consumer"}
            usual = {kind: self._session_timeout(kind) for kind in set(asked.values())}
            timeouts = self.session_timeouts_of(asked)
        except DependencyError:
            return None
        own = {
            group: timeouts[group]
            for group in typed
            if timeouts.get(group) not in {None, usual[typed[group]]}
        }
        return own if old else own | {group: None for group in asked if timeouts.get(group) is None}

    def epoch_based_groups(self) -> dict[str, str]:
        """Give the type (consumer, share, streams) of each epoch-based group that we may list."""
        groups = [group for broker in self.brokers() for group in self.list_groups(broker.id)]
        typed = {str(group["group_id"]): str(group.get("group_type") or "").lower() for group in groups}
        return {name: kind for name, kind in typed.items() if kind in EPOCH_TYPES}

    def session_timeouts_of(self, typed: Mapping[str, str]) -> dict[str, int | None]:
        """Give the session timeout (ms) that holds for each of these groups (name to type, Kafka 4.0+).

        None where it is unknown: without DescribeConfigs on the group, which need not exist.
        """
        found: dict[str, int | None] = {}
        names, keys = sorted(typed), [f"{kind}.session.timeout.ms" for kind in sorted(set(typed.values()))]
        for first in range(0, len(names), GROUPS_ASKED):
            answers = self._described_configs("GROUP", names[first : first + GROUPS_ASKED], keys)
            for group, values in answers.items():
                found[group] = _number(values.get(f"{typed[group]}.session.timeout.ms"))
        return found

    def _ask_one(self, ask: Callable[[int], T]) -> T:
        """Ask the first broker that answers: one that has just died is listed until it is fenced."""
        *others, last = self.brokers()
        for broker in others:
            with suppress(DependencyError):
                return ask(broker.id)
        return ask(last.id)

    def _version(self) -> tuple[int, ...]:
        data = self._client.get_broker_version_data
        return self._ask_one(lambda broker: self._call(lambda: tuple(data(broker).broker_version)))

    def _session_timeout(self, kind: str) -> int | None:
        name = f"group.{kind}.session.timeout.ms"
        return _number(self.broker_configs([name]).get(name))

    def list_groups(self, broker: int, states: Sequence[str] = ()) -> list[dict[str, Any]]:
        """Give the groups that one broker coordinates, of these states only (Kafka 2.6+) or all.

        Keys: group_id, protocol_type, group_state and group_type, as far as the broker returns them.
        """
        from kafka.admin import GroupState  # noqa: PLC0415

        wanted = [GroupState(state) for state in states] or None
        return self._call(lambda: list(self._client.list_groups(broker_ids=[broker], states_filter=wanted)))

    def may_describe_group(self, group: str) -> bool:
        """Return whether we may describe `group`; it need not exist."""
        try:
            self._call(lambda: self._client.list_group_offsets({group: None}))
        except AccessDeniedError:
            return False
        return True

    def describe_groups(self, groups: Sequence[str], broker: int) -> dict[str, dict[str, Any]]:
        """Describe classic groups that `broker` coordinates; keys of an answer: group_state, members, ...

        Members' metadata stay unread. kafka-python reads all of them as consumers' subscriptions, and fails
        as a whole on a group of Kafka Connect that is just stable again.
        """
        manager = self._client._manager  # noqa: SLF001 - nothing public asks without reading them
        return self._call(lambda: dict(manager.run(self._described_groups, list(groups), broker)))

    async def _described_groups(self, groups: list[str], broker: int) -> dict[str, dict[str, Any]]:
        from kafka.protocol.admin import DescribeGroupsRequest  # noqa: PLC0415

        request = DescribeGroupsRequest(groups=groups, include_authorized_operations=False)
        answer = await self._client._manager.send(request, node_id=broker)  # noqa: SLF001 - as above
        return {group.group_id: group.to_dict() for group in answer.groups}

    def _cluster(self) -> dict[str, Any]:
        return self._call(self._described)

    def _described(self) -> dict[str, Any]:
        try:
            return dict(self._client.describe_cluster())
        except KeyError:
            # kafka-python 3 counts on a field that DescribeCluster v0 (Kafka 2.8 to 3.6) does not have.
            client = self._client
            found = client._manager.run(client._get_cluster_metadata, [])  # noqa: SLF001 - its own fallback
            brokers = [{**one, "broker_id": one["node_id"]} for one in found["brokers"]]
            return {**found, "brokers": brokers}

    def _topic(self, name: str) -> dict[str, Any] | None:
        from kafka.errors import TopicAuthorizationFailedError, UnknownTopicOrPartitionError  # noqa: PLC0415

        answer: dict[str, Any] = self._call(lambda: self._client.describe_topics([name])[0])
        if answer["error_code"] == UnknownTopicOrPartitionError.errno:
            return None
        if answer["error_code"] == TopicAuthorizationFailedError.errno:
            raise AccessDeniedError(
                f"The topic {name} may not be described.", f"Grant Describe and Read on the topic {name}."
            )
        return answer

    def _offsets(self, name: str, spec: int, *, partly: bool = False) -> dict[int, int]:
        return {p: answer.offset for p, answer in self._answers(name, spec, partly=partly).items()}

    def _answers(self, name: str, spec: int, *, partly: bool = False) -> dict[int, Any]:
        from kafka import TopicPartition  # noqa: PLC0415

        topic = self.topic(name)
        leaders = topic.leaders if topic else ()
        unled = topic.unled if topic else []
        if unled and not partly:
            raise BrokerUnreachableError(
                f"No broker leads {len(unled)} of {len(leaders)} partitions of {name}: {unled}.",
                "Start the brokers that hold them: their groups have no coordinator until then.",
            )
        led = (leader.partition for leader in leaders if leader.broker >= 0)
        wanted = {TopicPartition(name, partition): spec for partition in led}
        found = self._call(lambda: self._client.list_partition_offsets(wanted)) if wanted else {}
        return {place.partition: answer for place, answer in sorted(found.items())}

    def _configs(self, kind: str, name: str, keys: list[str] | None) -> dict[str, str | None]:
        return self._described_configs(kind, [name], keys).get(name, {})

    def _described_configs(
        self, kind: str, names: Sequence[str], keys: list[str] | None
    ) -> dict[str, dict[str, str | None]]:
        from kafka.admin import ConfigResource  # noqa: PLC0415

        resources = [ConfigResource(kind, name, keys) for name in names]
        answer = self._call(lambda: self._client.describe_configs(resources, config_filter="all"))
        found = answer.get(kind.lower(), {})
        return {name: {key: one["value"] for key, one in values.items()} for name, values in found.items()}

    def _call(self, ask: Callable[[], T]) -> T:
        """Ask, and turn the client's errors into sentences."""
        from kafka.errors import KafkaError, RetriableError  # noqa: PLC0415

        try:
            return ask()
        except (RetriableError, OSError) as error:
            raise self._explained(error) from error
        except KafkaError as error:
            raise sentence(error, self.servers) from error

    def _explained(self, error: Exception) -> DependencyError:
        # A login that cannot be renewed shows as a broker that does not answer.
        if problem := login_problem(self._properties):
            return problem
        if not self._explains:
            return sentence(error, self.servers)
        return cause_of(self._properties) or unanswered(error, self.servers)


def _brokers(answers: Iterable[Mapping[str, Any]], named: str) -> tuple[Broker, ...]:
    found = (Broker(one[named], one["host"], one["port"]) for one in answers)
    return tuple(sorted(found, key=lambda broker: broker.id))


def _topic(answer: Mapping[str, Any]) -> Topic:
    leaders = (
        PartitionLeader(p["partition_index"], p["leader_id"], p.get("leader_epoch", -1))
        for p in answer["partitions"]
    )
    ordered = tuple(sorted(leaders, key=lambda leader: leader.partition))
    return Topic(str(answer["name"]), str(answer.get("topic_id") or ""), ordered)


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.lstrip("-").isdigit() else None
