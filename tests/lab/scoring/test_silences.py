from rebalance_monitor.lab.scoring.matching import Claim
from rebalance_monitor.lab.scoring.score import tally, unmatched
from rebalance_monitor.lab.scoring.silences import EARLY_MS, LABEL, silences
from rebalance_monitor.lab.truth.fold import Fact


def _silent(at: int, member: str = "m-1", *, told: int = -1, confidence: float = 0.6) -> Claim:
    return Claim(LABEL, "g", 4, member, confidence, told, at)


def _expelled(at: int, member: str = "m-1", label: str = "cause:session_timeout") -> Fact:
    return Fact(label, "g", 5, member, at)


def test_a_silence_is_true_where_the_broker_expels_that_member_afterwards() -> None:
    found = silences([_expelled(9_000)], [_silent(8_000, told=9_700), _silent(8_000, "m-2", told=9_800)])
    assert found.keys() == {0.6}
    assert (found[0.6].claimed, found[0.6].true) == (2, 1)
    assert found[0.6].after == (1.7, 1.8)
    assert found[0.6].ahead == (-0.7,)


def test_of_two_silences_of_a_member_that_came_back_between_only_the_last_is_true() -> None:
    found = silences([_expelled(90_000)], [_silent(8_000), _silent(80_000)])
    assert (found[0.6].claimed, found[0.6].true) == (2, 1)


def test_a_member_that_left_or_was_expelled_long_before_makes_no_silence_true() -> None:
    before, left = _expelled(8_000 - EARLY_MS - 1), _expelled(9_000, label="cause:member_left")
    assert silences([before, left], [_silent(8_000)])[0.6].true == 0
    assert silences([_expelled(8_000 - EARLY_MS)], [_silent(8_000)])[0.6].true == 1


def test_a_replay_has_no_delays_and_confidences_are_kept_apart() -> None:
    found = silences([_expelled(9_000)], [_silent(8_000), _silent(8_000, "m-2", confidence=0.4)])
    assert [(sure, one.claimed, one.true, one.after, one.ahead) for sure, one in found.items()] == [
        (0.4, 1, 0, (), ()),
        (0.6, 1, 1, (), ()),
    ]


def test_silences_are_no_wrong_claims_of_the_tables_of_facts() -> None:
    facts, claims = [_expelled(9_000)], [_silent(8_000)]
    assert tally(facts, claims, {"g": "java"}).keys() == {("cause:session_timeout", "java")}
    assert unmatched(facts, claims) == (facts, [])
