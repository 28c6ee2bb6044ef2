"""Each timer of Kafka's classic coordinator, held one by one in simulations of a few clients."""

from collections.abc import Iterator
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rebalance_monitor.decoders import Decoded, GroupMetadataValue, decode_record, rows
from rebalance_monitor.lab.simulator import Simulation, draw_plan, simulate
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
    Traffic,
)
from rebalance_monitor.lab.simulator.protocol.beats import Beats
from rebalance_monitor.lab.simulator.study.measures import Fact, departures
from rebalance_monitor.lab.simulator.truth import Removal, Removed

S, P, H, C = 10_000, 30_000, 3_000, 5_000
EPOCH = 1_700_000_000_000
FAST = settings(max_examples=25, deadline=None)
SEEDS = st.integers(0, 10_000)


def client(family: str = "java", **changes: object) -> ClientPlan:
    known = FAMILIES[family]
    mode = known.auto or Mode.PER_POLL
    plan = ClientPlan(family, S, P, P, H, C, mode, rejoins_in_poll=known.polls_to_rejoin)
    return replace(plan, **changes)  # type: ignore[arg-type]


def run(
    seed: int,
    clients: list[ClientPlan],
    *steps: Step,
    length: float = 200_000,
    broker: BrokerPlan | None = None,
    traffic: float = 20.0,
) -> Simulation:
    starts = [Step(number * 10.0, Act.START, number) for number in range(len(clients))]
    joins = {step.client for step in steps if step.act is Act.START}
    begun = tuple(step for step in starts if step.client not in joins) + steps
    group = GroupPlan("g", tuple(clients), begun, traffic=Traffic(traffic))
    return simulate(Plan((group,), length, broker or BrokerPlan(initial_delay=0), EPOCH), seed)


def removal(made: Simulation, number: int) -> Removal:
    return next(one for one in made.truth.removals if one.client == number)


def values(made: Simulation) -> Iterator[GroupMetadataValue]:
    for row in made.rows:
        if row.row_kind == rows.RECORD:
            found = decode_record(*rows.record(row))
            assert isinstance(found, Decoded)
            assert isinstance(found.value, GroupMetadataValue)
            yield found.value


@FAST
@given(SEEDS, st.sampled_from(["java", "librdkafka", "kafka-python", "sarama", "kafkajs"]))
def test_a_dead_member_expires_a_session_after_its_last_sign_of_life(seed: int, family: str) -> None:
    made = run(seed, [client(family)] * 3, Step(60_000, Act.KILL, 1))
    gone = removal(made, 1)
    assert gone.cause is Removed.EXPIRED
    assert gone.triggered
    assert gone.at - EPOCH <= 60_000 + S + 5
    last_sign = gone.at - S
    assert last_sign >= gone.last_commit - 5
    assert last_sign - EPOCH >= 60_000 - H - 500


@FAST
@given(SEEDS, st.sampled_from([0.0, 20.0]))
def test_kafka_go_leaves_when_its_fetch_has_been_answered(seed: int, traffic: float) -> None:
    made = run(seed, [client("kafka-go", fetch=9_000.0)] * 2, Step(60_000, Act.CLOSE, 1), traffic=traffic)
    gone = removal(made, 1)
    assert gone.cause is Removed.LEFT
    assert 60_000 <= gone.at - EPOCH <= 60_000 + (2_000 if traffic else 9_500)


@FAST
@given(SEEDS)
def test_transactional_commits_re_arm_no_session(seed: int) -> None:
    plan = client(mode=Mode.TRANSACTION, gap=500.0, heartbeat=3_000)
    made = [run(one, [plan] * 2, Step(60_000, Act.KILL, 1)) for one in range(seed, seed + 8)]
    silences = [removal(one, 1).at - removal(one, 1).last_commit - S for one in made]
    assert min(silences) < -300


@FAST
@given(SEEDS, st.sampled_from(["java", "librdkafka", "kafka-python", "streams"]))
def test_a_stalled_application_leaves_a_poll_interval_after_its_last_poll(seed: int, family: str) -> None:
    made = run(seed, [client(family)] * 3, Step(60_000, Act.STALL, 1, 50_000))
    gone = removal(made, 1)
    assert gone.cause is Removed.POLL
    late = FAMILIES[family].poll_check if not FAMILIES[family].poll_at_beat else H
    assert P <= gone.at - gone.last_poll <= P + late + 50


