from dataclasses import replace
from struct import pack

from hypothesis import given, settings
from hypothesis import strategies as st

from rebalance_monitor.coordinator.causes import Cause
from rebalance_monitor.coordinator.findings import CauseEntry, Finding
from rebalance_monitor.coordinator.kinds import Kind
from rebalance_monitor.coordinator.outputs import GroupOut
from rebalance_monitor.coordinator.settings import DetectionSettings
from rebalance_monitor.coordinator.shard import ShardCoordinator, new_shard_state
from tests.coordinator.timeline import T0, P, S, Topic, findings, in_batches, outputs, text

SETTINGS = DetectionSettings(session_timeout_848_ms=S)
TOPIC = bytes(range(16))
A, B = "zgORvoSYQXmmm5n5_hae9Q", "k5AKl_XXSA2_Ho3RQc0IVw"
C = "tXqYc0pVQm2sLr4bDk6eFg"


def compact(value: str | None) -> bytes:
    return b"\0" if value is None else bytes([len(value) + 1]) + value.encode()


class Epochs(Topic):
    """A KIP-848 group's records, as its coordinator writes them."""

    def put(self, at: int, kind: int, value: bytes | None, member: str = "") -> None:
        self.record(at, pack(">h", kind) + text(self.group) + (text(member) if member else b""), value)

    def bump(self, at: int, epoch: int) -> None:
        self.put(at, 3, b"\0\0" + pack(">i", epoch) + b"\0")

    def target(self, at: int, epoch: int) -> None:
        self.put(at, 6, b"\0\0" + pack(">i", epoch) + b"\0")

    def ack(self, at: int, member: str, epoch: int, partitions: tuple[int, ...] = (), state: int = 0) -> None:
        given = TOPIC + bytes([len(partitions) + 1]) + pack(f">{len(partitions)}i", *partitions) + b"\0"
        body = pack(">iib", epoch, epoch - 1, state) + b"\2" + given + b"\1" + b"\0"
        self.put(at, 8, b"\0\0" + body, member)

    def metadata(
        self,
        at: int,
        member: str,
        instance: str | None = None,
        topic: str = "orders",
        classic: int | None = None,
    ) -> None:
        """Describe a member; `classic`: it speaks the classic protocol, with this session timeout (ms)."""
        value = b"\0\0" + compact(instance) + b"\0" + compact("c-" + member[:2]) + compact("/10.0.0.1")
        value += b"\2" + compact(topic) + b"\0" + pack(">i", P) + b"\0"
        own = b"" if classic is None else b"\1" + pack(">i", classic) + b"\1\0"
        value += b"\1\0" + bytes([len(own)]) + own if own else b"\0"
        self.put(at, 5, value, member)

    def join(
        self, at: int, member: str, epoch: int, partitions: tuple[int, ...], instance: str | None = None
    ) -> None:
        self.metadata(at, member, instance)
        self.bump(at, epoch)
        self.target(at, epoch)
        self.ack(at, member, epoch, partitions)

    def leave(self, at: int, member: str, epoch: int | None) -> None:
        for kind in (8, 7, 5):
            self.put(at, kind, None, member)
        if epoch is not None:
            self.bump(at, epoch)


def of(found: list[Finding], kind: Kind) -> list[Finding]:
    return [finding for finding in found if finding.kind is kind]


def pair() -> Epochs:
    """A and B joined one after the other and converged on epoch 2."""
    topic = Epochs()
    topic.join(0, A, 1, (0, 1))
    topic.join(1_000, B, 2, ())
    topic.ack(2_000, A, 2, (0,))
    topic.ack(2_500, B, 2, (1,))
    return topic


def committing(topic: Epochs, first: int, last: int, partition: int) -> None:
    for at in range(first, last + 1, 1_000):
        topic.commit(at, {partition: 5})


def test_two_joins_that_converge_are_one_rebalance_each() -> None:
    first, second = of(findings(pair(), SETTINGS), Kind.REBALANCE)
    assert [entry.cause for entry in first.causes] == [Cause.FIRST_START]
    assert (second.generation, second.previous_generation) == (2, 1)
    assert second.started_at_min == T0 + 1_000
    assert second.join_ms_min == second.join_ms_max == 1_000
    assert [entry.cause for entry in second.causes] == [Cause.MEMBER_JOINED]


