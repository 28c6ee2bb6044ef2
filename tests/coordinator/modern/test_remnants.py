"""Members of epoch-based groups whose tombstones were cleaned away while nobody read."""

from rebalance_monitor.checkpoints.state.codec import decode_state, encode_state
from rebalance_monitor.coordinator.findings.finding import Finding
from rebalance_monitor.coordinator.findings.kinds import Kind
from rebalance_monitor.coordinator.findings.outputs import FindingOut, Output
from rebalance_monitor.coordinator.settings import DetectionSettings
from rebalance_monitor.coordinator.shard import ShardCoordinator, new_shard_state
from rebalance_monitor.coordinator.state.group_state import GroupState
from rebalance_monitor.coordinator.state.state_machine import Status
from tests.coordinator.support.epochs import A, B, C, Epochs, pair
from tests.coordinator.support.timeline import T0, P, S, of

DAY = 86_400_000
BACK = 3 * DAY


def resumed(
    topic: Epochs, cleaned: range, *, until: int, always_on: tuple[str, ...] = ()
) -> tuple[GroupState, list[Finding]]:
    """Read what is before the `cleaned` rows, and at `BACK` what is after them; clocks end at `until`."""
    settings = DetectionSettings(session_timeout_848_ms=S, always_on=always_on)
    before = ShardCoordinator(new_shard_state(7, 0, None), settings, "c1")
    for row in topic.rows[: cleaned.start]:
        before.on_row(row)
    before.on_clock(T0 + 10_000)
    state = decode_state(encode_state(before.state))
    state.resumed_at = T0 + BACK
    after = ShardCoordinator(state, settings, "c1", topic.rows[-1].last_offset + 1)
    out: list[Output] = []
    for row in topic.rows[cleaned.stop :]:
        out += after.on_row(row)
    for now in range(BACK, until, 1_000):
        out += after.on_clock(T0 + now)
    return after.state.groups["g"], [one.finding for one in out if isinstance(one, FindingOut)]


def replaced(at: int) -> tuple[Epochs, range]:
    """B leaves at `at`, and C comes; also gives the rows of the tombstones."""
    topic = pair()
    first = len(topic.rows)
    topic.leave(at, B, 3)
    topic.join(at + 500, C, 4, (1,))
    topic.ack(at + 600, A, 4, (0,))
    return topic, range(first, first + 3)


def test_a_group_does_not_wait_for_a_member_whose_tombstones_were_cleaned_away_unread() -> None:
    state, found = resumed(*replaced(DAY), until=BACK + 90_000)
    assert (state.status, [member.member_id for member in state.members]) == (Status.STABLE, [A, C])
    assert not of(found, Kind.REBALANCE_STUCK)
    assert (state.epochs.stable, state.changes.bumps, state.changes.newcomers) == (4, 0, set())


def test_it_is_gone_once_no_coordinator_would_have_kept_it_and_not_before() -> None:
    topic, cleaned = replaced(BACK - 500)
    state, _ = resumed(topic, cleaned, until=BACK + S + P)
    assert B in {member.member_id for member in state.members}
    state, found = resumed(topic, cleaned, until=BACK + 90_000)
    assert B not in {member.member_id for member in state.members}
    assert not of(found, Kind.REBALANCE_STUCK)


def test_a_member_whose_description_was_not_read_is_kept_for_the_rebalance_timeout_of_others() -> None:
    """Its own is not known: that is not zero."""
    topic, cleaned = replaced(BACK - 500)
    described = next(place for place, row in enumerate(topic.rows) if row.record_ts == T0 + 1_000)
    del topic.rows[described]
    cleaned = range(cleaned.start - 1, cleaned.stop - 1)
    state, _ = resumed(topic, cleaned, until=BACK + S + P - 1_000)
    assert B in {member.member_id for member in state.members}
    state, _ = resumed(topic, cleaned, until=BACK + 90_000)
    assert B not in {member.member_id for member in state.members}


def test_where_no_record_is_missing_a_member_that_does_not_acknowledge_is_waited_for() -> None:
    topic = pair()
    first = len(topic.rows)
    topic.join(DAY, C, 3, ())
    topic.ack(DAY + 500, A, 3, (0,))
    state, found = resumed(topic, range(first, first), until=BACK + 90_000)
    assert B in {member.member_id for member in state.members}
    assert [one.members[0].member_id for one in of(found, Kind.REBALANCE_STUCK)] == [B]


def test_a_group_that_should_have_members_stands_empty_once_the_last_one_is_seen_to_be_gone() -> None:
    topic = pair()
    first = len(topic.rows)
    topic.leave(DAY, A, None)
    topic.leave(DAY + 1_000, B, 4)
    state, found = resumed(topic, range(first, first + 6), until=BACK + 5_000, always_on=("g",))
    assert state.status is Status.EMPTY
    assert [one.phase for one in of(found, Kind.GROUP_EMPTY)] == ["opened"]