@FAST
@given(SEEDS, st.sampled_from(["sarama", "franz-go", "kafka-go"]))
def test_clients_without_a_poll_limit_never_leave_for_a_stall(seed: int, family: str) -> None:
    made = run(seed, [client(family)] * 3, Step(60_000, Act.STALL, 1, 100_000))
    assert not made.truth.removals


@FAST
@given(SEEDS)
def test_a_static_member_that_stalls_expires_a_session_after_its_poll_limit(seed: int) -> None:
    clients = [client(instance=f"i{n}") for n in range(3)]
    made = run(seed, clients, Step(60_000, Act.STALL, 1, 100_000))
    gone = removal(made, 1)
    assert gone.cause is Removed.EXPIRED
    assert P + S - H - 500 <= gone.at - gone.last_poll <= P + S + 200


@FAST
@given(SEEDS)
def test_a_deaf_dynamic_member_is_removed_at_the_join_deadline_and_held_the_phase(seed: int) -> None:
    join = Step(70_000, Act.START, 3)
    made = run(seed, [client("sarama")] * 4, Step(60_000, Act.DEAF, 1, 90_000), join)
    gone = removal(made, 1)
    assert gone.cause is Removed.JOIN_DEADLINE
    phase = next(one for one in made.truth.phases if one.ended_by == "deadline")
    assert phase.ended - phase.began == pytest.approx(P, abs=1)
    assert phase.held_by == gone.member
    assert not gone.triggered


@FAST
@given(SEEDS, st.sampled_from(("franz-go", "sarama", "librdkafka-cooperative", "java-cooperative")))
def test_a_member_that_waits_for_the_end_of_a_join_phase_commits_nothing(seed: int, family: str) -> None:
    """franz-go's client locks commits out while it joins (noCommitDuringJoinAndSync)."""
    waiting = [client(family, gap=100.0, rebalance=P)] * 3
    made = run(
        seed, [client("sarama"), *waiting], Step(60_000, Act.DEAF, 0, 90_000), Step(70_000, Act.START, 3)
    )
    (phase,) = [one for one in made.truth.phases if one.ended_by == "deadline"]
    during = [
        row.record_ts - phase.began
        for row in made.rows
        if row.row_kind == rows.COMMIT_RUN and phase.began < row.record_ts < phase.ended
    ]
    assert all(after < H + 1_000 for after in during)


@FAST
@given(SEEDS)
def test_a_deaf_static_member_is_kept_at_the_join_deadline(seed: int) -> None:
    clients = [client("sarama", instance=f"i{n}") for n in range(4)]
    join = Step(70_000, Act.START, 3)
    made = run(seed, clients, Step(60_000, Act.DEAF, 1, 90_000), join)
    phase = next(one for one in made.truth.phases if one.ended_by == "deadline")
    assert phase.held_by.startswith("i1-")
    after = next(value for value in values(made) if value.generation == phase.generation)
    assert phase.held_by in {member.member_id for member in after.members}
    assert all(gone.cause is not Removed.JOIN_DEADLINE for gone in made.truth.removals)


@FAST
@given(SEEDS)
def test_the_join_deadline_begins_again_when_static_members_alone_are_left_and_none_has_rejoined(
    seed: int,
) -> None:
    clients = [client("sarama", instance=f"i{n}" if n < 2 else None) for n in range(3)]
    deaf = [Step(60_000, Act.DEAF, n, 100_000) for n in range(2)]
    made = run(seed, clients, *deaf, Step(61_000, Act.KILL, 2))
    began = removal(made, 2).at
    phase = next(one for one in made.truth.phases if one.began == began)
    assert phase.ended - phase.began >= 2 * P or phase.ended >= EPOCH + 160_000
    assert all(gone.cause is not Removed.JOIN_DEADLINE for gone in made.truth.removals)


@FAST
@given(SEEDS)
def test_the_join_deadline_empties_a_group_of_dynamic_members_of_which_none_has_rejoined(seed: int) -> None:
    deaf = [Step(60_000, Act.DEAF, n, 100_000) for n in range(2)]
    made = run(seed, [client("sarama")] * 3, *deaf, Step(61_000, Act.KILL, 2))
    began = removal(made, 2).at
    phase = next(one for one in made.truth.phases if one.began == began)
    assert phase.ended - phase.began == pytest.approx(P, abs=1)
    causes = [gone.cause for gone in made.truth.removals if gone.at == phase.ended]
    assert causes == [Removed.JOIN_DEADLINE] * 2


