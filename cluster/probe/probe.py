"""The live probe: asks every broker, once a second, which groups are rebalancing right now.

No record says when a rebalance starts or that it hangs; ListGroups with a filter of states does (Kafka 2.6+,
KIP-518) and costs one small request per broker. Only the groups it reports are described. The leaders of the
offsets topic are the coordinators; their epochs show that coordinators moved. Nothing here raises: the sample
names a broker that fails. Kafka's answers carry no broker time, so clock skew is not measured here.
"""

from __future__ import annotations

import math
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, Self

from rebalance_monitor.cluster.clients.admin import OFFSETS_TOPIC, ClusterAdmin
from rebalance_monitor.cluster.clients.properties import admin_arguments
from rebalance_monitor.cluster.errors import BrokerUnreachableError, DependencyError
from rebalance_monitor.cluster.probe.backlog import Backlog
from rebalance_monitor.coordinator.probe.sample import ProbeSample, RebalancingGroup, with_short_names

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rebalance_monitor.cluster.requests.topology import Broker, Topic

# kafka-python's enum has all of these; brokers ignore states that they do not know.
REBALANCING = ("PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling")
TIMEOUT_MS = 3_000
LISTING_S = 300.0
LISTING_AGAIN_S = 60.0
"""When a list that some broker did not answer is tried again: it is the costly part of a sample."""

DESCRIBED_GROUPS = 50
DESCRIBED_MEMBERS = 200
CLASSIC = {"", "classic"}
METADATA = -1


class Admin(Protocol):
    """What the probe needs of ClusterAdmin."""

    def metadata(self, name: str = OFFSETS_TOPIC) -> tuple[tuple[Broker, ...], Topic | None]:
        """Give the brokers of the cluster, and the topic with its leaders where it may be described."""

    def list_groups(self, broker: int, states: Sequence[str] = ()) -> list[dict[str, Any]]:
        """Give one broker's groups of these states."""

    def describe_groups(self, groups: Sequence[str], broker: int) -> dict[str, dict[str, Any]]:
        """Describe groups of one broker."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What one broker said: rebalancing groups, their members, or why it said nothing or not all."""

    broker: int
    groups: tuple[RebalancingGroup, ...] = ()
    members: tuple[tuple[str, tuple[tuple[str, str, str, str], ...]], ...] = ()
    failure: str = ""
    listed: frozenset[str] | None = None
    answered: bool = True


def take_sample(
    admin: Admin,
    pool: ThreadPoolExecutor,
    at: int,
    timeout_s: float = TIMEOUT_MS / 1000,
    *,
    listing: bool = False,
) -> ProbeSample:
    """Take one probe sample of the cluster; `at` in ms. Brokers are asked side by side; never raises.

    `listing`: ask for all groups as well. Brokers leave out, without an error, what may not be seen.
    """
    began = time.monotonic()
    failures: dict[int, str] = {}
    leaders: tuple[tuple[int, int, int], ...] = ()
    brokers: tuple[Broker, ...] = ()
    try:
        brokers, topic = admin.metadata()
        leaders = tuple((p.partition, p.broker, p.epoch) for p in topic.leaders) if topic else ()
    except Exception as error:  # noqa: BLE001 - a client's bug must not end the looking
        failures[METADATA] = _why(error)
    answers = _ask_all(admin, pool, [broker.id for broker in brokers], timeout_s, listing=listing)
    failures |= {answer.broker: answer.failure for answer in answers if answer.failure}
    answered = [(answer.broker, answer.answered) for answer in answers]
    if METADATA in failures:
        # The brokers are unknown: a group that is not listed must not count as recovered.
        answered.append((METADATA, False))
    sample = ProbeSample(
        at=at,
        groups=tuple(group for answer in answers for group in answer.groups),
        leaders=leaders,
        brokers=tuple(answered),
        members={group: seen for answer in answers for group, seen in answer.members},
        failures=failures,
        listed=_listed(answers) if listing and METADATA not in failures else None,
        took=round((time.monotonic() - began) * 1000),
    )
    return with_short_names(sample)


def _sample_or_error(admin: Admin, pool: ThreadPoolExecutor, at: int, *, listing: bool) -> ProbeSample:
    """Take one probe sample, or say why there is none: the machine may have no thread left for it."""
    try:
        return take_sample(admin, pool, at, listing=listing)
    except Exception as error:  # noqa: BLE001 - whatever it is must not end the looking
        return _away(at, _why(error))


def _listed(answers: Sequence[Answer]) -> frozenset[str] | None:
    """Give the groups that all brokers list, None where one does not answer."""
    found = [answer.listed for answer in answers if answer.listed is not None]
    return frozenset().union(*found) if found and len(found) == len(answers) else None


def _away(at: int, failure: str) -> ProbeSample:
    return ProbeSample(at, brokers=((METADATA, False),), failures={METADATA: failure})


