"""An unclean leader election cuts a log: lag is what Kafka's own tool says, and losses are what was lost."""

from collections.abc import Iterator, Mapping
from contextlib import suppress

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import NewTopic

from rebalance_monitor.cluster.errors import DependencyError
from rebalance_monitor.coordinator.findings.kinds import Kind
from rebalance_monitor.lab.cluster.broker import LabBroker
from rebalance_monitor.lab.cluster.node import wait_until
from tests.coordinator.lag.real import (
    Described,
    Monitor,
    as_known,
    commit,
    described,
    lags_of,
    order,
    produce,
)

pytestmark = [pytest.mark.broker, pytest.mark.slow, pytest.mark.timeout(900)]
SETTINGS = {
    "unclean.leader.election.enable": "true",
    "min.insync.replicas": "1",
}
PATIENCE_S = 240
POSITIONS = {"behind": 50, "ahead": 95, "done": 100, "again": 95, "late": 95, "later": 95}
"""Committed offsets of a log of 100 records, of which 60 remain."""

CUT, END, ANEW = 60, 100, 20


def committed(broker: LabBroker, offsets: Mapping[str, int]) -> None:
    """Commit for each of these groups, whoever coordinates them by then."""

    def done(group: str, offset: int) -> bool:
        with suppress(KafkaException):
            commit(broker, group, {("cut", 0): offset})
            return True
        return False

    for group, offset in offsets.items():
        assert wait_until(lambda one=group, at=offset: done(one, at), PATIENCE_S, 1)


class Elected:
    """What was compared and found: before the election, just after it, and once the log is longer again."""

    def __init__(self, broker: LabBroker) -> None:
        first, second, third = broker.nodes
        # Not the one that is killed for good.
        self.monitor = Monitor(f"127.0.0.1:{third.address.port},127.0.0.1:{second.address.port}")
        self._broker = broker
        self.compared: list[tuple[Described, Described]] = []
        replicas = [[first.address.node, second.address.node]]
        order(broker, lambda client: client.create_topics([NewTopic("cut", 1, replica_assignment=replicas)]))
        produce(broker, "cut", {0: CUT})
        self.until(CUT)
        second.kill()
        produce(broker, "cut", {0: END - CUT})
        committed(broker, POSITIONS)
        self.compare(END)
        first.kill()
        second.start(leashed=True)
        # No process watches meanwhile.
        self.monitor.restart()
        self.until(CUT)
        self.compare(CUT)
        committed(broker, {"again": ANEW})
        self.look(3)
        committed(broker, {"late": ANEW})
        self.look(2)
        produce(broker, "cut", {0: 70})
        self.compare(CUT + 70)
        committed(broker, {"later": ANEW})
        self.look(2)

    def look(self, times: int) -> None:
        """Look so often: a minute passes from one to the next."""
        for _ in range(times):
            assert wait_until(self.looked, PATIENCE_S, 1)

    def looked(self) -> bool:
        """Look; False where only a broker that was killed was asked."""
        with suppress(DependencyError):
            self.monitor.look()
            return True
        return False

    def until(self, end: int) -> None:
        """Look until the topic is seen to end there."""

        def seen() -> bool:
            sample = self.monitor.lag.board.sample if self.looked() else None
            return sample is not None and sample.end("cut", 0) == end

        self.monitor.lag.board.include(frozenset({"cut"}))
        assert wait_until(seen, PATIENCE_S, 1), self.monitor.lag.board.sample

    def compare(self, end: int) -> None:
        """Ask Kafka's tool and the monitor at the same moment."""
        self.until(end)
        # Ends are interpolated to the time of the positions: from now on between two that are the same.
        assert wait_until(self.looked, PATIENCE_S, 1)
        self.compared.append((as_known(described(self._broker)), lags_of(self.monitor.lag.board)))


@pytest.fixture(scope="module")
def elected() -> Iterator[Elected]:
    with LabBroker(nodes=3, offsets_partitions=1, settings=SETTINGS) as broker:
        yield Elected(broker)


def test_lag_equals_kafka_s_own_tool_and_is_never_negative(elected: Elected) -> None:
    before, after, later = elected.compared
    assert {place[0]: value for place, value in before[0].items()} == {
        group: (offset, END, END - offset) for group, offset in POSITIONS.items()
    }
    # Beyond the end nothing that waits is known.
    assert [value[2] for value in after[0].values()].count(None) == 5
    assert {place[0]: value[2] for place, value in later[0].items()} == {
        "behind": 80, "ahead": 35, "done": 30, "again": 110, "late": 110, "later": 35,
    }  # fmt: skip
    assert [found for _, found in elected.compared] == [wanted for wanted, _ in elected.compared]


def test_what_the_new_leader_does_not_have_is_lost_to_who_had_not_read_it(elected: Elected) -> None:
    told = {one.group: one for one in elected.monitor.found if one.kind is Kind.RECORDS_LOST}
    assert {group: one.details["records"] for group, one in told.items()} == {
        "behind": END - CUT, "ahead": 5, "again": 5, "late": 5, "later": 5,
    }  # fmt: skip
    assert {one.details["cut_to"] for one in told.values()} == {CUT}


def test_a_group_reads_again_what_is_left_whether_it_goes_back_at_once_or_long_after_the_cut(
    elected: Elected,
) -> None:
    told = [one for one in elected.monitor.found if one.kind is Kind.OFFSETS_REWOUND]
    assert {one.group: (one.details["to_offset"], one.details["records"]) for one in told} == dict.fromkeys(
        ("again", "late", "later"), (ANEW, CUT - ANEW)
    )
    assert len(told) == 3
