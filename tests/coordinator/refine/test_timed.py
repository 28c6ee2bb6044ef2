"""What probe samples change in the cause of a departure: when a join phase began decides what began it."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from rebalance_monitor.coordinator.departure.evidence import Departed, Evidence, Trace, encode
from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.finding import (
    MEASURED,
    CauseEntry,
    Finding,
    MemberEntry,
    finding_id,
    record_anchor,
)
from rebalance_monitor.coordinator.findings.kinds import Kind, Scope, Severity
from rebalance_monitor.coordinator.refine.reattribution import SAMPLED, timed
from rebalance_monitor.coordinator.settings import DetectionSettings

S, P, CADENCE = 6_000, 9_000, 1_000
APART_MS = 1_000
SETTINGS = DetectionSettings()
AT = 1_000_000
quick = settings(max_examples=60, deadline=None)


def seen(silence: int, family: str = "java", **fields: int) -> Evidence:
    """A member that committed every second until it was silent; a survivor that commits by hand stayed."""
    trace = Trace(silence, (CADENCE,) * 8, commits=60)
    times = {"session": S, "rebalance": P, **fields}
    one = Departed(since=60_000, trace=trace, family=family, went_on=True, **times)
    return Evidence(60_000, 0, (one,), (), 1, 0, max(P, times["rebalance"]), S)


def published(one: Evidence, cause: Cause = Cause.UNKNOWN, confidence: float = 0.5) -> list[Finding]:
    """The rebalance that dropped the member, as the operator sends it, and its finding of the member."""
    silence = one.departed[0].last_active
    gone = MemberEntry("b-1", None, "b", "/h", False, "left", S, P, silence_ms=silence)  # noqa: FBT003 - positional as in the record
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
        join_ms_max=silence,
        causes=(CauseEntry(cause, confidence, "why", "b-1", "b", "/h"),),
        members=(gone,),
        details={"left": 1, MEASURED: encode(one).decode()},
    )
    kinds = {
        Cause.SESSION_TIMEOUT: Kind.SESSION_TIMEOUT,
        Cause.POLL_INTERVAL_EXCEEDED: Kind.POLL_INTERVAL_EXCEEDED,
    }
    if cause not in kinds:
        return [rebalance]
    beside = replace(rebalance, id="d", kind=kinds[cause], details={"rebalance": "r", "silence_ms": silence})
    return [rebalance, beside]


def sampled(found: list[Finding], least: int, most: int) -> list[Finding]:
    """Judge again with samples that saw the phase last `least` to `most` ms."""
    return timed(found, lambda one, _: replace(one, join_ms_min=least, join_ms_max=most), unlisted, SETTINGS)


def unlisted(_: Finding, __: str, ___: int) -> None:
    """No sample listed members."""


@quick
@given(
    expired=st.booleans(),
    after=st.integers(0, CADENCE),
    joining=st.integers(0, 3_500),
    phase=st.integers(0, APART_MS - 1),
)
def test_samples_distinguish_an_expiry_from_a_breach_however_long_the_others_took_to_rejoin(
    *, expired: bool, after: int, joining: int, phase: int
) -> None:
    silent = (S if expired else P + 100) + after
    if expired:
        # Bounds that reach to the poll interval leave both open.
        phase = min(phase, P - S - 1_500 - after)
    low, high = max(0, joining - phase), joining + APART_MS - phase
    found = sampled(published(seen(silent + joining)), low, high)
    assert found[0].causes[0].cause is (Cause.SESSION_TIMEOUT if expired else Cause.POLL_INTERVAL_EXCEEDED)
    assert SAMPLED in found[0].causes[0].why
    assert MEASURED not in found[0].details


def test_a_cause_names_no_samples_where_none_was_taken_while_the_member_was_silent() -> None:
    silent = S + 1_000
    assert SAMPLED not in sampled(published(seen(silent)), 0, silent)[0].causes[0].why
    assert SAMPLED in sampled(published(seen(silent)), 0, silent - 1_000)[0].causes[0].why


@quick
@given(after=st.integers(0, 200), joining=st.integers(0, 3_500), interval=st.integers(S + 4_000, 60_000))
def test_a_configured_interval_shows_the_breaches_of_a_client_that_sends_none(
    after: int, joining: int, interval: int
) -> None:
    one = seen(interval + after + joining, "aiokafka", rebalance=S, poll_interval=interval)
    found = sampled(published(one), joining, joining + 300)
    assert found[0].causes[0].cause is Cause.POLL_INTERVAL_EXCEEDED
    assert "max.poll.interval, as configured, " in found[0].causes[0].why


def test_the_finding_beside_is_published_otherwise_under_its_own_id_or_no_more() -> None:
    wrong = published(seen(S + 500 + 2_400), Cause.POLL_INTERVAL_EXCEEDED, 0.9)
    rebalance, beside = sampled(wrong, 2_000, 2_800)
    anchor = record_anchor(3, 7, AT)
    assert beside.id == finding_id("c1", Kind.SESSION_TIMEOUT, "g", anchor, member="b-1")
    assert (beside.kind, beside.details["rebalance"]) == (Kind.SESSION_TIMEOUT, rebalance.id)
    assert rebalance.id == "r"
    strict = replace(SETTINGS, attribution_confidence=0.99)
    unsure = timed(wrong, lambda one, _: replace(one, join_ms_min=2_000, join_ms_max=2_800), unlisted, strict)
    assert [one.kind for one in unsure] == [Kind.REBALANCE]


def test_samples_without_bounds_change_nothing_and_the_evidence_is_not_published() -> None:
    found = published(seen(S + 2_900), Cause.POLL_INTERVAL_EXCEEDED, 0.9)
    rebalance, beside = sampled(found, 0, S + 2_900)
    assert rebalance == replace(found[0], details={"left": 1})
    assert beside == found[1]


def test_what_concerns_the_others_stays() -> None:
    first, *rest = published(seen(S + 3_000))
    other = CauseEntry(Cause.SUBSCRIPTION_CHANGED, 0.9, "why", "a-1")
    found = sampled([replace(first, causes=(*first.causes, other)), *rest], 2_000, 2_800)
    assert {entry.cause for entry in found[0].causes} >= {Cause.SESSION_TIMEOUT, Cause.SUBSCRIPTION_CHANGED}
