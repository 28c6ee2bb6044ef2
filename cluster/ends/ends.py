"""The ends thread: asks every few seconds how far the consumed topics have grown.

A round asks for the latest offsets. Once a minute, and when a topic is new, it first asks which topics exist
with how many partitions, and then for the earliest and the last stable offsets too; of topics with an open
transaction the last stable ones in each round. So topics that were created, deleted, made anew or given
partitions are followed within a minute. Above `MANY` partitions of topics, or `FOLLOWED` that groups consume,
rounds come less often, in proportion: what a round costs the client and the driver grows with them. After the
ends the coordinators are asked for the committed offsets of groups that may commit by transactions. Nothing
here raises: the sample says what is missing.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Protocol, Self

from rebalance_monitor.cluster.clients.properties import portable
from rebalance_monitor.cluster.ends.committed_offsets import Answers, CommittedOffsets
from rebalance_monitor.cluster.ends.offsets import Described, Offsets, OffsetsClient, Which, reached_nobody
from rebalance_monitor.cluster.errors import DependencyError
from rebalance_monitor.coordinator.lag.ends import EndsSample

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

MANY = 5_000
"""Partitions above which rounds come less often: 20 microseconds of CPU each, so 2 % of a core at most."""

FOLLOWED = 100_000
"""The same of the groups' partitions, whose lag each round gives anew: 8 microseconds each on the driver."""

DESCRIBE_S = 60.0
KEPT = 60
"""Samples that wait at most; the newest say what is so now."""

WAITS_S = 6.0
NOTHING_S = 0.5
"""Interval of rounds while no topic is consumed yet."""

REFUSED_KEPT = 1_000
DENIED = "GROUP_AUTHORIZATION_FAILED"


class Client(Protocol):
    """What a round needs of OffsetsClient."""

    def describe(self, topics: Collection[str]) -> Described:
        """Say which of the topics exist, with how many partitions."""

    def ends(self, topics: Mapping[str, int], which: Which = Which.LATEST) -> Offsets:
        """Give these offsets of topics (name -> partitions)."""


class Coordinators(Protocol):
    """What a round needs of CommittedOffsets."""

    def fetch(self, groups: Sequence[str]) -> Answers:
        """Ask for all committed offsets of these groups."""


def every_s(interval_s: float, partitions: int, followed: int = 0) -> float:
    """Return the time (s) from one round to the next for so many partitions, and as groups consume them."""
    return interval_s * max(1.0, partitions / MANY, followed / FOLLOWED)


class Rounds:
    """Takes samples one after the other, remembering which topics exist. Times of `clock` in s."""

    def __init__(
        self,
        client: Client,
        clock: Callable[[], float] = time.time,
        coordinators: Coordinators | None = None,
    ) -> None:
        self._client, self._clock, self._coordinators = client, clock, coordinators
        self._asked_groups: Sequence[str] = ()
        self._refused: dict[str, str] = {}
        self._described = Described()
        self._described_at = float("-inf")
        self._asked: frozenset[str] = frozenset()
        self._in_transaction: frozenset[str] = frozenset()

    @property
    def partitions(self) -> int:
        """How many partitions the last round asked for."""
        return sum(count for count, _ in self._described.topics.values())

    def sample(self, topics: Collection[str], groups: Sequence[str] = ()) -> EndsSample:
        """Take one sample of `topics`; ask for `groups` unless they are the same list as the last time."""
        wanted, asked_at, cpu = frozenset(topics), self._now(), time.process_time()
        is_due = asked_at - self._described_at >= DESCRIBE_S * 1000 or not wanted <= self._asked
        if is_due:
            self._described, self._described_at = self._client.describe(wanted), asked_at
            self._asked = wanted
        known = {name: described[0] for name, described in self._described.topics.items() if name in wanted}
        latest = self._client.ends(known)
        earliest = self._client.ends(known, Which.EARLIEST) if is_due else Offsets()
        stable = self._stable(known, latest, everywhere=is_due)
        if latest.errors or earliest.errors:
            # The topic was deleted, or created anew with fewer partitions: ask again in the next round.
            self._described_at = float("-inf")
        fetched_at = self._now()
        answers = self._fetch(groups)
        return EndsSample(
            asked_at=asked_at,
            at=self._now(),
            latest=latest.offsets,
            earliest=earliest.offsets,
            stable=stable,
            ids={name: described[1] for name, described in self._described.topics.items() if name in wanted},
            gone=self._described.gone & wanted,
            partial=missing(self._described.refused, latest.errors, self._refused),
            is_away=is_away(self._described, latest),
            took_cpu_ms=(time.process_time() - cpu) * 1000,
            fetched=answers.offsets,
            fetched_at=fetched_at if groups else -1,
            refused=answers.refused,
        )

    def _fetch(self, groups: Sequence[str]) -> Answers:
        if self._coordinators is None or groups is self._asked_groups:
            return Answers()
        self._asked_groups = groups
        answers = self._coordinators.fetch(groups) if groups else Answers()
        for group in answers.offsets:
            self._refused.pop(group, None)
        self._refused |= {group: why for group, why in answers.refused.items() if why == DENIED}
        while len(self._refused) > REFUSED_KEPT:
            del self._refused[next(iter(self._refused))]
        return answers

    def _stable(
        self, topics: Mapping[str, int], latest: Offsets, *, everywhere: bool
    ) -> dict[str, tuple[int, ...]]:
        """Return the last stable offsets of the topics that have one below a high watermark.

        They are asked for after the high watermarks, so only an open transaction makes one smaller.
        """
        asked = topics if everywhere else {n: c for n, c in topics.items() if n in self._in_transaction}
        stable = self._client.ends(asked, Which.STABLE).offsets if asked else {}
        found = {name: ends for name, ends in stable.items() if _is_below(ends, latest.offsets.get(name, ()))}
        if everywhere:
            self._in_transaction = frozenset(found)
        return found

    def _now(self) -> int:
        return int(self._clock() * 1000)


