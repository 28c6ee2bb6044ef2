from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.finding import CauseEntry, Finding
from rebalance_monitor.coordinator.findings.kinds import Kind, Scope, Severity
from rebalance_monitor.lab.scoring.claims import claims_of
from rebalance_monitor.lab.scoring.score import Band, calibration, confusion, tally, together
from rebalance_monitor.lab.scoring.statistics import percentile, wilson
from rebalance_monitor.lab.truth.fold import Fact

FAMILY = {"g": "java"}


def _finding(kind: Kind, generation: int, *causes: tuple[Cause, float, str], **more: object) -> Finding:
    entries = tuple(CauseEntry(cause, sure, "why", member_id=who) for cause, sure, who in causes)
    fields: dict[str, object] = {
        "id": "x",
        "kind": kind,
        "scope": Scope.GROUP,
        "severity": Severity.INFO,
        "evidence": "read",
        "group": "g",
        "group_type": "classic",
        "generation": generation,
        "at": 1000,
        "detected_at": 3500,
        "causes": entries,
        "details": {},
    }
    return Finding(**{**fields, **more})  # type: ignore[arg-type]  # a test's fields are what they say


def _row(facts: list[Fact], *findings: Finding, label: str) -> tuple[int, int, int, int]:
    one = tally(facts, claims_of(findings), FAMILY)[label, "java"]
    return one.facts, one.detected, one.missed, one.wrong


LOST = (Cause.SESSION_TIMEOUT, 0.9, "m-1")


def test_a_finding_about_the_member_is_a_hit_whenever_it_comes() -> None:
    facts = [Fact("session_timeout", "g", 4, "m-1", 1000)]
    assert _row(facts, _finding(Kind.SESSION_TIMEOUT, 9, LOST), label="session_timeout") == (1, 1, 0, 0)


def test_the_right_kind_about_another_member_is_a_miss_and_a_wrong_claim() -> None:
    facts = [Fact("session_timeout", "g", 4, "m-2", 1000)]
    assert _row(facts, _finding(Kind.SESSION_TIMEOUT, 4, LOST), label="session_timeout") == (1, 0, 1, 1)


def test_a_rebalance_is_matched_by_generation_not_by_time() -> None:
    facts = [Fact("rebalance", "g", 4, "", 1000)]
    assert _row(facts, _finding(Kind.REBALANCE, 4), label="rebalance") == (1, 1, 0, 0)
    assert _row(facts, _finding(Kind.REBALANCE, 5), label="rebalance") == (1, 0, 1, 1)


def test_a_convergence_covers_every_epoch_since_the_one_before() -> None:
    facts = [Fact("rebalance", "g", epoch, "", 1000) for epoch in (3, 4, 5)]
    found = _finding(Kind.REBALANCE, 5, group_type="consumer", previous_generation=2)
    assert _row(facts, found, label="rebalance") == (3, 3, 0, 0)


def test_an_unsure_cause_is_no_claim() -> None:
    facts = [Fact("cause:session_timeout", "g", 4, "m-1", 1000)]
    unsure = _finding(Kind.REBALANCE, 4, (Cause.SESSION_TIMEOUT, 0.59, "m-1"))
    assert _row(facts, unsure, label="cause:session_timeout") == (1, 0, 1, 0)


def test_resolving_an_incident_claims_nothing_new() -> None:
    assert claims_of([_finding(Kind.STORM, 4, phase="resolved")]) == []
    assert len(claims_of([_finding(Kind.STORM, 4, phase="opened")])) == 1


def test_the_delay_is_from_the_log_line_to_the_finding() -> None:
    facts = [Fact("rebalance", "g", 4, "", 1000)]
    assert tally(facts, claims_of([_finding(Kind.REBALANCE, 4)]), FAMILY)["rebalance", "java"].delays == (
        2.5,
    )


def test_a_static_replacement_is_matched_by_the_member_that_left() -> None:
    facts = [Fact("static_member_replaced", "g", -1, "old", 1000)]
    found = _finding(Kind.STATIC_MEMBER_REPLACED, 4, details={"previous_member_id": "old"})
    assert _row(facts, found, label="static_member_replaced") == (1, 1, 0, 0)