def test_a_group_that_starts_again_on_another_topic_is_not_said_to_read_the_one_before() -> None:
    topic = Epochs()
    topic.join(0, A, 1, (0, 1))
    topic.leave(60_000, A, 2)
    topic.metadata(90_000, B, topic="payments")
    topic.bump(90_000, 3)
    topic.target(90_000, 3)
    topic.ack(90_000, B, 3, (0, 1))
    first, second = of(findings(topic, SETTINGS), Kind.REBALANCE)
    assert (first.topics, second.topics) == (("orders",), ("payments",))


def test_epoch_bumps_of_one_convergence_are_one_rebalance() -> None:
    topic = Epochs()
    topic.join(0, A, 1, (0, 1))
    topic.metadata(1_000, B)
    topic.bump(1_000, 2)
    topic.bump(1_100, 3)
    topic.target(1_200, 3)
    topic.ack(1_300, B, 3, (1,), state=2)
    topic.ack(1_400, A, 3, (0,))
    topic.ack(1_500, B, 3, (1,))
    last = of(findings(topic, SETTINGS), Kind.REBALANCE)[-1]
    assert (last.generation, last.details["bumps"]) == (3, 2)


def without_b(at: int) -> Epochs:
    topic = pair()
    committing(topic, 3_000, 40_000, 0)
    committing(topic, 3_100, 20_100, 1)
    topic.leave(at, B, 3)
    topic.target(at + 900, 3)
    topic.ack(at + 900, A, 3, (0, 1))
    sorted_topic = topic.sorted()
    return Epochs(rows=sorted_topic.rows, offset=sorted_topic.offset)


def test_a_killed_member_is_a_session_timeout() -> None:
    found = findings(without_b(20_100 + S + 50), SETTINGS)
    (named,) = of(found, Kind.SESSION_TIMEOUT)
    assert named.members[0].member_id == B


def test_a_stalled_java_member_is_a_poll_breach() -> None:
    found = findings(without_b(20_100 + P + 1_050), SETTINGS)
    (named,) = of(found, Kind.POLL_INTERVAL_EXCEEDED)
    assert named.members[0].member_id == B


def test_a_goodbye_is_no_timeout() -> None:
    found = findings(without_b(20_150), SETTINGS)
    assert of(found, Kind.REBALANCE)[-1].causes[0].cause is Cause.MEMBER_LEFT
    assert not of(found, Kind.SESSION_TIMEOUT)


def behind(*, acknowledged: bool) -> list[CauseEntry]:
    """B, which never commits, is removed seven seconds after C's joining, which it may have acknowledged."""
    topic = pair()
    topic.join(60_000, C, 3, ())
    topic.ack(60_500, A, 3, (0,))
    if acknowledged:
        topic.ack(60_600, B, 3, (1,))
    topic.leave(67_000, B, 4)
    topic.target(67_500, 4)
    topic.ack(67_500, A, 4, (0,))
    topic.ack(67_600, C, 4, (1,))
    last = of(findings(topic, SETTINGS), Kind.REBALANCE)[-1]
    return [entry for entry in last.causes if entry.member_id == B]


def test_who_did_not_acknowledge_an_epoch_that_others_had_was_dead_by_then() -> None:
    dead, alive = behind(acknowledged=False), behind(acknowledged=True)
    assert dead[0].cause is Cause.SESSION_TIMEOUT
    assert dead[0].confidence >= 0.6
    assert all(entry.confidence < 0.6 for entry in alive)


def test_a_member_that_does_not_revoke_in_time_was_fenced_for_that() -> None:
    topic = pair()
    topic.ack(10_000, A, 2, (0,), state=1)
    topic.leave(10_000 + P + 300, A, 3)
    topic.target(20_000, 3)
    topic.ack(20_000, B, 3, (0, 1))
    last = of(findings(topic, SETTINGS), Kind.REBALANCE)[-1]
    assert (last.causes[0].cause, last.causes[0].confidence) == (Cause.JOIN_DEADLINE_MISSED, 0.95)


