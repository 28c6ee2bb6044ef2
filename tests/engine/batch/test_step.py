"""One key's share of a batch: the coordinator's findings, whatever the order, batches and accidents."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from rebalance_monitor.checkpoints.state.codec import StateVersionError, Stored, decode_state
from rebalance_monitor.coordinator.findings.finding import Finding, from_json
from rebalance_monitor.coordinator.findings.kind_table import KINDS
from rebalance_monitor.coordinator.findings.kinds import DrivenBy, Kind
from rebalance_monitor.coordinator.settings import DetectionSettings
from rebalance_monitor.coordinator.shard import ShardCoordinator
from rebalance_monitor.decoders import Row, rows
from rebalance_monitor.engine.batch.step import QUARANTINE_BYTES, OutRow, Plan, step
from tests.coordinator.support.epochs import A as EPOCHS_A
from tests.coordinator.support.epochs import C as EPOCHS_C
from tests.coordinator.support.epochs import committing, pair
from tests.coordinator.support.timeline import T0, Client, Topic, findings
from tests.streaming.support.topics import eventful_topic

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

    from rebalance_monitor.coordinator.findings.outputs import Output

PLAN = Plan(DetectionSettings(), "c1", {})
TOPIC = eventful_topic()


def run(batches: Sequence[Sequence[Row]], plan: Plan = PLAN, nows: list[int] | None = None) -> list[OutRow]:
    stored, out = None, []
    for number, batch in enumerate(batches):
        now = nows[number] if nows else max([row.record_ts for row in batch], default=T0)
        stored, found = step(plan, 0, 0, batch, now, stored, ticks=True)
        out += found
    return out


def found_in(out: list[OutRow]) -> list[Finding]:
    return [from_json(row.body) for row in out if row.row_kind == "finding"]


def by_records(found: list[Finding]) -> list[Finding]:
    return [finding for finding in found if KINDS[finding.kind].driven_by is DrivenBy.RECORD]


def stats(out: list[OutRow], kind: str) -> list[dict[str, object]]:
    bodies = [json.loads(row.body) for row in out if row.row_kind == "stat"]
    return [body for body in bodies if body["kind"] == kind]


EXPECTED = by_records(findings(TOPIC))


@settings(deadline=None, max_examples=60)
@given(st.lists(st.integers(0, len(TOPIC.rows))), st.randoms(use_true_random=False))
def test_record_driven_findings_do_not_depend_on_batching_and_row_order(
    cuts: list[int], random: Random
) -> None:
    bounds = [0, *sorted(cuts), len(TOPIC.rows)]
    batches = [list(TOPIC.rows[start:end]) for start, end in pairwise(bounds)]
    for batch in batches:
        random.shuffle(batch)
    assert by_records(found_in(run(batches))) == EXPECTED
    assert len(EXPECTED) >= 6


@settings(deadline=None, max_examples=60)
@given(st.integers(0, len(TOPIC.rows)))
def test_a_batch_that_runs_again_on_the_same_state_gives_the_same_rows_and_state(cut: int) -> None:
    stored, _ = step(PLAN, 0, 0, TOPIC.rows[:cut], T0, None, ticks=False)
    again = [step(PLAN, 0, 0, TOPIC.rows[cut:], T0 + 99_000, stored, ticks=True) for _ in range(2)]
    assert again[0] == again[1]


def test_what_lies_before_the_end_found_at_start_is_history() -> None:
    end = TOPIC.rows[len(TOPIC.rows) // 2].first_offset
    found = found_in(run([TOPIC.rows], Plan(DetectionSettings(), "c1", {0: end})))
    assert {finding.history for finding in found} == {True, False}
    assert all(finding.history == ((finding.offset or 0) < end) for finding in by_records(found))


def test_the_history_of_another_shard_is_none_of_ours() -> None:
    found = found_in(run([TOPIC.rows], Plan(DetectionSettings(), "c1", {1: 10_000})))
    assert not any(finding.history for finding in found)


def test_the_clock_of_the_coordinator_never_passes_unread_records() -> None:
    grace = PLAN.settings.grace_ms
    nows = [T0, T0 + 500, T0 + 60_500, T0 + 61_000]
    clocks, stored = [], None
    for now in nows:
        stored, _ = step(PLAN, 0, 0, [], now, stored, ticks=True)
        clocks.append(decode_state(stored.blob).now)
    assert clocks == [T0, T0 + 500, T0 + 500 + grace, T0 + 61_000]


@pytest.mark.parametrize(("back", "now"), [(5_000, T0), (3_600_000, T0 - 3_600_000)])
def test_time_goes_back_only_where_the_drivers_clock_was_ahead_by_much(back: int, now: int) -> None:
    stored, _ = step(PLAN, 0, 0, [], T0, None, ticks=True)
    stored, _ = step(PLAN, 0, 0, [], T0 - back, stored, ticks=True)
    assert stored.now == decode_state(stored.blob).now == now


def test_a_row_that_breaks_the_coordinator_is_counted_and_hurts_nothing_else() -> None:
    poison = replace(TOPIC.rows[5], row_kind=rows.RECORD, body=b"\xff")
    batch = [*TOPIC.rows[:5], poison, *TOPIC.rows[6:]]
    out = run([batch])
    (error,) = stats(out, "operator_error")
    assert error["what"] == f"offset {poison.first_offset}"
    assert error["group"] == "g"
    kinds = [finding.kind for finding in by_records(found_in(out))]
    assert kinds == [finding.kind for finding in EXPECTED]


def test_a_flood_of_broken_rows_gives_a_bounded_answer() -> None:
    poison = [Row(0, 0, rows.RECORD, n, n, -1, "", -1, 0, b"") for n in range(5_000)]
    assert len(run([poison])) < 50


def test_damaged_state_is_begun_anew_and_said() -> None:
    stored, _ = step(PLAN, 0, 0, TOPIC.rows[:5], T0, None, ticks=False)
    damaged = stored._replace(blob=stored.blob[:1] + b"\x00\x00\x00\x05rubbish")
    after, out = step(PLAN, 0, 0, TOPIC.rows[5:], T0, damaged, ticks=False)
    assert len(stats(out, "state_lost")) == 1
    assert decode_state(after.blob).last_offset == TOPIC.rows[-1].last_offset


def test_state_of_an_unknown_version_is_left_alone() -> None:
    with pytest.raises(StateVersionError, match="--rebuild-state"):
        step(PLAN, 0, 0, [], T0, Stored(T0, b"\xfa..."), ticks=True)


@pytest.mark.parametrize("size", [10, 60_000])
def test_the_quarantine_sample_is_bounded_in_bytes_and_keeps_the_newest(size: int) -> None:
    failure = rows.FailureRow("truncated", "value", 3, "generation", 2, b"\0\2", bytes(size))
    body = rows.failure_body(failure)
    batch = [Row(0, 0, rows.FAILURE, n, n, T0, "", -1, 1, body) for n in range(200)]
    sample = stats(run([batch]), "quarantine")
    assert 0 < len(sample) * len(body) <= QUARANTINE_BYTES
    assert [entry["offset"] for entry in sample] == list(range(199, 199 - len(sample), -1))


def test_an_empty_batch_keeps_the_state() -> None:
    stored, _ = step(PLAN, 0, 0, TOPIC.rows, T0, None, ticks=False)
    again, out = step(PLAN, 0, 0, [], T0 + 1, stored, ticks=False)
    assert decode_state(again.blob).last_offset == TOPIC.rows[-1].last_offset
    assert [row.row_kind for row in out] == ["stat"]


def test_a_hole_that_batches_take_long_to_cross_does_not_end_the_history() -> None:
    """Limited batches may read only offsets that compaction emptied; what follows the hole is still old."""
    last = TOPIC.rows[-1]
    crossing: list[list[Row]] = [[]] * 20
    batches = [*crossing, TOPIC.rows, *crossing, [replace(last, first_offset=10**6)]]
    out = run(batches, Plan(DetectionSettings(), "c1", {0: 10**6}), [T0] * len(batches))
    told = by_records(found_in(out))
    assert len(told) > 1
    assert all(finding.history for finding in told)
    assert stats(out, "shard")[-1]["catching_up"] == 0


def test_a_group_that_cannot_be_judged_costs_no_other_group_its_deadlines(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wake, due, woken = ShardCoordinator.wake, ShardCoordinator.due, []

    def fails_for_one(self: ShardCoordinator, group: str) -> list[Output]:
        if group == "bad":
            raise OverflowError(group)
        woken.append(group)
        return wake(self, group)

    monkeypatch.setattr(ShardCoordinator, "wake", fails_for_one)
    monkeypatch.setattr(ShardCoordinator, "due", lambda self: ["bad", *due(self)])
    out = run([TOPIC.rows[:3], []], nows=[T0 + 10_000, T0 + 11_000])
    assert woken == ["g"]
    assert [stat["group"] for stat in stats(out, "operator_error")] == ["bad", "bad"]
    assert len(stats(out, "shard")) == 2


def test_limited_batches_find_no_silence_in_what_they_have_not_read() -> None:
    topic = pair()
    committing(topic, 3_000, 620_000, 1)
    topic.join(630_000, EPOCHS_C, 3, ())
    topic.ack(630_100, EPOCHS_A, 2, (0,), state=1)
    for at in range(630_150, 633_200, 50):
        topic.commit(at, {1: 5})
    # A has given up what it had to.
    topic.ack(633_500, EPOCHS_A, 3, (0,))
    batches = [topic.rows[first : first + 60] for first in range(0, len(topic.rows), 60)]
    nows = [T0 + 1_200_000 + 30_000 * number for number in range(len(batches))]
    kinds = []
    for limited in (False, True):
        plan = Plan(DetectionSettings(), "c1", {0: 600}, limited=limited)
        kinds.append({found.kind for found in found_in(run(batches, plan, nows)) if not found.history})
    assert ["member_silent" in told for told in kinds] == [True, False]


def hour_ahead(*, shared: bool, ahead: range = range(60, 90)) -> tuple[list[Finding], list[int]]:
    """A lone member that commits for two minutes, and another group; findings, and when it was summarised.

    A batch a second; in those of `ahead` the driver's clock is an hour ahead. `shared`: other shards of the
    lane have records too, and show the time.
    """
    topic, member = Topic(), Client("a-1", (0,))
    topic.generation(0, 1, [member])
    topic.commits(1_000, 120_000, member)
    for at in range(1_500, 180_000, 2_000):
        topic.record(at, b"\0\2\0\5other", None, "other")
    topic = topic.sorted()
    stored: Stored | None = None
    found, summarised = [], []
    for second in range(180):
        # Not every batch has records of this shard.
        due = [row for row in topic.rows if row.record_ts <= T0 + second * 1_000] if second % 2 else []
        topic.rows = topic.rows[len(due) :]
        now = T0 + second * 1_000 + (3_600_000 if second in ahead else 0)
        newest = T0 + second * 1_000 if shared else -1
        stored, out = step(PLAN, 7, 0, due, now, stored, ticks=True, newest=newest)
        found += found_in(out)
        summarised += [second for row in out if row.row_kind == "group"]
    return found, summarised


@pytest.mark.parametrize("shared", [True, False])
def test_a_clock_that_was_an_hour_ahead_leaves_nothing_of_it_behind(*, shared: bool) -> None:
    silent = [one for one in hour_ahead(shared=shared)[0] if one.kind == "member_silent"]
    steady = [one for one in hour_ahead(shared=shared, ahead=range(0))[0] if one.kind == "member_silent"]
    assert [(one.id, one.phase, one.at) for one in silent] == [(one.id, one.phase, one.at) for one in steady]
    assert (silent[0].phase, silent[0].at > T0 + 118_000) == ("opened", True)


@pytest.mark.parametrize("shared", [True, False])
def test_groups_are_summarised_on_after_a_clock_was_ahead(*, shared: bool) -> None:
    assert max(hour_ahead(shared=shared)[1]) >= 120


@pytest.mark.parametrize(
    ("away", "cleaned", "failed"), [(60_000, 90, 29), (1_200_000, 1, None), (1_200_000, 0, 29)]
)
def test_generations_that_were_cleaned_away_while_the_monitor_was_away_did_not_fail(
    away: int, cleaned: int, failed: int | None
) -> None:
    """Of thirty that completed meanwhile compaction left the last; where it took nothing, they failed."""
    topic = Topic()
    topic.generation(0, 50, [Client("a-1", (0,))])
    topic.offset += cleaned
    topic.generation(away, 80, [Client("a-1", (0,))])
    topic.generation(away + 10_000, 82, [Client("a-1", (0,))])
    nows = [T0, T0 + away + 1_000, T0 + away + 11_000]
    found = found_in(run([topic.rows[:1], topic.rows[1:2], topic.rows[2:]], nows=nows))
    lost = [one.details["failed"] for one in found if one.kind is Kind.REBALANCE_FAILED]
    assert lost == ([1] if failed is None else [failed, 1])
    assert any(one.kind is Kind.STORM for one in found) is (failed is not None)
