"""Each timer of KIP-848 groups, and the order of their records, held in simulations of a few clients."""

from dataclasses import replace
from itertools import groupby

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rebalance_monitor.decoders import Decoded, decode_record, rows
from rebalance_monitor.lab.simulator import Simulation, simulate
from rebalance_monitor.lab.simulator.plans.families import FAMILIES
from rebalance_monitor.lab.simulator.plans.plan import (
    Act,
    BrokerPlan,
    ClientPlan,
    GroupPlan,
    Mode,
    Outage,
    Plan,
    Step,
)
from rebalance_monitor.lab.simulator.truth import Removal, Removed

S, P, H, C = 45_000, 60_000, 5_000, 1_000
EPOCH = 1_700_000_000_000
FAST = settings(max_examples=25, deadline=None)
SEEDS = st.integers(0, 10_000)
FAMILY = st.sampled_from(["java-848", "librdkafka-848"])
COMMITTED, DEPARTURE = 8, (8, 7, 5, 3)


def client(family: str = "java-848", **changes: object) -> ClientPlan:
    plan = ClientPlan(family, S, P, P, H, C, FAMILIES[family].auto or Mode.PER_POLL)
    return replace(plan, **changes)  # type: ignore[arg-type]


def run(seed: int, clients: list[ClientPlan], *steps: Step, outages: tuple = ()) -> Simulation:  # type: ignore[type-arg]
    joins = {step.client for step in steps if step.act is Act.START}
    starts = tuple(Step(n * 700.0, Act.START, n) for n in range(len(clients)) if n not in joins)
    group = GroupPlan("g", tuple(clients), (*starts, *steps), modern=True)
    return simulate(Plan((group,), 400_000, BrokerPlan(outages, session=S), EPOCH), seed)


def removal(made: Simulation, number: int) -> Removal:
    return next(one for one in made.truth.removals if one.client == number)


def records(made: Simulation) -> list[tuple[int, Decoded]]:
    found = []
    for row in made.rows:
        if row.row_kind == rows.RECORD:
            one = decode_record(*rows.record(row))
            assert isinstance(one, Decoded)
            found.append((row.record_ts, one))
    return found


@FAST
@given(SEEDS, FAMILY)
def test_the_session_is_the_brokers_and_no_commit_re_arms_it(seed: int, family: str) -> None:
    gone = removal(run(seed, [client(family)] * 3, Step(100_000, Act.KILL, 1)), 1)
    assert gone.cause is Removed.EXPIRED
    last_beat = gone.at - S - EPOCH
    assert 100_000 - H - 100 <= last_beat <= 100_005


@FAST
@given(SEEDS, FAMILY)
def test_a_removal_writes_tombstones_and_an_epoch_in_one_run(seed: int, family: str) -> None:
    made = run(seed, [client(family)] * 3, Step(100_000, Act.KILL, 1), Step(200_000, Act.CLOSE, 2))
    written = records(made)
    for gone in made.truth.removals:
        at = [(ts, one) for ts, one in written if ts == int(gone.at)]
        assert tuple(one.type for _, one in at[:4]) == DEPARTURE
        assert all(one.value is None for _, one in at[:3])


@FAST
@given(SEEDS)
def test_a_breach_is_a_leave_and_the_same_member_id_comes_back(seed: int) -> None:
    made = run(seed, [client()] * 3, Step(100_000, Act.STALL, 1, 90_000))
    gone = removal(made, 1)
    assert gone.cause is Removed.POLL
    assert P <= gone.at - gone.last_poll <= P + 200
    again = [one for ts, one in records(made) if one.type == 5 and ts > gone.at]
    assert [getattr(one.key, "member_id", "") for one in again] == [gone.member]


@FAST
@given(SEEDS)
def test_librdkafka_falls_silent_at_the_breach_and_leaves_when_the_stall_ends(seed: int) -> None:
    short, long = (
        removal(run(seed, [client("librdkafka-848")] * 3, Step(100_000, Act.STALL, 1, lasts)), 1)
        for lasts in (80_000, 200_000)
    )
    assert short.cause is Removed.POLL
    assert short.at - EPOCH == pytest.approx(180_000, abs=2_000)
    assert long.cause is Removed.EXPIRED
    assert P + S - H - 500 <= long.at - long.last_poll <= P + S + 600


