"""Whatever looks of the probe see, in whatever batches: what they open ends, once, and nothing else does."""

import json
from collections import Counter
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from rebalance_monitor.coordinator.findings.finding import Finding, from_json, to_json
from rebalance_monitor.coordinator.findings.kind_table import KINDS
from rebalance_monitor.coordinator.findings.kinds import Kind
from rebalance_monitor.coordinator.live import Live
from rebalance_monitor.coordinator.probe.sample import ProbeSample, RebalancingGroup
from rebalance_monitor.coordinator.settings import DetectionSettings
from tests.coordinator.refine.test_suppressed import T0, finding

SETTINGS = DetectionSettings(stuck_after_ms=20_000)
GROUPS = ("a", "b")
ALL = ((1, True), (2, True))
PREPARING, COMPLETING = "PreparingRebalance", "CompletingRebalance"
CALM_MS = 2 * SETTINGS.longest_probe_window_ms + 2 * SETTINGS.storm_quiet_ms
Batch = tuple[list[ProbeSample], list[Finding]]

states = st.sampled_from(["", "", PREPARING, PREPARING, COMPLETING])
waits = st.sampled_from([300, 1_000, 1_000, 1_000, 1_000, 4_000, 30_000, 200_000])


@st.composite
def times(draw: st.DrawFn) -> list[Batch]:
    """Batches of samples, and the findings of records meanwhile; the clock never goes back."""
    at, epoch, batches = 0, 1, list[Batch]()
    generation = dict.fromkeys(GROUPS, 1)
    for _ in range(draw(st.integers(1, 12))):
        looks, told = list[ProbeSample](), list[Finding]()
        # A barrier lasts for some looks: each group stays in a state for as long as this batch goes on.
        held = {group: draw(states) for group in GROUPS}
        for _ in range(draw(st.integers(0, 30))):
            at += draw(waits)
            if draw(st.integers(0, 9)) == 0:
                held = {group: draw(states) for group in GROUPS}
            epoch += draw(st.integers(0, 19)) == 0
            seen = tuple(
                RebalancingGroup(name, state, "classic", "consumer") for name, state in held.items() if state
            )
            answered = draw(st.integers(0, 9)) > 0
            listed = frozenset(GROUPS[: draw(st.integers(0, 2))]) if draw(st.integers(0, 9)) == 0 else None
            looks.append(
                ProbeSample(
                    T0 + at,
                    seen if answered else (),
                    ((7, 1, epoch),),
                    ((1, answered), (2, True)),
                    listed=listed,
                )
            )
        for group in draw(st.lists(st.sampled_from(GROUPS), max_size=3)):
            generation[group] += 1
            told.append(completed(group, generation[group], at - draw(st.integers(0, 3_000))))
        batches.append((looks, told))
    return batches


def completed(group: str, generation: int, at: int) -> Finding:
    return finding(
        Kind.REBALANCE,
        None,
        at,
        None,
        id=f"{group}/{generation}",
        group=group,
        generation=generation,
        group_type="classic",
        sync_ms=5,
        started_at_min=T0 + at - 9_000,
        started_at_max=T0 + at - 5,
        join_ms_min=0,
        join_ms_max=8_995,
        details={},
    )


def told(batches: list[Batch], *, restarts: bool = False) -> list[Finding]:
    live, found = Live(SETTINGS, "c1"), list[Finding]()
    last = max((looks[-1] for looks, _ in batches if looks), default=None, key=lambda one: one.at)
    calm = (
        [replace(last, at=last.at + n, groups=(), brokers=ALL) for n in range(5_000, CALM_MS, 5_000)]
        if last
        else []
    )
    for looks, records in [*batches, (calm, [])]:
        found += live.on_samples(looks, {}, records)
        found += live.refine(records)
        if restarts:
            live = Live(SETTINGS, "c1", json.loads(json.dumps(live.snapshot())))
    assert live.opened == frozenset()
    return found


@settings(deadline=None, max_examples=40)
@given(times())
def test_what_samples_open_ends_once_and_nothing_else_ends(batches: list[Batch]) -> None:
    phases: dict[str, list[str]] = {}
    found = told(batches)
    assert [one.id for one in found if Counter(f.id for f in found)[one.id] > 1] == []
    for one in found:
        assert set(one.details) <= set(KINDS[one.kind].details)
        assert from_json(to_json(one)) == one
        if one.incident is not None and one.phase is not None:
            phases.setdefault(one.incident, []).append(one.phase)
    assert all(
        heard[0] == "opened" and heard[-1] == "resolved" and set(heard[1:-1]) <= {"updated"}
        for heard in phases.values()
    ), phases


@settings(deadline=None, max_examples=40)
@given(times())
def test_a_restart_between_any_two_batches_changes_nothing(batches: list[Batch]) -> None:
    assert told(batches, restarts=True) == told(batches)


@settings(deadline=None, max_examples=40)
@given(times())
def test_what_samples_add_to_a_rebalance_stays_within_what_its_record_says(batches: list[Batch]) -> None:
    before = {one.id: one for _, records in batches for one in records}
    for one in told(batches):
        if one.kind is Kind.REBALANCE:
            was = before[one.id]
            (low, high), (least, most) = bounds(was), bounds(one)
            assert low <= least <= most <= high
            # The join phase ends where its record says.
            ended = one.at - (one.sync_ms or 0)
            assert (one.join_ms_min, one.join_ms_max) == (ended - most, ended - least)
            assert others(one) == others(was)


def bounds(one: Finding) -> tuple[int, int]:
    """Between which times (ms) it began."""
    assert one.started_at_min is not None
    assert one.started_at_max is not None
    return one.started_at_min, one.started_at_max


def others(one: Finding) -> Finding:
    """The same without what looks may change."""
    return replace(
        one,
        started_at_min=None,
        started_at_max=None,
        join_ms_min=None,
        join_ms_max=None,
        causes=(),
        coordinator=None,
    )