def _ask_all(
    admin: Admin, pool: ThreadPoolExecutor, brokers: Sequence[int], timeout_s: float, *, listing: bool
) -> list[Answer]:
    asked = [(broker, pool.submit(_ask, admin, broker, listing=listing)) for broker in brokers]
    deadline = time.monotonic() + timeout_s
    answers: list[Answer] = []
    for broker, future in asked:
        try:
            answers.append(future.result(max(0.0, deadline - time.monotonic())))
        except FutureTimeoutError:
            future.cancel()
            why = f"Broker {broker} did not answer in {timeout_s:.0f} s."
            answers.append(Answer(broker, failure=why, answered=False))
    return answers


def _ask(admin: Admin, broker: int, *, listing: bool) -> Answer:
    listed = None
    try:
        if listing:
            listed = frozenset(str(entry["group_id"]) for entry in admin.list_groups(broker))
        groups = tuple(_group(entry) for entry in admin.list_groups(broker, REBALANCING))
    except BrokerUnreachableError as error:
        # Its sentence is about the whole cluster, of which one broker was asked.
        why = f"Broker {broker} does not answer: {error.__cause__}." if error.__cause__ else _why(error)
        return Answer(broker, failure=why, answered=False)
    except Exception as error:  # noqa: BLE001 - a client's bug must not end the looking
        return Answer(broker, failure=_why(error), answered=False)
    try:
        return Answer(broker, groups, _described(admin, broker, groups), listed=listed)
    except Exception as error:  # noqa: BLE001 - as above; which groups rebalance is known all the same
        return Answer(broker, groups, failure=_why(error), listed=listed)


def _described(
    admin: Admin, broker: int, groups: Sequence[RebalancingGroup]
) -> tuple[tuple[str, tuple[tuple[str, str, str, str], ...]], ...]:
    classic = [one.group for one in groups if one.group_type in CLASSIC][:DESCRIBED_GROUPS]
    described = admin.describe_groups(classic, broker) if classic else {}
    return tuple((name, _members(answer)) for name, answer in described.items() if answer["members"])


def _why(error: Exception) -> str:
    if not isinstance(error, DependencyError):
        return f"{type(error).__name__}: {error}"
    if isinstance(error, BrokerUnreachableError):
        # Its remedy is for a start: the configuration has been right until now.
        return error.what
    return f"{error.what} {error.remedy}".strip()


def _group(entry: Mapping[str, Any]) -> RebalancingGroup:
    kind = str(entry.get("group_type") or "").lower()
    state = str(entry.get("group_state") or "")
    return RebalancingGroup(entry["group_id"], state, kind, entry["protocol_type"] or "")


def _members(answer: Mapping[str, Any]) -> tuple[tuple[str, str, str, str], ...]:
    return tuple(
        (m["member_id"], m.get("group_instance_id") or "", m["client_id"], m["client_host"])
        for m in answer["members"][:DESCRIBED_MEMBERS]
    )


class ProbeThread:
    """Samples the cluster every `interval_s` seconds in a thread of its own; use as a context manager.

    Samples wait until they are drained; if there are too many, the oldest are dropped (backlog.py). An
    unreachable cluster is named in the samples and asked again. ConfigError for `properties` (Kafka client
    properties) that cannot be mapped.
    """

    def __init__(
        self,
        properties: Mapping[str, str],
        interval_s: float = 1.0,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        admin_arguments(properties)
        self._properties = properties
        self._interval_s = interval_s
        self._clock = clock
        self._waiting = Backlog()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="rebalance-monitor-probe", daemon=True)

    @property
    def dropped(self) -> int:
        """How many probe samples were dropped because they were not drained."""
        return self._waiting.dropped

    def start(self) -> None:
        """Start looking."""
        self._thread.start()

    def stop(self) -> None:
        """Stop and wait for the sample under way, at most a few seconds."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(2 * TIMEOUT_MS / 1000)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def drain(self) -> list[ProbeSample]:
        """Take all samples since the last call, oldest first; never blocks."""
        return self._waiting.take()

    def _run(self) -> None:
        admin: ClusterAdmin | None = None
        next_listing = -math.inf
        with ThreadPoolExecutor(max_workers=8, thread_name_prefix="rebalance-monitor-probe") as pool:
            while not self._stop.is_set():
                began = time.monotonic()
                at = int(self._clock() * 1000)
                admin, failure = (admin, "") if admin else self._connected()
                listing = began >= next_listing
                sample = _sample_or_error(admin, pool, at, listing=listing) if admin else _away(at, failure)
                if listing and admin:
                    next_listing = began + (LISTING_AGAIN_S if sample.listed is None else LISTING_S)
                self._waiting.add(sample)
                if admin and METADATA in sample.failures:
                    # Its brokers may have moved for good: start again from the configured addresses.
                    _close(admin)
                    admin = None
                self._stop.wait(max(0.0, self._interval_s - (time.monotonic() - began)))
        if admin:
            _close(admin)

    def _connected(self) -> tuple[ClusterAdmin | None, str]:
        try:
            return ClusterAdmin(self._properties, TIMEOUT_MS, explains=False), ""
        except Exception as error:  # noqa: BLE001 - a client's bug must not end the looking
            return None, _why(error)


def _close(admin: ClusterAdmin) -> None:
    with suppress(Exception):
        admin.close()
