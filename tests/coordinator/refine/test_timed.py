"""What looks of the probe change in the cause of a departure: when a barrier began decides what began it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalance_monitor.coordinator.departure.measured import (
    MEASURED,
    Busy,
    Rejoined,
    Silence,
    Stall,
    from_text,
    sent_along,
    told_interval,
)
from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.finding import (
    CauseEntry,
    Finding,
    MemberEntry,
    finding_id,
    record_anchor,
)
from rebalance_monitor.coordinator.findings.kinds import Kind, Scope, Severity
from rebalance_monitor.coordinator.refine.departure_evidence import LOOKED
from rebalance_monitor.coordinator.refine.reattribution import timed
from rebalance_monitor.coordinator.settings import DetectionSettings

S, P, CADENCE, SLACK = 6_000, 9_000, 1_000, 300
LOOKS_APART = 1_000
SETTINGS = DetectionSettings()
AT = 1_000_000


def seen(silence: int, **fields: object) -> Silence:
    """A Java member that committed every second until it was silent."""
    made = Silence(
        session=S,
        rebalance=P,
        silence=silence,
        elapsed=60_000,
        cadence=CADENCE,
        held=0,
        wait=-1,
        static=False,
        means=True,
        committed=True,
        poll=True,
        goodbye=True,
        poll_late=100,
        quiet=0.05,
        closes=True,
        crowded=False,
    )
    return replace(made, **fields)  # type: ignore[arg-type]


def told(one: Silence, cause: Cause = Cause.UNKNOWN, confidence: float = 0.5) -> list[Finding]:
    """The rebalance that dropped the member, as the operator sends it, and what it tells of the member."""
    gone = MemberEntry("b-1", None, "b", "/h", False, "left", S, P, silence_ms=one.silence)  # noqa: FBT003 - positional as in the record
    rebalance = Finding(
        id="r",
        kind=Kind.REBALANCE,
        scope=Scope.GROUP,
        severity=Severity.INFO,
        evidence="read",
        cluster="c1",
        group="g",
        group_type="classic",
        shard=3,
        offset=7,
        at=AT,
        join_ms_min=0,
        join_ms_max=one.silence,
        causes=(CauseEntry(cause, confidence, "why", "b-1", "b", "/h"),),
        members=(gone,),
        details={"left": 1} | sent_along([one], history=False),
    )
    kinds = {
        Cause.SESSION_TIMEOUT: Kind.SESSION_TIMEOUT,
        Cause.POLL_INTERVAL_EXCEEDED: Kind.POLL_INTERVAL_EXCEEDED,
    }
    if cause not in kinds:
        return [rebalance]
    beside = replace(
        rebalance, id="d", kind=kinds[cause], details={"rebalance": "r", "silence_ms": one.silence}
    )
    return [rebalance, beside]


def looked(found: list[Finding], least: int, most: int) -> list[Finding]:
    """Judge again with looks that saw the barrier last `least` to `most` ms."""
    return timed(found, lambda one: replace(one, join_ms_min=least, join_ms_max=most), unlisted, SETTINGS)


def unlisted(_: Finding, __: str) -> None:
    """No look listed members."""


@given(
    expired=st.booleans(),
    after=st.integers(0, CADENCE),
    joining=st.integers(0, 3_500),
    phase=st.integers(0, LOOKS_APART - 1),
)
def test_looks_tell_an_expiry_from_a_breach_however_long_the_others_took_to_rejoin(
    *, expired: bool, after: int, joining: int, phase: int
) -> None:
    silent = (S if expired else P + 100) + after
    low, high = max(0, joining - phase), joining + LOOKS_APART - phase
    found = looked(told(seen(silent + joining)), low, high)
    assert found[0].causes[0].cause is (Cause.SESSION_TIMEOUT if expired else Cause.POLL_INTERVAL_EXCEEDED)
    assert found[0].causes[0].confidence >= 0.6
    assert found[1].kind is (Kind.SESSION_TIMEOUT if expired else Kind.POLL_INTERVAL_EXCEEDED)
    assert found[1].causes[0] == found[0].causes[0]
    assert LOOKED in found[0].causes[0].why


@given(
    expired=st.booleans(),
    stalled=st.integers(S + CADENCE + 1_000, 4 * S) | st.integers(300_000, 600_000),
    after=st.integers(0, CADENCE),
    joining=st.integers(0, 3_500),
)
def test_looks_tell_a_breach_of_a_client_whose_poll_interval_no_record_holds(
    *, expired: bool, stalled: int, after: int, joining: int
) -> None:
    # aiokafka sends its session timeout for both, and commits by hand only what it processed.
    one = seen(
        (S + after if expired else stalled) + joining, rebalance=S, hidden=True, closes=False, poll=False
    )
    found = looked(told(one), joining, joining + 300)
    wanted = Cause.SESSION_TIMEOUT if expired else Cause.POLL_INTERVAL_EXCEEDED
    # One that was killed amid a long batch is as silent as one that stalled for less than the default.
    sure = expired or stalled >= 300_000
    assert (found[0].causes[0].cause, found[0].causes[0].confidence >= 0.6) == (wanted, sure)


def test_what_stood_beside_is_told_otherwise_under_its_own_id_or_no_more() -> None:
    wrong = told(seen(S + 500 + 2_400), Cause.POLL_INTERVAL_EXCEEDED, 0.9)
    rebalance, beside = looked(wrong, 2_000, 2_800)
    anchor = record_anchor(3, 7, AT)
    assert beside.id == finding_id("c1", Kind.SESSION_TIMEOUT, "g", anchor, member="b-1")
    assert (beside.kind, beside.details["rebalance"]) == (Kind.SESSION_TIMEOUT, rebalance.id)
    assert rebalance.id == "r"
    strict = replace(SETTINGS, attribution_confidence=0.99)
    unsure = timed(wrong, lambda one: replace(one, join_ms_min=2_000, join_ms_max=2_800), unlisted, strict)
    assert [one.kind for one in unsure] == [Kind.REBALANCE]


@pytest.mark.parametrize(
    ("least", "most"),
    [
        pytest.param(0, S + 2_900, id="as records have it"),
        pytest.param(4_000, 4_500, id="begun by somebody else, before any limit of the member"),
    ],
)
def test_looks_that_time_nothing_change_nothing_and_nobody_sees_what_was_measured(
    least: int, most: int
) -> None:
    found = told(seen(S + 2_900), Cause.POLL_INTERVAL_EXCEEDED, 0.9)
    rebalance, beside = looked(found, least, most)
    assert rebalance == replace(found[0], details={"left": 1})
    assert beside == found[1]


def test_what_concerns_the_others_stays() -> None:
    first, *rest = told(seen(S + 3_000))
    other = CauseEntry(Cause.SUBSCRIPTION_CHANGED, 0.9, "why", "a-1")
    found = looked([replace(first, causes=(*first.causes, other)), *rest], 2_000, 2_800)
    assert {entry.cause for entry in found[0].causes} >= {Cause.SESSION_TIMEOUT, Cause.SUBSCRIPTION_CHANGED}


@pytest.mark.parametrize(
    ("one", "history"),
    [
        (seen(CADENCE + 1_000), False),
        (seen(S), True),
        (seen(S, static=True), False),
        (seen(S, means=False), False),
        (seen(S, wait=0), False),
        (seen(S, committed=False), False),
    ],
)
def test_only_what_looks_can_change_is_sent_along(one: Silence, *, history: bool) -> None:
    assert sent_along([one], history=history) == {}


def test_what_was_measured_of_each_that_went_is_read_as_it_was_sent() -> None:
    told = Rejoined(100, 50, 2, 0.9)
    one, other = seen(S + 1_000), seen(S + 2_000, rejoined=told, busy=Busy(9_000, 0.5))
    sent = sent_along([one, seen(S, static=True), other], history=False)
    assert from_text(str(sent[MEASURED])) == [one, None, other]


@given(
    expired=st.booleans(),
    after=st.integers(0, 200),
    joining=st.integers(0, 3_500),
    interval=st.integers(S + 2_500, 60_000),
)
def test_a_configured_interval_tells_the_breaches_of_a_client_that_sends_none(
    *, expired: bool, after: int, joining: int, interval: int
) -> None:
    silent = (S if expired else interval) + after + joining
    one = told_interval(
        seen(silent, rebalance=S, hidden=True, closes=False, poll=False, cadence=200), interval
    )
    found = looked(told(one), joining, joining + 300)
    wanted = Cause.SESSION_TIMEOUT if expired else Cause.POLL_INTERVAL_EXCEEDED
    assert found[0].causes[0].cause is wanted
    assert found[0].causes[0].confidence >= 0.6
    assert expired or "max.poll.interval, as configured, " in found[0].causes[0].why


def test_an_interval_is_configured_for_clients_alone_that_send_none() -> None:
    for other in (seen(S), seen(S, hidden=True, stall=Stall.LIKELY)):
        assert told_interval(other, 60_000) == other
    assert told_interval(seen(S, hidden=True), None) == seen(S, hidden=True)
