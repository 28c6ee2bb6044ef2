"""The blind guard: offsets the brokers have and the source does not read up to end the job."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalance_monitor.checkpoints.state.manifest import ManifestError
from rebalance_monitor.engine.topic.facts import Look, Reading, TopicFacts
from rebalance_monitor.engine.topic.guard import (
    PATIENCE,
    BlindError,
    SightCheck,
    has_read,
    removed_unread,
    require_same,
    unreached_partitions,
)
from rebalance_monitor.engine.topic.leader_epochs import Kept

OFFSETS = st.dictionaries(st.integers(0, 9), st.integers(0, 1_000), max_size=10)
FACTS = TopicFacts("__consumer_offsets", "id", "cluster", {0: 0, 1: 5, 2: 0}, {0: 10, 1: 5, 2: 0})


@given(OFFSETS)
def test_a_source_that_reads_everything_sees(ends: dict[int, int]) -> None:
    facts = TopicFacts("t", "", "", dict.fromkeys(ends, 0), ends)
    assert unreached_partitions(facts, ends, limited=False) == []
    assert has_read(ends, facts.filled())


@given(OFFSETS)
def test_a_source_without_any_partition_is_blind_where_there_are_records(ends: dict[int, int]) -> None:
    facts = TopicFacts("t", "", "", dict.fromkeys(ends, 0), ends)
    assert set(unreached_partitions(facts, {}, limited=True)) == set(facts.filled())


def test_an_empty_topic_is_not_blind() -> None:
    check = SightCheck(TopicFacts("t", "", "", {0: 7}, {0: 7}), limited=False)
    assert check.is_sure
    check.check_ends({})
    check.require()


def test_blindness_is_said_after_the_second_batch_with_what_to_do() -> None:
    check = SightCheck(FACTS, limited=False)
    check.check_ends({})
    with pytest.raises(BlindError, match="useDeprecatedOffsetFetching"):
        check.check_ends({})


def test_blindness_is_said_when_a_query_ends_after_one_batch() -> None:
    check = SightCheck(FACTS, limited=False)
    check.check_ends({})
    with pytest.raises(BlindError, match="1 partition"):
        check.require()


def test_a_batch_of_an_earlier_start_that_runs_again_is_no_blindness() -> None:
    check = SightCheck(FACTS, limited=False)
    check.check_ends({0: 4})
    check.check_ends({0: 10})
    assert check.is_sure


def test_limited_batches_need_not_reach_the_end() -> None:
    check = SightCheck(FACTS, limited=True)
    check.check_ends({0: 4})
    assert check.is_sure
    assert not has_read({0: 4}, FACTS.filled())


def look(before: Reading, after: Reading, facts: TopicFacts = FACTS) -> Look:
    return Look(before, facts, after)


def test_a_source_that_stops_delivering_is_blind_at_the_second_look() -> None:
    check, behind = SightCheck(FACTS, limited=False), {0: 4, 1: 5, 2: 0}
    check.compare(look(Reading(behind, 1), Reading(behind, 1)))
    with pytest.raises(BlindError, match="1 partition"):
        check.compare(look(Reading(behind, 1 + PATIENCE), Reading(behind, 1 + PATIENCE)))


def test_a_source_that_has_not_finished_batches_since_is_no_blindness() -> None:
    check, behind = SightCheck(FACTS, limited=False), Reading({0: 4, 1: 5, 2: 0}, 1)
    for _ in range(3):
        check.compare(look(behind, behind))


def test_a_source_that_stops_delivering_is_blind_however_slow_its_batches_are() -> None:
    check, behind = SightCheck(FACTS, limited=False), {0: 4, 1: 5, 2: 0}
    for batches in range(1, 1 + PATIENCE):
        check.compare(look(Reading(behind, batches), Reading(behind, batches)))
    late = Reading(behind, 1 + PATIENCE)
    with pytest.raises(BlindError, match="1 partition"):
        check.compare(look(late, late))


def test_a_source_that_keeps_up_with_a_growing_topic_sees() -> None:
    check = SightCheck(FACTS, limited=False)
    for batches in range(0, 50, 10):
        facts = replace(FACTS, ends={0: 10 + batches, 1: 5, 2: 0})
        reading = Reading({0: 3 + batches, 1: 5, 2: 0}, batches)
        check.compare(look(reading, reading, facts))


@pytest.mark.parametrize(
    ("facts", "says"),
    [
        (replace(FACTS, id="new"), "recreated while the monitor ran"),
        (replace(FACTS, cluster_id="new"), "another cluster"),
        (
            replace(FACTS, kept={0: Kept(4, 2), 1: Kept(5, 5)}),
            r"lost records at the end of 1 partition: 0 \(read up to 4, kept to 2",
        ),
        (
            replace(FACTS, ends={0: 3, 1: 5, 2: 0}),
            r"lost records at the end of 1 partition: 0 \(read up to 4",
        ),
    ],
)
def test_another_topic_under_a_running_query_is_named_with_what_to_do(facts: TopicFacts, says: str) -> None:
    reading = Reading({0: 4, 1: 5, 2: 0}, 1)
    with pytest.raises(ManifestError, match=f"{says}.*--rebuild-state"):
        SightCheck(FACTS, limited=False).compare(look(reading, reading, facts))


def test_a_source_that_goes_back_is_a_topic_that_lost_records() -> None:
    check = SightCheck(FACTS, limited=False)
    check.check_ends({0: 12, 1: 5, 2: 0})
    with pytest.raises(ManifestError, match=r"0 \(read up to 12, kept to 11\).*--rebuild-state"):
        check.check_ends({0: 11, 1: 6, 2: 0})


def test_an_id_that_the_brokers_do_not_return_is_no_other_topic() -> None:
    require_same(FACTS, replace(FACTS, id="", cluster_id=""))


@given(OFFSETS, OFFSETS)
def test_removed_records_are_those_between_what_was_read_and_what_is_left(
    read: dict[int, int], begins: dict[int, int]
) -> None:
    lost = removed_unread(read, begins)
    assert all(read[p] + count == begins[p] and count > 0 for p, count in lost.items())
    assert all(begins[p] <= read[p] for p in set(read) & set(begins) - set(lost))