def test_a_static_member_that_comes_back_without_a_bump_is_replaced_and_no_rebalance() -> None:
    topic = Epochs()
    topic.join(0, A, 1, (0,), instance="s")
    topic.ack(10_000, A, -2, (0,))
    topic.leave(12_000, A, None)
    topic.metadata(12_000, B, "s")
    topic.ack(12_000, B, 1, (0,))
    found = findings(topic, SETTINGS)
    assert len(of(found, Kind.REBALANCE)) == 1
    (replaced,) = of(found, Kind.STATIC_MEMBER_REPLACED)
    assert replaced.details == {"instance_id": "s", "previous_member_id": A}


def test_a_static_member_that_crashed_expired_also_where_it_is_back_before_the_group_has_converged() -> None:
    """Its next instance is refused until its session has ended (UNRELEASED_INSTANCE_ID), and then joins."""
    topic = Epochs()
    topic.join(0, A, 1, (0, 1))
    topic.join(1_000, B, 2, (), instance="s")
    topic.ack(2_000, A, 2, (0,))
    topic.ack(2_500, B, 2, (1,))
    topic.leave(60_000 + S, B, 3)
    topic.join(60_300 + S, C, 4, (1,), instance="s")
    committing(topic, 3_100, 60_000, 1)
    topic.ack(61_000 + S, A, 4, (0,))
    shuffled = topic.sorted()
    found = findings(Epochs(rows=shuffled.rows, offset=shuffled.offset), SETTINGS)
    last = of(found, Kind.REBALANCE)[-1]
    assert [(cause.cause, cause.member_id) for cause in last.causes] == [
        (Cause.MEMBER_JOINED, C),
        (Cause.STATIC_MEMBER_EXPIRED, B),
    ]
    assert [(member.member_id, member.role) for member in last.members[:2]] == [(B, "left"), (C, "joined")]
    (named,) = of(found, Kind.SESSION_TIMEOUT)
    assert named.members[0].member_id == B


def test_a_static_member_that_is_replaced_within_a_convergence_is_still_replaced() -> None:
    topic = Epochs()
    topic.join(0, A, 1, (0, 1))
    topic.join(1_000, B, 2, (), instance="s")
    topic.ack(1_500, B, -2, ())
    topic.leave(1_800, B, None)
    topic.metadata(1_800, C, "s")
    topic.ack(1_800, C, 0, ())
    topic.ack(1_800, C, 2, (1,))
    topic.ack(2_000, A, 2, (0,))
    last = of(findings(topic, SETTINGS), Kind.REBALANCE)[-1]
    assert [member.role for member in last.members] == ["replaced", "kept"]


def test_the_last_member_leaves_an_empty_group_and_the_next_one_resolves_it() -> None:
    topic = Epochs()
    topic.join(0, A, 1, (0,))
    topic.leave(10_000, A, 2)
    topic.join(60_000, B, 3, (0,))
    opened, resolved = of(findings(topic, SETTINGS), Kind.GROUP_EMPTY)
    assert (opened.phase, resolved.phase) == ("opened", "resolved")
    assert resolved.incident == opened.id


def test_the_tombstone_of_the_group_removes_it() -> None:
    topic = Epochs()
    topic.join(0, A, 1, (0,))
    topic.leave(10_000, A, 2)
    topic.put(60_000, 3, None)
    assert len(of(findings(topic, SETTINGS, until=5_000), Kind.GROUP_REMOVED)) == 1


def test_the_summary_names_state_and_epoch() -> None:
    last = [out for out in outputs(pair(), SETTINGS, until=10_000) if isinstance(out, GroupOut)][-1]
    assert (last.summary["state"], last.summary["generation"], last.summary["members"]) == ("Stable", 2, 2)


@settings(deadline=None, max_examples=30)
@given(st.lists(st.integers(0, 60), max_size=6), st.sampled_from([20_150, 26_200, 29_150]))
def test_cutting_into_batches_changes_nothing(cuts: list[int], at: int) -> None:
    topic = without_b(at)
    inside = [cut for cut in cuts if cut < len(topic.rows)]
    assert in_batches(topic, inside, clocks=False) == in_batches(topic, [], clocks=False)