@FAST
@given(SEEDS)
def test_a_newcomer_that_is_removed_after_five_minutes_joins_again_at_once(seed: int) -> None:
    """It waits for one whose rebalance timeout is longer, so that the record of the phase's end has it."""
    clients = [client(poll=400_000, rebalance=400_000)] * 3
    steps = (Step(60_000, Act.STALL, 1, 500_000), Step(63_000, Act.START, 2))
    made = run(seed, clients, *steps, length=600_000)
    new = [gone for gone in made.truth.removals if gone.client == 2 and not gone.seen]
    assert [gone.cause for gone in new] == [Removed.EXPIRED]
    phase = next(one for one in made.truth.phases if one.began < new[0].at < one.ended)
    after = next(value for value in values(made) if value.generation == phase.generation)
    assert len(after.members) == 2


@FAST
@given(SEEDS)
def test_a_replacement_waits_for_the_session_of_the_member_it_replaces(seed: int) -> None:
    join = Step(62_000, Act.START, 2)
    made = run(seed, [client()] * 3, Step(60_000, Act.KILL, 1), join)
    gone = removal(made, 1)
    phase = next(one for one in made.truth.phases if one.ended_by == "removal")
    assert gone.held
    assert not gone.triggered
    assert phase.trigger == "join"
    assert phase.held_by == gone.member
    assert phase.ended == pytest.approx(gone.at, abs=1)


@FAST
@given(SEEDS)
def test_a_member_that_dies_waiting_for_the_phase_expires_a_session_after_its_end(seed: int) -> None:
    # Deaf 1 holds the phase to its deadline; 3 dies in it.
    steps = (Step(60_000, Act.DEAF, 1, 90_000), Step(70_000, Act.START, 3), Step(80_000, Act.KILL, 3))
    made = run(seed, [client("sarama")] * 4, *steps)
    phase = next(one for one in made.truth.phases if one.ended_by == "deadline")
    gone = removal(made, 3)
    assert gone.cause is Removed.EXPIRED
    assert gone.at - phase.ended == pytest.approx(S, abs=5)


@FAST
@given(SEEDS)
def test_a_member_that_never_syncs_is_removed_at_the_sync_deadline(seed: int) -> None:
    steps = (Step(60_000, Act.UNSYNCED, 2, 100_000), Step(61_000, Act.KILL, 1))
    made = run(seed, [client(session=60_000)] * 4, *steps)
    gone = removal(made, 2)
    assert gone.cause in {Removed.SYNC_DEADLINE, Removed.EXPIRED}
    if gone.cause is Removed.SYNC_DEADLINE:
        end = max(one.ended for one in made.truth.phases if one.ended < gone.at)
        assert gone.at - end == pytest.approx(P, abs=5)


@FAST
@given(SEEDS, st.sampled_from(["java", "librdkafka", "sarama"]))
def test_a_closed_member_leaves_at_once_but_a_static_one_expires(seed: int, family: str) -> None:
    clients = [client(family), client(family), client(family, instance="i")]
    made = run(seed, clients, Step(60_000, Act.CLOSE, 1), Step(90_000, Act.CLOSE, 2))
    left, expired = removal(made, 1), removal(made, 2)
    assert left.cause is Removed.LEFT
    assert left.at - EPOCH - 60_000 < 2_000
    assert expired.cause is Removed.EXPIRED
    assert S - H - 500 <= expired.at - EPOCH - 90_000 <= S + 5


@FAST
@given(SEEDS)
def test_a_static_member_that_returns_in_time_starts_no_rebalance(seed: int) -> None:
    clients = [client(instance=f"i{n % 3}") for n in range(4)]
    steps = (Step(60_000, Act.CLOSE, 0), Step(63_000, Act.START, 3))
    made = run(seed, clients, *steps, length=120_000)
    late = [phase for phase in made.truth.phases if phase.began > EPOCH + 50_000]
    assert not late
    last = list(values(made))[-1]
    before = list(values(made))[-2]
    assert last.generation == before.generation
    assert {m.member_id for m in last.members} != {m.member_id for m in before.members}


@FAST
@given(SEEDS)
def test_a_load_gives_everybody_a_full_session(seed: int) -> None:
    broker = BrokerPlan(((60_500, 4_000, Outage.MOVE),), 0)
    made = run(seed, [client()] * 3, Step(60_000, Act.KILL, 1), broker=broker)
    assert removal(made, 1).at - EPOCH == pytest.approx(64_500 + S, abs=5)


