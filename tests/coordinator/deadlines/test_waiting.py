"""Who a stuck rebalance waits for, from the records, the summaries and the looks that the job has."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalance_monitor.coordinator.deadlines.not_rejoined import awaited
from rebalance_monitor.coordinator.deadlines.rejoining import Seen
from rebalance_monitor.coordinator.findings.finding import Finding
from rebalance_monitor.coordinator.findings.kinds import Kind
from rebalance_monitor.coordinator.findings.outputs import GroupOut
from tests.coordinator.support.timeline import T0, Client, Topic, outputs, watched

MEMBERS = [
    Client(f"{name}-1", (index,), f"consumer-{name}", f"/10.0.0.{index}", session=45_000, rebalance=300_000)
    for index, name in enumerate("abc")
]
LIBRDKAFKA = [replace(member, client_id="rdkafka") for member in MEMBERS]
BARRIER_MS = 300_000


def stuck(topic: Topic) -> Finding:
    """The findings once the join phase that begins at `BARRIER_MS` is stuck."""
    found = watched(
        topic.sorted(), lambda at: "PreparingRebalance" * (at >= BARRIER_MS), until=BARRIER_MS + 80_000
    )
    (told,) = [one for one in found if one.kind is Kind.REBALANCE_STUCK]
    return told


def worked(members: list[Client], *until: int, protocol: str = "range", moving: int = 0) -> Topic:
    """One generation whose members commit up to these times."""
    topic = Topic()
    topic.generation(0, 1, members, protocol=protocol)
    for index, (member, last) in enumerate(zip(members, until, strict=True)):
        topic.commits(1_000 + 10 * index, last, member, moving=moving)
    return topic


@pytest.mark.parametrize("protocol", ["range", "cooperative-sticky"])
def test_the_member_that_stopped_before_a_join_phase_in_which_the_others_rejoined_is_named(
    protocol: str,
) -> None:
    told = stuck(worked(MEMBERS, 301_000, 302_000, 290_020, protocol=protocol))
    assert [member.member_id for member in told.members] == ["c-1"]
    assert told.details["waits_for"] == "consumer-c"
    assert told.details["waits_for_confidence"] >= 0.8


@pytest.mark.parametrize("before", [15_000, 29_000, 31_000, 100_000, 250_000])
def test_it_is_named_however_long_before_the_join_phase_it_stopped(before: int) -> None:
    told = stuck(worked(MEMBERS, 301_000, 301_500, 300_020 - before))
    assert [member.member_id for member in told.members] == ["c-1"]


def test_a_member_that_commits_on_while_the_others_wait_is_named() -> None:
    told = stuck(worked(MEMBERS, 301_000, 302_000, 380_000))
    assert [member.member_id for member in told.members] == ["c-1"]


def test_a_member_that_was_quiet_in_an_earlier_generation_holds_no_later_join_phase() -> None:
    topic = Topic()
    for number, start, lasts in ((1, 0, (29_010, 15_010, 29_020)), (2, 30_000, (300_000, 300_010, 290_020))):
        topic.generation(start, number, LIBRDKAFKA)
        for index, (member, last) in enumerate(zip(LIBRDKAFKA, lasts, strict=True)):
            topic.commits(start + 1_000 + 10 * index, last, member, moving=3)
    assert "b-1" not in {member.member_id for member in stuck(topic).members}


def test_a_member_without_traffic_is_named_where_the_others_have_rejoined_and_less_surely() -> None:
    sure = [
        stuck(worked(clients, 300_500, 100_000, 300_700, moving=moving)).details["waits_for_confidence"]
        for clients, moving in ((MEMBERS, 0), (LIBRDKAFKA, 3))
    ]
    assert float(sure[0]) > 0.9
    assert 0.6 <= float(sure[1]) < 0.9


def test_of_cooperative_members_that_commit_while_they_wait_the_one_that_stopped_is_named() -> None:
    told = stuck(worked(LIBRDKAFKA, 380_000, 380_000, 290_000, protocol="cooperative-sticky", moving=3))
    assert [member.member_id for member in told.members] == ["c-1"]


def test_members_that_took_their_time_to_rejoin_hold_nothing_any_more() -> None:
    told = stuck(worked(MEMBERS, 300_500, 312_000, 290_020))
    assert [member.member_id for member in told.members] == ["c-1"]


INNOCENT = st.builds(
    lambda idle, cadence, rejoined, stopped: (idle, cadence, rejoined if idle else min(rejoined, stopped)),
    st.booleans(),
    st.integers(500, 5_000),
    st.integers(-1_000, 20_000),
    st.integers(-BARRIER_MS, 20_000),
)


@given(st.lists(INNOCENT, max_size=4), st.integers(-BARRIER_MS, -13_000), st.integers(28_000, 60_000))
def test_a_member_that_has_rejoined_or_had_nothing_to_commit_is_never_named(
    innocent: list[tuple[bool, int, int]], stalled: int, known: int
) -> None:
    """Those that commit when idle do so as they rejoin, within 20 s; one holds the barrier."""
    members = [
        Seen(f"m{index}", "c", "/h", None, T0 + last, cadence, idle)
        for index, (idle, cadence, last) in enumerate(innocent)
    ]
    holder = Seen("holder", "c", "/h", None, T0 + stalled, 1_000, idle=True)
    assert awaited([*members, holder], T0, T0 + known, exact=True).ids == {"holder"}


def test_a_join_phase_that_is_begun_again_names_no_member() -> None:
    def seen(at: int) -> str:
        again = "CompletingRebalance" if at == BARRIER_MS + 10_000 else "PreparingRebalance"
        return again * (at >= BARRIER_MS)

    topic = worked(MEMBERS, 301_000, 302_000, 290_020)
    found = watched(topic.sorted(), seen, until=BARRIER_MS + 90_000)
    assert [one.members for one in found if one.kind is Kind.REBALANCE_STUCK] == [()]


def test_a_group_whose_members_commit_on_is_not_summarised_and_one_that_stops_once() -> None:
    def told(last: int) -> list[int]:
        topic = worked([replace(member, session=600_000) for member in MEMBERS], last, last, last)
        topic.record(200_000, b"\0\2\0\5other", None, "other")
        said = [out.summary for out in outputs(topic.sorted()) if isinstance(out, GroupOut)]
        return [one["as_of"] - T0 for one in said]

    assert len(told(199_500)) == 1
    (_, stopped) = told(100_000)
    assert 129_000 <= stopped <= 132_000
