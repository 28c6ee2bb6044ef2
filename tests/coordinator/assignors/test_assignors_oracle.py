"""The assignors against Kafka's own classes, over random memberships (needs a JDK)."""

from collections import Counter

import pytest

from tests.oracle import assignors
from tests.oracle.assignors import Case, by_member, cases, kafkas, loads, moves, ours
from tests.oracle.needs import needs

pytestmark = pytest.mark.slow
Pairs = list[tuple[Case, assignors.Assignment, assignors.Assignment]]
STICKY = {"sticky", "cooperative-sticky"}


@pytest.fixture(scope="module")
def pairs() -> Pairs:
    given = cases(seed=20_261_121, number=1_500)
    with needs():
        found = kafkas(given)
    return [(case, ours(case), kafka) for case, kafka in zip(given, found, strict=True)]


def is_equal(case: Case) -> bool:
    return len({frozenset(one["topics"]) for one in case["members"]}) == 1


def has_racks(case: Case) -> bool:
    return bool(case["racks"]) and any(one["rack"] for one in case["members"])


def test_range_and_round_robin_hand_out_exactly_what_kafka_does(pairs: Pairs) -> None:
    exact = {"range", "roundrobin", "server-range"}
    differing = [
        case for case, mine, kafka in pairs if case["assignor"] in exact if not same(case, mine, kafka)
    ]
    assert differing == []


def test_sticky_hands_out_what_kafka_does_but_for_ties_where_replicas_have_no_racks(pairs: Pairs) -> None:
    chosen = [pair for pair in pairs if pair[0]["assignor"] in STICKY and not has_racks(pair[0])]
    assert all(loads(case, mine) == loads(case, kafka) for case, mine, kafka in chosen)
    assert all(moves(case, mine) == moves(case, kafka) for case, mine, kafka in chosen)
    # Which of several members keeps one more is a tie that Kafka leaves to a hash map.
    assert sum(same(*pair) for pair in chosen) >= 0.98 * len(chosen)


def test_sticky_is_spread_as_kafka_does_with_racks_and_equal_subscriptions(pairs: Pairs) -> None:
    chosen = [p for p in pairs if p[0]["assignor"] == "sticky" and has_racks(p[0]) and is_equal(p[0])]
    assert chosen
    assert all(loads(case, mine) == loads(case, kafka) for case, mine, kafka in chosen)


def test_uniform_is_spread_and_moves_as_the_servers_does_for_equal_subscriptions(pairs: Pairs) -> None:
    chosen = [p for p in pairs if p[0]["assignor"] == "server-uniform" and is_equal(p[0])]
    assert all(loads(case, mine) == loads(case, kafka) for case, mine, kafka in chosen)
    assert all(moves(case, mine) == moves(case, kafka) for case, mine, kafka in chosen)


def test_uniform_is_about_as_even_as_the_servers_for_unequal_subscriptions(pairs: Pairs) -> None:
    chosen = [p for p in pairs if p[0]["assignor"] == "server-uniform" and not is_equal(p[0])]
    apart = Counter(
        max(loads(case, mine), default=0) - max(loads(case, kafka), default=0) for case, mine, kafka in chosen
    )
    assert apart[0] >= 0.95 * len(chosen)
    assert set(apart) <= {-1, 0, 1}


def same(case: Case, mine: assignors.Assignment, kafka: assignors.Assignment) -> bool:
    return by_member(case, mine) == by_member(case, kafka)