def test_a_group_that_does_not_converge_is_stuck_and_names_who_has_not_acknowledged() -> None:
    topic = pair()
    topic.bump(10_000, 3)
    topic.target(10_100, 3)
    topic.ack(10_200, A, 3, (0,))
    stuck = of(findings(topic, SETTINGS, until=90_000), Kind.REBALANCE_STUCK)
    assert [(found.phase, found.evidence) for found in stuck] == [("opened", "read")]
    assert [member.member_id for member in stuck[0].members] == [B]
    topic.ack(95_000, B, 3, (1,))
    resolved = of(findings(topic, SETTINGS), Kind.REBALANCE_STUCK)[-1]
    assert (resolved.phase, resolved.resolution) == ("resolved", "completed")


def test_a_member_that_has_to_revoke_passes_its_rebalance_deadline_and_is_confirmed_when_fenced() -> None:
    topic = pair()
    topic.bump(10_000, 3)
    topic.target(10_100, 3)
    topic.ack(10_200, A, 2, (0,), state=1)
    topic.leave(10_200 + P + 3_000, A, 4)
    opened, resolved = of(findings(topic, SETTINGS), Kind.MEMBER_SILENT)
    assert (opened.details["deadline"], opened.at) == ("rebalance", T0 + 10_200 + P)
    assert opened.causes[0].cause is Cause.JOIN_DEADLINE_MISSED
    assert resolved.resolution == "confirmed"


def test_a_member_that_acknowledges_in_the_end_was_only_slow() -> None:
    topic = pair()
    topic.bump(10_000, 3)
    topic.target(10_100, 3)
    topic.ack(10_200, A, 2, (0,), state=1)
    topic.ack(10_200 + P + 3_000, A, 3, (0,))
    assert of(findings(topic, SETTINGS), Kind.MEMBER_SILENT)[-1].resolution == "withdrawn"


def test_the_session_deadline_of_an_epoch_based_group_is_marked_as_assumed() -> None:
    topic = pair()
    for at in range(3_000, 30_000, 1_000):
        topic.commit(at, {0: 5})
        topic.commit(at, {1: 5})
    for at in range(30_000, 45_000, 1_000):
        topic.commit(at, {0: 5})
    told = replace(SETTINGS, known=("session_timeout_848_ms",))
    assert of(findings(topic, told), Kind.MEMBER_SILENT)[0].details["assumed"] == 0
    own = of(findings(topic, replace(SETTINGS, session_timeouts=(("g", 4_000),))), Kind.MEMBER_SILENT)[0]
    assert (own.details["assumed"], own.details["session_timeout_ms"]) == (0, 4_000)
    silent = of(findings(topic, SETTINGS), Kind.MEMBER_SILENT)
    assert [found.details["deadline"] for found in silent] == ["session", "poll"]
    assert [found.details["assumed"] for found in silent] == [1, 0]
    assert silent[0].members[0].member_id == B


def test_members_get_the_session_timeout_that_is_known_by_now_but_for_those_with_their_own() -> None:
    topic = pair()
    own = b"\1" + pack(">i", 12_000) + b"\1\0"
    value = b"\0\0" + compact(None) + b"\0" + compact("c") + compact("/10.0.0.1") + b"\2" + compact("orders")
    topic.put(5_000, 5, value + b"\0" + pack(">i", P) + b"\0" + b"\1\0" + bytes([len(own)]) + own, C)
    state = new_shard_state(7, 0, None)
    before = ShardCoordinator(state, SETTINGS, "c1")
    for row in topic.rows:
        before.on_row(row)
    before.on_clock(T0 + 6_000)
    after = ShardCoordinator(state, replace(SETTINGS, session_timeouts=(("g", 4_000),)), "c1")
    state.groups["g"].wake = 0
    (out,) = [one for one in after.on_clock(T0 + 12_000) if isinstance(one, GroupOut)]
    sessions = {one["member_id"]: one["session_timeout_ms"] for one in out.summary["member_list"]}
    assert sessions == {A: 4_000, B: 4_000, C: 12_000}


