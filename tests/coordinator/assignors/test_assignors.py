"""What must hold of every assignor, whatever the membership."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalance_monitor.coordinator.assignors import compare, ranges, server, sticky
from rebalance_monitor.coordinator.assignors.model import Partition, Subscriber, java_order
from rebalance_monitor.coordinator.assignors.table import CLIENT, SERVER, Assign

TOPICS = ("a", "b", "c")
EVERY = [*CLIENT.values(), *SERVER.values()]
NAMES = [*CLIENT, *(f"server-{name}" for name in SERVER)]


@st.composite
def groups(draw: st.DrawFn, *, equal: bool = False) -> tuple[list[Subscriber], dict[str, int]]:
    counts = draw(st.dictionaries(st.sampled_from(TOPICS), st.integers(1, 6), min_size=1))
    some = st.sets(st.sampled_from(TOPICS), min_size=1).map(lambda names: tuple(sorted(names)))
    shared = draw(some)
    topics = [shared if equal else draw(some) for _ in range(draw(st.integers(1, 5)))]
    owned: list[list[Partition]] = [[] for _ in topics]
    for topic, count in counts.items():
        takers = [index for index, names in enumerate(topics) if topic in names]
        for partition in range(count):
            if takers and draw(st.booleans()):
                owned[draw(st.sampled_from(takers))].append((topic, partition))
    members = [
        Subscriber(
            f"m{index}",
            names,
            draw(st.sampled_from([None, f"i{9 - index}"])),
            draw(st.sampled_from([None, "r1", "r2"])),
            tuple(owned[index]),
        )
        for index, names in enumerate(topics)
    ]
    return members, counts


@pytest.mark.parametrize("assign", EVERY, ids=NAMES)
@given(group=groups())
def test_every_partition_goes_to_exactly_one_subscriber(
    assign: Assign, group: tuple[list[Subscriber], dict[str, int]]
) -> None:
    members, counts = group
    found = assign(members, counts)
    assert set(found) == {member.member_id for member in members}
    topics = {topic for member in members for topic in member.topics if topic in counts}
    given = [place for places in found.values() for place in places]
    assert sorted(given) == sorted((topic, p) for topic in topics for p in range(counts[topic]))
    assert all(place[0] in member.topics for member in members for place in found[member.member_id])


@pytest.mark.parametrize("assign", [sticky.assign, server.uniform])
@given(group=groups(equal=True))
def test_equal_subscriptions_are_spread_within_one_and_settle(
    assign: Assign, group: tuple[list[Subscriber], dict[str, int]]
) -> None:
    members, counts = group
    found = assign(members, counts)
    loads = [len(places) for places in found.values()]
    assert max(loads) - min(loads) <= 1
    settled = [Subscriber(m.member_id, m.topics, owned=tuple(found[m.member_id])) for m in members]
    assert compare.spread(assign(settled, counts), settled).moves == 0


@given(groups())
def test_the_first_cooperative_phase_moves_no_owned_partition(
    group: tuple[list[Subscriber], dict[str, int]],
) -> None:
    members, counts = group
    owner = {place: member.member_id for member in members for place in member.owned}
    first = sticky.cooperative(members, counts)
    assert all(owner.get(place, member) == member for member, places in first.items() for place in places)


@given(groups())
def test_no_assignor_is_more_even_than_sticky_for_equal_subscriptions(
    group: tuple[list[Subscriber], dict[str, int]],
) -> None:
    members, counts = group
    found = compare.alternatives(members, counts)
    assert set(found) == set(CLIENT)
    if len({member.topics for member in members}) == 1:
        assert found["sticky"].most <= min(spread.most for spread in found.values())


def test_range_piles_co_subscribed_topics_up_on_the_first_members() -> None:
    five = Subscriber("a", ("s", "t")), Subscriber("b", ("s", "t"))
    assert loads(ranges.assign(five, {"s": 5, "t": 3})) == [5, 3]
    ten = Subscriber("a", tuple("vwxyz")), Subscriber("b", tuple("vwxyz"))
    assert loads(ranges.assign(ten, dict.fromkeys("vwxyz", 3))) == [10, 5]


def test_names_are_ordered_as_java_orders_them() -> None:
    assert sorted(["\U0001f600", "\uffee"], key=java_order) == ["\U0001f600", "\uffee"]


def loads(assignment: dict[str, list[Partition]]) -> list[int]:
    return [len(places) for places in assignment.values()]