@FAST
@given(SEEDS)
def test_a_static_member_says_minus_two_and_expires_with_its_session(seed: int) -> None:
    clients = [client(), client(), client(instance="i")]
    made = run(seed, clients, Step(100_000, Act.CLOSE, 2))
    gone = removal(made, 2)
    epochs = [getattr(one.value, "member_epoch", None) for _, one in records(made) if one.type == COMMITTED]
    assert -2 in epochs
    assert gone.cause is Removed.EXPIRED
    assert S - H - 100 <= gone.at - EPOCH - 100_000 <= S + 50


@FAST
@given(SEEDS)
def test_a_static_successor_takes_the_place_without_a_new_epoch(seed: int) -> None:
    clients = [client(), client(instance="i"), client(instance="i")]
    made = run(seed, clients, Step(100_000, Act.CLOSE, 1), Step(110_000, Act.START, 2))
    assert not made.truth.removals
    assert all(one.type != 3 for ts, one in records(made) if ts > EPOCH + 99_000)


@FAST
@given(SEEDS)
def test_a_static_successor_of_a_crash_waits_for_the_session(seed: int) -> None:
    clients = [client(), client(instance="i"), client(instance="i")]
    made = run(seed, clients, Step(100_000, Act.KILL, 1), Step(110_000, Act.START, 2))
    gone = removal(made, 1)
    joined = [ts for ts, one in records(made) if one.type == 5 and ts > EPOCH + 99_000 and one.value]
    assert joined
    assert min(joined) >= gone.at - 1


@FAST
@given(SEEDS)
def test_a_member_that_does_not_revoke_is_fenced_after_its_rebalance_timeout(seed: int) -> None:
    steps = (Step(100_000, Act.DEAF, 1, 250_000), Step(110_000, Act.START, 3))
    made = run(seed, [client("librdkafka-848")] * 4, *steps)
    gone = next((one for one in made.truth.removals if one.client == 1), None)
    if gone is None:
        # Its share stayed as it was: there was nothing to revoke.
        return
    assert gone.cause is Removed.JOIN_DEADLINE
    unrevoked = [
        ts
        for ts, one in records(made)
        if one.type == COMMITTED and getattr(one.key, "member_id", "") == gone.member and one.value
    ]
    assert gone.at - unrevoked[-1] == pytest.approx(P, abs=2)


@FAST
@given(SEEDS)
def test_epochs_rise_by_one_and_partitions_have_one_owner(seed: int) -> None:
    steps = (Step(60_000, Act.KILL, 0), Step(150_000, Act.START, 3), Step(200_000, Act.CLOSE, 1))
    made = run(seed, [client(), client("librdkafka-848"), client(), client()], *steps)
    epochs = [getattr(one.value, "epoch", 0) for _, one in records(made) if one.type == 3]
    assert epochs == list(range(1, len(epochs) + 1))
    owned: dict[str, set[int]] = {}
    for _, run_ in groupby(records(made), key=lambda entry: entry[0]):
        for _, one in run_:
            if one.type == COMMITTED:
                parts = getattr(one.value, "assigned_partitions", ()) if one.value else ()
                pending = getattr(one.value, "partitions_pending_revocation", ()) if one.value else ()
                mine = {p for listed in (*parts, *pending) for p in listed.partitions}
                owned[getattr(one.key, "member_id", "")] = mine
        taken = [p for mine in owned.values() for p in mine]
        assert len(taken) == len(set(taken))
    assert sorted(taken) == list(range(6))


@FAST
@given(SEEDS)
def test_a_load_gives_everybody_a_full_session(seed: int) -> None:
    outages = ((101_000, 5_000, Outage.MOVE),)
    made = run(seed, [client()] * 3, Step(100_000, Act.KILL, 1), outages=outages)
    assert removal(made, 1).at - EPOCH == pytest.approx(106_000 + S, abs=5)


@FAST
@given(SEEDS, FAMILY)
def test_a_member_that_was_frozen_while_it_joined_is_given_its_partitions_as_it_goes_on(
    seed: int, family: str
) -> None:
    freeze = Step(1_700, Act.FREEZE, 2, 15_000)
    made = run(seed, [client(family) for _ in range(3)], freeze)
    last = next(phase for phase in reversed(made.truth.phases))
    assert last.generation == 3
    assert last.ended - EPOCH < 16_700 + 2 * H + 2_000