def hashed(topic: Epochs, at: int, epoch: int, digest: int) -> None:
    topic.put(at, 3, b"\0\0" + pack(">i", epoch) + b"\1\0\x08" + pack(">q", digest))


def settle(topic: Epochs, at: int, epoch: int) -> Finding:
    topic.target(at, epoch)
    topic.ack(at, A, epoch, (0,))
    topic.ack(at, B, epoch, (1,))
    return of(findings(topic, SETTINGS), Kind.REBALANCE)[-1]


def test_what_changed_where_no_member_came_or_went_is_told_by_hash_and_subscription() -> None:
    topic = pair()
    hashed(topic, 60_000, 3, 77)
    settle(topic, 60_100, 3)
    hashed(topic, 90_000, 4, 78)
    assert settle(topic, 90_100, 4).causes[0].cause is Cause.PARTITIONS_CHANGED
    value = (
        b"\0\0\0\0" + compact("c-zg") + compact("/10.0.0.1") + b"\3" + compact("orders") + compact("bills")
    )
    topic.put(120_000, 5, value + b"\0" + pack(">i", P) + b"\0\0", A)
    hashed(topic, 120_000, 5, 79)
    found = settle(topic, 120_100, 5)
    assert [(entry.cause, entry.member_id) for entry in found.causes] == [(Cause.SUBSCRIPTION_CHANGED, A)]


def test_topics_that_are_noted_anew_tell_why_up_to_kafka_4_0_where_no_hash_does() -> None:
    topic = pair()
    topic.put(90_000, 4, b"\0\0\1\0")
    topic.bump(90_000, 3)
    cause = settle(topic, 90_100, 3).causes[0]
    assert (cause.cause, cause.confidence) == (Cause.PARTITIONS_CHANGED, 0.85)


def test_members_that_only_join_are_never_a_storm() -> None:
    topic = Epochs()
    for epoch in range(1, 12):
        topic.join(5_000 * epoch, f"member-{epoch}", epoch, (epoch,))
        for other in range(1, epoch):
            topic.ack(5_000 * epoch + 500, f"member-{other}", epoch, (other,))
    found = findings(topic, SETTINGS)
    assert len(of(found, Kind.REBALANCE)) == 11
    assert not of(found, Kind.STORM)


def test_a_static_member_that_announced_its_departure_and_stays_away_expired() -> None:
    topic = Epochs()
    topic.join(0, A, 1, (0,), instance="s")
    topic.join(500, B, 2, (1,))
    topic.ack(900, A, 2, (0,))
    topic.ack(10_000, A, -2, (0,))
    topic.leave(10_000 + S, A, 3)
    topic.target(18_000, 3)
    topic.ack(18_000, B, 3, (0, 1))
    cause = of(findings(topic, SETTINGS), Kind.REBALANCE)[-1].causes[0]
    assert (cause.cause, cause.instance_id) == (Cause.STATIC_MEMBER_EXPIRED, "s")
    assert "after it announced its departure" in cause.why


def test_departures_from_a_group_that_never_converges_are_a_storm() -> None:
    topic, epoch = pair(), 2
    topic.join(10_000, C, 3, ())
    topic.ack(10_100, A, 2, (0,), state=1)
    for loop in range(20):
        epoch += 2
        topic.leave(15_000 + 8_000 * loop, B, epoch)
        topic.join(18_000 + 8_000 * loop, B, epoch + 1, (1,))
    opened = of(findings(topic, SETTINGS), Kind.STORM)[0]
    assert (opened.phase, opened.details["worst_member"]) == ("opened", B)
    assert opened.at <= T0 + 15_000 + 5 * 8_000


def test_convergences_in_which_a_member_leaves_and_returns_count_twice_towards_a_storm() -> None:
    topic, epoch = pair(), 2
    for loop in range(3):
        at = 40_000 + 20_000 * loop
        topic.leave(at, B, epoch + 1)
        topic.join(at + 2_000, B, epoch + 2, (1,))
        topic.ack(at + 3_000, A, epoch + 2, (0,))
        epoch += 2
    storm = of(findings(topic, SETTINGS), Kind.STORM)
    assert storm[0].details["count"] == 5
    assert storm[0].at == T0 + 80_000
    assert storm[0].details["worst_member"] == B