@FAST
@given(SEEDS)
def test_a_long_pause_expires_everybody_at_once(seed: int) -> None:
    broker = BrokerPlan(((60_000, 24_000, Outage.PAUSE),), 0)
    made = run(seed, [client()] * 3, broker=broker)
    ends = [one.at - EPOCH for one in made.truth.removals]
    assert len(ends) == 3
    assert all(one.cause is Removed.EXPIRED for one in made.truth.removals)
    assert all(84_000 <= end <= 84_100 for end in ends)


@FAST
@given(SEEDS)
def test_a_short_outage_removes_no_member(seed: int) -> None:
    for kind in Outage:
        made = run(seed, [client()] * 3, broker=BrokerPlan(((60_000, 4_000, kind),), 0))
        assert not made.truth.removals


@FAST
@given(SEEDS)
def test_the_initial_delay_is_for_the_first_join_phase_alone(seed: int) -> None:
    made = run(seed, [client()] * 3, broker=BrokerPlan(initial_delay=3_000))
    first, *others = made.truth.phases
    assert first.ended - first.began >= 3_000
    assert first.ended_by == "delay"
    assert first.members == 3
    assert not others


@FAST
@given(SEEDS, st.sampled_from(["fast", "production"]))
def test_generations_rise_and_states_are_as_kafka_writes_them(seed: int, profile: str) -> None:
    made = simulate(draw_plan(Random(seed), profile), seed)
    if made.plan.broker.outages or made.plan.groups[0].modern:
        return
    last, names = 0, {}
    for value in values(made):
        assert value.generation >= last
        last = value.generation
        assert bool(value.members) == (value.protocol is not None) == (value.leader is not None)
        names.update({member.member_id: value.generation for member in value.members})
        if value.members:
            assert value.leader in {member.member_id for member in value.members}
    for gone in made.truth.removals:
        assert gone.seen == (gone.member in names)
        assert not gone.seen or names[gone.member] <= gone.generation


@FAST
@given(SEEDS)
def test_healthy_groups_lose_no_member_before_they_are_closed(seed: int) -> None:
    made = simulate(draw_plan(Random(seed), "healthy", groups=3), seed)
    lasting = [kind for _, length, kind in made.plan.broker.outages if kind is Outage.PAUSE]
    assert lasting or all(one.fault == "close" for one in made.truth.removals)


@FAST
@given(SEEDS)
def test_removals_lie_on_the_lattice_of_heartbeats(seed: int) -> None:
    # Without commits of its own, a session ends generation + k * h + S.
    plan = client("kafka-python", mode=Mode.PER_POLL)
    made = run(seed, [plan] * 2, Step(60_000, Act.KILL, 1), traffic=0.0)
    facts = [Fact(one.group, one.member, one.cause, one.at) for one in made.truth.removals]
    (seen,) = departures(made.rows, facts)
    beats = (seen.fact.at - S - seen.stored) / H
    assert (beats + 0.01) % 1 < 0.1


@FAST
@given(SEEDS)
def test_a_sarama_client_whose_sync_is_refused_waits_two_seconds_before_it_joins_again(seed: int) -> None:
    """Its first generation is being replicated while the second client joins."""
    slow = BrokerPlan(initial_delay=0, starting=(10_000, 3_000))
    for family, least, most in (("sarama", 2_000, 2_600), ("java", 0, 600)):
        made = run(seed, [client(family, heartbeat=9_000)] * 2, length=30_000, broker=slow)
        phases = [one for one in made.truth.phases if one.trigger == "join" and one.members > 1]
        refused = [one.ended - one.began for one in phases if one.generation == 2]
        assert all(least <= length <= most or length > H for length in refused)


@FAST
@given(SEEDS, st.sampled_from([0.0, 500.0, 650.0]), st.floats(700, 60_000))
def test_an_early_heartbeat_comes_before_the_lattice_and_leaves_it_as_it_is(
    seed: int, early: float, at: float
) -> None:
    beats, plain = (Beats(0.0, H, 10.0, Random(seed), one) for one in (early, 0.0))
    first = plain.first_after(0.0)
    assert beats.first_after(0.0) == (early or first)
    assert beats.first_after(early) == first
    assert beats.last_before(at) == (early if early <= at < first else plain.last_before(at))
