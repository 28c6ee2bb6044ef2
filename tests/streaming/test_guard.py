"""The blind guard: offsets the brokers have and the source does not read up to end the job."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalance_monitor.streaming.guard import BlindError, SightCheck, has_read, source_ends, unseen
from rebalance_monitor.streaming.topic import TopicFacts

OFFSETS = st.dictionaries(st.integers(0, 9), st.integers(0, 1_000), max_size=10)
FACTS = TopicFacts("__consumer_offsets", "id", "cluster", {0: 0, 1: 5, 2: 0}, {0: 10, 1: 5, 2: 0})


@given(OFFSETS)
def test_a_source_that_reads_everything_sees(ends: dict[int, int]) -> None:
    facts = TopicFacts("t", "", "", dict.fromkeys(ends, 0), ends)
    assert unseen(facts, ends, limited=False) == []
    assert has_read(ends, facts.filled())


@given(OFFSETS)
def test_a_source_without_any_partition_is_blind_where_there_are_records(ends: dict[int, int]) -> None:
    facts = TopicFacts("t", "", "", dict.fromkeys(ends, 0), ends)
    assert set(unseen(facts, {}, limited=True)) == set(facts.filled())


def test_an_empty_topic_blinds_nobody() -> None:
    check = SightCheck(TopicFacts("t", "", "", {0: 7}, {0: 7}), limited=False)
    assert check.is_sure
    check.look({})
    check.require()


def test_blindness_is_said_after_the_second_batch_with_what_to_do() -> None:
    check = SightCheck(FACTS, limited=False)
    check.look({})
    with pytest.raises(BlindError, match="useDeprecatedOffsetFetching"):
        check.look({})


def test_blindness_is_said_when_a_query_ends_after_one_batch() -> None:
    check = SightCheck(FACTS, limited=False)
    check.look({})
    with pytest.raises(BlindError, match="1 partition"):
        check.require()


def test_a_batch_of_an_earlier_start_that_runs_again_is_no_blindness() -> None:
    check = SightCheck(FACTS, limited=False)
    check.look({0: 4})
    check.look({0: 10})
    assert check.is_sure


def test_limited_batches_need_not_reach_the_end() -> None:
    check = SightCheck(FACTS, limited=True)
    check.look({0: 4})
    assert check.is_sure
    assert not has_read({0: 4}, FACTS.filled())


def test_progress_of_other_sources_is_passed_over() -> None:
    rate = {"description": "RatePerMicroBatchStream[...]", "endOffset": {"offset": 3}}
    kafka = {"description": "KafkaV2[Assign[...]]", "endOffset": {"__consumer_offsets": {"0": 12}}}
    assert source_ends({"sources": [rate, kafka]}, "__consumer_offsets") == {0: 12}
    assert source_ends({"sources": [rate]}, "__consumer_offsets") is None


@pytest.mark.parametrize("ends", [None, {}, {"other": {"0": 1}}])
def test_a_source_that_tells_no_offsets_has_read_nothing(ends: object) -> None:
    progress = {"sources": [{"description": "KafkaV2[...]", "endOffset": ends}]}
    assert source_ends(progress, "__consumer_offsets") == {}