def test_confidence_is_held_against_what_was_true() -> None:
    facts = [Fact("cause:session_timeout", "g", 4, "m-1", 1000)]
    other = (Cause.SESSION_TIMEOUT, 0.95, "m-2")
    claims = claims_of([_finding(Kind.REBALANCE, 4, LOST, other, (Cause.MEMBER_LEFT, 0.3, "m-3"))])
    assert calibration(facts, claims, of_losses=True) == [Band(0.3, 1, 0, 0.3), Band(0.9, 2, 1, 0.925)]


def test_what_is_easily_right_does_not_hide_losses_that_were_claimed_wrongly() -> None:
    facts = [Fact("cause:member_joined", "g", 4, f"m-{number}", 1000) for number in range(9)]
    joined = [(Cause.MEMBER_JOINED, 0.95, fact.member) for fact in facts]
    claims = claims_of([_finding(Kind.REBALANCE, 4, LOST, *joined)])
    assert calibration(facts, claims, of_losses=True) == [Band(0.9, 1, 0, 0.9)]
    (others,) = calibration(facts, claims, of_losses=False)
    assert (others.claims, others.true) == (9, 9)


@given(st.integers(0, 200).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_a_wilson_interval_holds_its_proportion_and_narrows_with_more(pair: tuple[int, int]) -> None:
    hits, total = pair
    low, high = wilson(hits, total)
    assert 0 <= low <= high <= 1
    if total:
        assert low - 1e-9 <= hits / total <= high + 1e-9
        wider = wilson(hits * 4, total * 4)
        assert wider[1] - wider[0] <= high - low


def test_wilson_agrees_with_the_textbook() -> None:
    assert wilson(8, 10) == pytest.approx((0.4902, 0.9433), abs=1e-4)


@given(st.lists(st.floats(0, 100), min_size=1))
def test_percentiles_are_values_and_in_order(values: list[float]) -> None:
    ordered = sorted(values)
    found = [percentile(ordered, share) for share in (0, 0.5, 0.95, 1)]
    assert found == sorted(found)
    assert found[0] == ordered[0]
    assert found[-1] == ordered[-1]


def test_adding_up_tallies_keeps_counts() -> None:
    facts = [Fact("rebalance", "g", 4, "", 1000), Fact("rebalance", "h", 4, "", 1000)]
    rows = tally(facts, claims_of([_finding(Kind.REBALANCE, 4)]), {"g": "java", "h": "python"})
    whole = together(rows.values())
    assert (whole.facts, whole.detected, whole.claims, whole.right) == (2, 1, 1, 1)


def test_lost_members_are_counted_by_what_was_true_and_what_was_said() -> None:
    facts = [
        Fact(f"cause:{cause}", "g", 4, member, 1000)
        for member, cause in {"m-1": "session_timeout", "m-2": "member_left", "m-3": "member_left"}.items()
    ]
    wrong, unsure = (Cause.MEMBER_LEFT, 0.7, "m-1"), (Cause.MEMBER_LEFT, 0.3, "m-2")
    claims = claims_of([_finding(Kind.REBALANCE, 4, wrong, unsure, (Cause.SESSION_TIMEOUT, 0.2, "m-1"))])
    assert confusion(facts, claims) == {
        ("session_timeout", "member_left"): 1,
        ("member_left", "unsure"): 1,
        ("member_left", "nothing"): 1,
    }


def test_a_moved_shard_is_a_claim_about_each_of_its_groups() -> None:
    moved = _finding(Kind.COORDINATOR_MOVED, 0, group=None, shard=7)
    assert [claim.group for claim in claims_of([moved], {7: ["g", "h"], 8: ["i"]})] == ["g", "h"]
    several = replace(moved, shard=None, details={"moved": 4, "partitions": "1,7-9"})
    assert [claim.group for claim in claims_of([several], {7: ["g"], 9: ["h"], 2: ["i"]})] == ["g", "h"]
    everywhere = _finding(Kind.COORDINATOR_MOVED, 0, group=None, shard=None)
    assert [claim.group for claim in claims_of([everywhere], {7: ["g"], 8: ["i"]})] == ["g", "i"]


def _gone(at: int, cause: Cause, *, confidence: float = 0.9) -> Finding:
    """A convergence at `at` ms, after which the new protocol's member m-1 had gone for `cause`."""
    return _finding(Kind.REBALANCE, at // 10, (cause, confidence, "m-1"), group_type="consumer", at=at)


TWICE = [
    Fact("cause:poll_interval_exceeded", "g", -1, "m-1", 100_000),
    Fact("cause:member_left", "g", -1, "m-1", 200_000),
]


def test_a_member_that_goes_twice_under_one_id_is_reported_twice() -> None:
    first, second = _gone(101_000, Cause.MEMBER_LEFT), _gone(201_000, Cause.MEMBER_LEFT)
    assert _row(TWICE, first, second, label="cause:member_left") == (1, 1, 0, 1)
    assert _row(TWICE, first, second, label="cause:poll_interval_exceeded") == (1, 0, 1, 0)
    late = _gone(201_000, Cause.POLL_INTERVAL_EXCEEDED)
    assert _row(TWICE, late, label="cause:poll_interval_exceeded") == (1, 0, 1, 1)
    right = _gone(190_000, Cause.POLL_INTERVAL_EXCEEDED)
    assert _row(TWICE, right, second, label="cause:poll_interval_exceeded") == (1, 1, 0, 0)
    (band,) = calibration(TWICE, claims_of([first, second, late]), of_losses=True)
    assert (band.low, band.claims, band.true) == (0.9, 3, 1)


def test_each_time_that_a_member_goes_is_counted_by_what_was_said_of_that() -> None:
    claims = claims_of([_gone(101_000, Cause.MEMBER_LEFT, confidence=0.7), _gone(201_000, Cause.MEMBER_LEFT)])
    assert confusion(TWICE, claims) == {
        ("poll_interval_exceeded", "member_left"): 1,
        ("member_left", "member_left"): 1,
    }


def test_lines_of_one_moment_are_one_departure() -> None:
    labels = {100_000: "session_timeout", 100_400: "cause:session_timeout"}
    facts = [Fact(label, "g", -1, "m-1", at) for at, label in labels.items()]
    found = _gone(100_200, Cause.SESSION_TIMEOUT)
    assert _row(facts, found, label="cause:session_timeout") == (1, 1, 0, 0)


def test_what_is_reported_twice_is_wrong_once_but_for_a_move() -> None:
    facts = [Fact("rebalance", "g", 4, "", 1000)]
    assert _row(facts, *[_finding(Kind.REBALANCE, 4)] * 3, label="rebalance") == (1, 1, 0, 2)
    moves = [Fact("coordinator_moved", "g", 4, "", at) for at in (1000, 1001)]
    moved = [_finding(Kind.COORDINATOR_MOVED, 0, group=None, shard=7)] * 3
    one = tally(moves, claims_of(moved, {7: ["g"]}), FAMILY)["coordinator_moved", "java"]
    assert (one.facts, one.detected, one.claims, one.right) == (2, 2, 3, 3)


def test_one_claim_reports_one_fact_though_others_look_the_same() -> None:
    facts = [Fact("group_empty", "g", -1, "", at) for at in (1000, 60_000, 120_000)]
    emptied = [_finding(Kind.GROUP_EMPTY, 9, group_type="consumer", at=at) for at in (1000, 60_000)]
    assert _row(facts, *emptied, label="group_empty") == (3, 2, 1, 0)


def test_what_need_not_be_reported_takes_no_claim_from_what_must() -> None:
    facts = [Fact("rebalance", "g", 4, "", 900, required=False), Fact("rebalance", "g", 4, "", 1000)]
    assert _row(facts, _finding(Kind.REBALANCE, 4), label="rebalance") == (1, 1, 0, 0)
    assert _row(facts, *[_finding(Kind.REBALANCE, 4)] * 2, label="rebalance") == (1, 1, 0, 0)


def test_a_storm_is_one_and_is_reported_once_it_has_begun() -> None:
    facts = [Fact("storm", "g", -1, "", 100_000)]
    early, right = (_finding(Kind.STORM, 4, phase="opened", at=at) for at in (90_000, 150_000))
    assert _row(facts, right, label="storm") == (1, 1, 0, 0)
    assert _row(facts, early, label="storm") == (1, 0, 1, 1)
    assert _row(facts, early, right, right, label="storm") == (1, 1, 0, 2)


@pytest.mark.parametrize(("said", "expected"), [(3, (1, 1, 0, 0)), (1, (1, 0, 1, 1)), (7, (1, 0, 1, 1))])
def test_how_many_generations_failed_must_be_right(said: int, expected: tuple[int, int, int, int]) -> None:
    facts = [Fact("rebalance_failed", "g", 4, "", 1000, count=3)]
    failed = _finding(Kind.REBALANCE_FAILED, 4, details={"failed": said})
    assert _row(facts, failed, label="rebalance_failed") == expected
