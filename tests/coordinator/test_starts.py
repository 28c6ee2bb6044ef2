"""New groups: which generations failed before their first record, and where that is known."""

from rebalance_monitor.coordinator.causes import Cause
from rebalance_monitor.coordinator.kinds import Kind
from tests.coordinator.test_classic import BOTH, of
from tests.coordinator.timeline import Topic, findings


def test_a_new_group_whose_first_number_is_missing_failed_at_its_start() -> None:
    topic = Topic()
    topic.generation(0, 1, [BOTH], protocol="range")
    other = Topic("new", topic.shard)
    other.offset = topic.offset
    other.generation(5_000, 2, [BOTH])
    found = findings(Topic(rows=[*topic.rows, *other.rows]))
    (failed,) = [f for f in of(found, Kind.REBALANCE_FAILED) if f.group == "new"]
    assert failed.details == {"failed": 1, "at_start": 1}
    (first,) = [f for f in of(found, Kind.REBALANCE) if f.group == "new"]
    assert first.causes[0].cause is Cause.FIRST_START


def test_of_a_shard_that_is_read_from_its_middle_a_first_record_says_little() -> None:
    topic = Topic(offset=500)
    topic.generation(0, 2, [BOTH])
    (found,) = of(findings(topic), Kind.REBALANCE)
    assert found.causes[0].cause is Cause.UNKNOWN
    assert of(findings(topic), Kind.REBALANCE_FAILED) == []


def test_many_numbers_missing_at_a_start_are_no_normal_start() -> None:
    topic = Topic()
    topic.generation(0, 0, [])
    topic.generation(20_000, 37, [BOTH])
    (failed,) = of(findings(topic), Kind.REBALANCE_FAILED)
    assert failed.details == {"failed": 36, "at_start": 0}