def _is_below(stable: Iterable[int], latest: Iterable[int]) -> bool:
    return any(0 <= low < high for low, high in zip(stable, latest, strict=False))


def is_away(described: Described, latest: Offsets) -> bool:
    """Whether all that failed is the client's own: then no broker answered."""
    reasons = [*described.refused.values(), *latest.errors]
    answered = any(end >= 0 for ends in latest.offsets.values() for end in ends)
    return bool(reasons) and not answered and reached_nobody(reasons)


def missing(refused: Mapping[str, str], errors: Mapping[str, int], groups: Mapping[str, str]) -> str:
    """Return in one sentence which ends and committed offsets are not known, "" where all are."""
    parts = []
    if refused:
        names = sorted(refused)
        listed = ", ".join(f"{name} ({refused[name]})" for name in names[:3])
        parts.append(f"the brokers do not describe {len(names)} of the topics: {listed}")
    if errors:
        listed = ", ".join(f"{count} {why}" for why, count in sorted(errors.items()))
        parts.append(f"the ends of {sum(errors.values())} of the partitions are not known: {listed}")
    if groups:
        listed = ", ".join(f"{name} ({groups[name]})" for name in sorted(groups)[:3])
        parts.append(
            f"the brokers do not return the committed offsets of {len(groups)} of the groups: {listed}"
        )
    return "; ".join(parts)


class EndsThread:
    """Takes a sample every `interval_s` seconds in a thread of its own; use as a context manager.

    `wanted` names the topics to ask for, `groups` those whose committed offsets are wanted, `followed` counts
    the partitions that groups consume; all are called from the thread. ConfigError for `properties` (Kafka
    client properties) that cannot be mapped.
    """

    def __init__(
        self,
        properties: Mapping[str, str],
        wanted: Callable[[], Collection[str]],
        interval_s: float = 5.0,
        *,
        groups: Callable[[], Sequence[str]] = tuple,
        followed: Callable[[], int] = int,
        clock: Callable[[], float] = time.time,
    ) -> None:
        portable(properties)
        self._properties, self._wanted, self._groups, self._followed = properties, wanted, groups, followed
        self._interval_s, self._clock = interval_s, clock
        self._waiting: deque[EndsSample] = deque(maxlen=KEPT)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="rebalance-monitor-ends", daemon=True)

    def start(self) -> None:
        """Start asking."""
        self._thread.start()

    def stop(self) -> None:
        """Stop and wait for the round under way, at most a few seconds."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(WAITS_S)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def drain(self) -> list[EndsSample]:
        """Take all samples since the last call, oldest first; never blocks."""
        found = []
        while self._waiting:
            found.append(self._waiting.popleft())
        return found

    def _run(self) -> None:
        rounds: Rounds | None = None
        client, coordinators = OffsetsClient(self._properties), CommittedOffsets(self._properties)
        while not self._stop.is_set():
            began, wait_s = time.monotonic(), NOTHING_S
            try:
                rounds = rounds or Rounds(client, self._clock, coordinators)
                topics = self._wanted()
                if topics:
                    self._waiting.append(rounds.sample(topics, self._groups()))
                    wait_s = every_s(self._interval_s, rounds.partitions, self._followed())
            except Exception as error:  # noqa: BLE001 - a client's bug must not end the asking
                now = int(self._clock() * 1000)
                why = error.what if isinstance(error, DependencyError) else f"{type(error).__name__}: {error}"
                self._waiting.append(EndsSample(now, now, partial=why, is_away=True))
                client.close()
                rounds, wait_s = None, self._interval_s
            self._stop.wait(max(0.0, wait_s - (time.monotonic() - began)))
        client.close()
        coordinators.close()
