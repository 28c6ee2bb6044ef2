"""A subscribed topic without an owner is a finding once the brokers confirm that it exists."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalance_monitor.coordinator.findings.finding import Finding
from rebalance_monitor.coordinator.findings.kinds import Kind, Severity
from rebalance_monitor.coordinator.findings.outputs import GroupOut
from rebalance_monitor.coordinator.lag.ends import EndsSample
from rebalance_monitor.coordinator.lag.following import Lag, News
from rebalance_monitor.coordinator.lag.judging.unowned import METADATA_MS, assigned
from rebalance_monitor.coordinator.settings import DetectionSettings
from rebalance_monitor.coordinator.state.state_machine import Status
from tests.coordinator.support.timeline import T0, Client, Topic, outputs

SETTINGS = DetectionSettings()
BOTH = ("orders", "payments")
MISSING = Client("m1", (0, 1), topics=BOTH)
RIGHT = Client("m1", (0, 1))


def summaries(*generations: tuple[int, list[Client]], protocol: str = "range") -> dict[str, dict[str, Any]]:
    """The newest summary of a group that had these generations: (ms, members)."""
    topic = Topic()
    for number, (at, clients) in enumerate(generations, 1):
        topic.generation(at, number, clients, protocol=protocol)
    said = [out for out in outputs(topic, until=10_000) if isinstance(out, GroupOut)]
    return {said[-1].group: said[-1].summary}


class Driver:
    """The lag part as the job drives it: each batch in a process that begins with what was saved."""

    topic = "payments"

    def __init__(self) -> None:
        self.saved: dict[str, Any] = {}
        self.asked: frozenset[str] = frozenset()
        self.opened: frozenset[str] = frozenset()

    def batch(
        self, at: int, said: dict[str, dict[str, Any]], *ends: int, gone: bool = False, busy: bool = False
    ) -> list[Finding]:
        lag = Lag(SETTINGS, "c1", json.loads(json.dumps(self.saved)))
        latest = {self.topic: ends} if ends else {}
        missing = frozenset({self.topic} if gone else ())
        sample = EndsSample(T0 + at - 10, T0 + at, latest, gone=missing)
        rebalancing = frozenset({"g"} if busy else ())
        found = lag.on_batch([], News({}, (), rebalancing, [sample], said, T0 + at, T0 + at))
        self.saved, self.asked, self.opened = lag.snapshot(), lag.board.topics, lag.opened
        return found


def test_a_topic_that_no_record_shows_to_exist_is_asked_for() -> None:
    driver = Driver()
    assert driver.batch(20_000, summaries((0, [MISSING]))) == []
    assert "payments" in driver.asked
    driver.batch(40_000, summaries((0, [RIGHT])))


def test_it_opens_once_every_client_must_have_heard_of_the_topic_and_ends_with_the_assignment() -> None:
    driver, said = Driver(), summaries((0, [MISSING]))
    assert driver.batch(20_000, said, 5, 5, 5) == []
    assert driver.batch(20_000 + METADATA_MS - 1_000, said, 5, 5, 5) == []
    (opened,) = driver.batch(20_000 + METADATA_MS, said, 5, 5, 5)
    assert (opened.kind, opened.phase, opened.severity) == (
        Kind.PARTITIONS_UNASSIGNED,
        "opened",
        Severity.WARNING,
    )
    assert (opened.topics, opened.partitions_affected) == (("payments",), 3)
    assert driver.opened == {opened.id}
    assert driver.batch(25_000 + METADATA_MS, said, 5, 5, 5) == []
    (resolved,) = driver.batch(30_000 + METADATA_MS, summaries((0, [MISSING]), (650_000, [RIGHT])), 5, 5, 5)
    assert (resolved.incident, resolved.resolution) == (opened.id, "completed")
    assert not driver.opened


def test_a_generation_that_began_after_the_topic_was_described_should_have_assigned_it() -> None:
    driver = Driver()
    driver.batch(20_000, summaries((0, [MISSING])), 5, 5)
    again = summaries((0, [MISSING]), (30_000, [MISSING]))
    assert driver.batch(35_000, again, 5, 5) == []
    assert driver.batch(45_000, again, 5, 5, busy=True) == []
    (opened,) = driver.batch(45_000, again, 5, 5)
    assert opened.severity is Severity.WARNING


def test_it_is_critical_from_when_records_arrive() -> None:
    driver, said = Driver(), summaries((0, [MISSING]))
    driver.batch(20_000, said, 5)
    (opened,) = driver.batch(20_000 + METADATA_MS, said, 5)
    (updated,) = driver.batch(25_000 + METADATA_MS, said, 8)
    assert (updated.phase, updated.incident, updated.severity) == ("updated", opened.id, Severity.CRITICAL)
    assert updated.details["arrived"] == 3
    assert updated.id != opened.id
    assert driver.batch(30_000 + METADATA_MS, said, 9) == []


class Grown(Driver):
    """The topic of which the group owns partitions 0 and 1."""

    topic = "orders"


def test_partitions_that_a_topic_gained_open_once_every_client_must_have_heard_of_them() -> None:
    driver, said = Grown(), summaries((0, [RIGHT]))
    assert driver.batch(20_000, said, 50, 60) == []
    assert driver.batch(40_000, said, 55, 65, 0, 0) == []
    assert driver.batch(39_000 + METADATA_MS, said, 80, 90, 0, 0) == []
    (opened,) = driver.batch(40_000 + METADATA_MS, said, 80, 90, 0, 0)
    assert (opened.severity, opened.topics, opened.partitions_affected) == (Severity.WARNING, ("orders",), 2)
    assert opened.details == {"grown_topics": "orders", "unowned": 2, "arrived": 0}
    (louder,) = driver.batch(50_000 + METADATA_MS, said, 80, 90, 4, 3)
    assert (louder.phase, louder.severity, louder.details["arrived"]) == ("updated", Severity.CRITICAL, 7)
    # A sample without an answer says nothing.
    assert driver.batch(55_000 + METADATA_MS, said) == []
    whole = [Client("m1", (0, 1, 2, 3))]
    (resolved,) = driver.batch(60_000 + METADATA_MS, summaries((0, [RIGHT]), (650_000, whole)), 80, 90, 4, 3)
    assert (resolved.incident, resolved.resolution) == (opened.id, "completed")


def test_a_leader_that_assigns_by_the_old_number_of_partitions_has_the_time_of_the_others() -> None:
    driver = Grown()
    driver.batch(20_000, summaries((0, [RIGHT])), 5, 5, 0)
    again = summaries((0, [RIGHT]), (30_000, [RIGHT]))
    assert driver.batch(METADATA_MS, again, 5, 5, 9) == []
    assert driver.batch(20_000 + METADATA_MS, again, 5, 5, 9)


@given(protocol=st.sampled_from(["stream", "range"]), members=st.integers(1, 4))
def test_groups_whose_assignment_is_whole_or_not_known_whole_lack_nothing(
    protocol: str, members: int
) -> None:
    said = summaries((0, [Client(f"m{n}", (n,)) for n in range(members)]), protocol=protocol)
    if protocol == "range":
        assert assigned(said["g"]) == {"orders": set(range(members))}
        said["g"]["members"] += 1
    assert assigned(said["g"]) == {}


@pytest.mark.parametrize("answer", ["none", "gone", "unknown"])
def test_what_the_brokers_do_not_confirm_is_never_claimed(answer: str) -> None:
    driver, said = Driver(), summaries((0, [MISSING]))
    for at in range(20_000, 3 * METADATA_MS, 30_000):
        assert driver.batch(at, said, *((-1, 4) if answer == "unknown" else ()), gone=answer == "gone") == []


def test_a_group_that_is_being_assigned_anew_lacks_what_it_lacked() -> None:
    driver, said = Driver(), summaries((0, [MISSING]))
    driver.batch(20_000, said, 5)
    (opened,) = driver.batch(20_000 + METADATA_MS, said, 8)
    assert opened.severity is Severity.CRITICAL
    for number, state in enumerate((Status.ASSIGNING, Status.RECONCILING), 1):
        unsettled = {"g": said["g"] | {"state": state}}
        assert driver.batch(20_000 + METADATA_MS + 5_000 * number, unsettled, 9) == []
    again = summaries((0, [MISSING]), (35_000 + METADATA_MS, [MISSING]))
    for later in range(36_000, 66_000, 5_000):
        assert driver.batch(later + METADATA_MS, again, 9) == []
    assert driver.opened == {opened.id}


def test_a_topic_that_is_deleted_or_a_group_that_empties_ends_it() -> None:
    for end in ("deleted", "empty"):
        driver, said = Driver(), summaries((0, [MISSING]))
        driver.batch(20_000, said, 5)
        (opened,) = driver.batch(20_000 + METADATA_MS, said, 5)
        after = said if end == "deleted" else summaries((0, [MISSING]), (640_000, []))
        (resolved,) = driver.batch(60_000 + METADATA_MS, after, gone=end == "deleted")
        assert (resolved.phase, resolved.incident) == ("resolved", opened.id)
        assert resolved.resolution == "withdrawn"


@given(st.lists(st.integers(1, 40), min_size=1, max_size=12), st.sampled_from(["range", "stream"]))
def test_a_group_whose_topics_are_all_owned_or_of_kafka_streams_never_opens(
    steps: list[int], protocol: str
) -> None:
    driver, at = Driver(), 20_000
    said = summaries((0, [MISSING if protocol == "stream" else RIGHT]), protocol=protocol)
    for step in steps:
        at += step * 30_000
        assert driver.batch(at, said, step, 100 * step) == []
