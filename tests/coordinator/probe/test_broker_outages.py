"""What a broker does to its groups when it is back from an absence is one finding of the broker."""

import json
from collections.abc import Iterable

import pytest

from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.finding import Finding
from rebalance_monitor.coordinator.findings.kinds import Kind, Severity
from rebalance_monitor.coordinator.findings.outputs import FindingOut, StatOut, served
from rebalance_monitor.coordinator.live import Live
from rebalance_monitor.coordinator.probe.sample import ProbeSample
from rebalance_monitor.coordinator.probe.visibility import dead_partitions
from rebalance_monitor.coordinator.settings import DetectionSettings
from rebalance_monitor.coordinator.shard import ShardCoordinator, new_shard_state
from rebalance_monitor.decoders import coordinator_partition
from tests.coordinator.support.timeline import T0, Client, Topic, of

SETTINGS = DetectionSettings()
AWAY, BACK = 60_000, 84_000
GROUPS = [f"g{number}" for number in range(12)]


def members(group: str, life: str = "a") -> list[Client]:
    return [Client(f"{group}-{n}{life}", (n,), f"c{n}", f"/10.0.0.{n}", session=10_000) for n in range(2)]


def topic(back: Iterable[str]) -> Topic:
    """All groups lose all members as the broker wakes, and those of `back` have them again 5 s later."""
    made = Topic()
    for group in GROUPS:
        made.group = group
        made.generation(0, 1, members(group))
        for at in range(1_000, AWAY, 1_000):
            made.commit(at, {0: at, 1: at})
        made.generation(BACK + 50, 2, [])
        if group in set(back):
            made.generation(BACK + 5_000, 3, members(group, "b"))
    return made.sorted()


def told(
    back: Iterable[str], *, nobody: bool, since: int = AWAY, until: int = 300_000, again: int = -1
) -> list[Finding]:
    """Looks once a second at two brokers, of which the first, or both, do not answer from `since` to BACK.

    And once more from `again` on.
    """
    shard = ShardCoordinator(new_shard_state(7, 0, None), SETTINGS, "c1")
    live, found, rows = Live(SETTINGS, "c1"), [], topic(back).rows
    for now in range(1_000, until, 1_000):
        out = [one for row in rows if now - 1_000 <= row.record_ts - T0 < now for one in shard.on_row(row)]
        out += shard.on_clock(T0 + now)
        away = since <= now < BACK or 0 <= again <= now
        brokers = ((-1, False),) if away and nobody else ((1, not away), (2, True))
        looks = [ProbeSample(T0 + now, (), ((7, 1, 1),), brokers)]
        read = [one.finding for one in out if isinstance(one, FindingOut)]
        found += live.on_samples(looks, {}, read, {7: shard.state.now}) + live.refine(read)
        live = Live(SETTINGS, "c1", json.loads(json.dumps(live.snapshot())))
    return found


@pytest.mark.parametrize("nobody", [False, True])
def test_a_broker_that_was_paused_is_one_finding_and_no_member_is_blamed(*, nobody: bool) -> None:
    found = told(GROUPS, nobody=nobody)
    opened, *_, resolved = of(found, Kind.BROKER_AWAY)
    assert (opened.phase, opened.severity, opened.groups_total) == ("opened", Severity.WARNING, len(GROUPS))
    assert (opened.details["broker"], opened.details["silent_ms"]) == (1, BACK - AWAY)
    assert (resolved.phase, resolved.incident) == ("resolved", opened.id)
    assert not of(found, Kind.SESSION_TIMEOUT)
    empty = [one for one in of(found, Kind.GROUP_EMPTY) if one.phase == "opened"]
    assert {(one.severity, one.causes[0].cause) for one in empty} == {(Severity.INFO, Cause.BROKER_AWAY)}
    # What the model says of the members stays: their sessions expired, and this is why.
    for one in empty:
        assert [cause.confidence for cause in one.causes] == sorted(
            (cause.confidence for cause in one.causes), reverse=True
        )
        assert max(cause.confidence for cause in one.causes if cause.cause is Cause.SESSION_TIMEOUT) >= 0.8


@pytest.mark.parametrize(("lost", "severity"), [(1, Severity.WARNING), (3, Severity.CRITICAL)])
def test_that_is_not_back_is_named_and_more_than_a_tenth_of_the_groups_is_critical(
    lost: int, severity: Severity
) -> None:
    found = of(told(GROUPS[lost:], nobody=False, until=120_000), Kind.BROKER_AWAY)
    assert [one.phase for one in found] == ["opened", "updated"]
    assert (found[-1].severity, found[-1].details["not_back"]) == (severity, lost)
    assert found[-1].groups[:lost] == tuple(GROUPS[:lost])


def test_an_outage_ends_within_the_hour_even_if_groups_are_not_back() -> None:
    found = of(told(GROUPS[3:], nobody=False, until=4_000_000), Kind.BROKER_AWAY)
    assert [one.phase for one in found] == ["opened", "updated", "resolved"]
    assert (found[-1].resolution, found[-1].details["not_back"]) == ("expired", 3)


def test_the_next_absence_of_a_broker_ends_what_is_open_of_the_one_before() -> None:
    found = of(told(GROUPS[3:], nobody=False, again=200_000), Kind.BROKER_AWAY)
    assert [one.phase for one in found] == ["opened", "updated", "resolved"]
    assert found[-1].at - T0 < 203_000


def test_a_broker_that_misses_one_sample_explains_nothing() -> None:
    live = Live(SETTINGS, "c1")
    looks = [ProbeSample(T0 + at, (), ((7, 1, 1),), ((1, at != 5_000),)) for at in range(0, 60_000, 1_000)]
    assert live.on_samples(looks) == []


def test_a_broker_that_does_not_answer_as_the_monitor_returns_explains_no_later_loss() -> None:
    """How long it was away is not known: the monitor was away itself."""
    looks = [*range(0, 50_000, 1_000), *range(650_000, 700_000, 1_000)]
    topic = Topic("g")
    topic.generation(0, 1, members("g"))
    for at in range(1_000, 655_000, 1_000):
        topic.commit(at, {0: at, 1: at})
    topic.generation(666_000, 2, [])
    shard, live = ShardCoordinator(new_shard_state(7, 0, None), SETTINGS, "c1"), Live(SETTINGS, "c1")
    found, rows = [], topic.rows
    for now in looks:
        read = [row for row in rows if row.record_ts - T0 < now]
        rows = rows[len(read) :]
        out = [one for row in read for one in shard.on_row(row)] + shard.on_clock(T0 + now)
        sample = ProbeSample(T0 + now, (), ((7, 1, 1),), ((1, not 650_000 <= now < 653_000), (2, True)))
        said = [one.finding for one in out if isinstance(one, FindingOut)]
        found += live.on_samples([sample], {}, said, {7: shard.state.now}) + live.refine(said)
        live = Live(SETTINGS, "c1", json.loads(json.dumps(live.snapshot())))
    assert of(found, Kind.GROUP_EMPTY)
    assert not of(found, Kind.BROKER_AWAY)
    assert not [one for one in found if any(cause.cause is Cause.BROKER_AWAY for cause in one.causes)]


def test_an_absence_too_short_for_any_session_explains_no_expiry() -> None:
    """The monitor's own network may fail for some seconds, while members die for another reason."""
    found = told((), nobody=True, since=BACK - 4_000, until=120_000)
    empty = [one for one in of(found, Kind.GROUP_EMPTY) if one.phase == "opened"]
    assert len(empty) == len(GROUPS)
    assert not of(found, Kind.BROKER_AWAY)
    assert not [one for one in found if any(cause.cause is Cause.BROKER_AWAY for cause in one.causes)]


@pytest.mark.parametrize("brokers", [(1,), (1, 2)])
@pytest.mark.parametrize("shown", ["nothing", "a generation", "commits"])
def test_a_cut_of_the_monitors_own_network_explains_no_loss(shown: str, brokers: tuple[int, ...]) -> None:
    """Longer than a session, read only afterwards. What one group did meanwhile shows what it was.

    The second broker has no group, so nothing but the first one's commits can speak for it.
    """
    found = told_after_a_cut(cut_topic(shown), brokers)
    blamed = [one for one in found if any(cause.cause is Cause.BROKER_AWAY for cause in one.causes)]
    assert bool(blamed) is bool(of(found, Kind.BROKER_AWAY)) is (shown == "nothing")
    whys = [cause.why for one in found for cause in one.causes]
    assert any("its broker had not responded" in why for why in whys) <= (shown == "nothing")


def cut_topic(shown: str) -> Topic:
    """Every group loses its members while the monitor is cut off; `g5` keeps one and says so as `shown`.

    A paused broker writes nothing before it goes on.
    """
    made = Topic()
    for group in GROUPS:
        made.group = group
        made.generation(0, 1, members(group))
        stays = group == "g5" and shown != "nothing"
        for at in range(1_000, BACK + 30_000 if stays and shown == "commits" else AWAY, 1_000):
            made.commit(at, {0: at, 1: at})
        if not stays:
            made.generation(BACK + 50 if shown == "nothing" else AWAY + 12_000, 2, [])
        elif shown == "a generation":
            made.generation(AWAY + 12_000, 2, members(group)[:1])
    return made.sorted()


def told_after_a_cut(topic: Topic, brokers: tuple[int, ...]) -> list[Finding]:
    """Neither records nor brokers are seen from AWAY to BACK."""
    rows, found = topic.rows, []
    shard, live = ShardCoordinator(new_shard_state(7, 0, None), SETTINGS, "c1"), Live(SETTINGS, "c1")
    for now in range(1_000, BACK + 60_000, 1_000):
        cut = AWAY <= now < BACK
        read = [] if cut else [row for row in rows if row.record_ts - T0 < now]
        rows = rows[len(read) :]
        out = [] if cut else [one for row in read for one in shard.on_row(row)] + shard.on_clock(T0 + now)
        answers = ((-1, False),) if cut else tuple((one, True) for one in brokers)
        looks = [ProbeSample(T0 + now, (), ((7, 1, 1),), answers)]
        said = [one.finding for one in out if isinstance(one, FindingOut)]
        found += live.on_samples(looks, {}, said, {7: shard.state.now})
        found += live.refine(said, served=served(one for one in out if isinstance(one, StatOut)))
        live = Live(SETTINGS, "c1", json.loads(json.dumps(live.snapshot())))
    return found


def test_a_partition_of_whose_groups_none_is_listed_is_dead_unless_nothing_is_listed() -> None:
    groups = [f"group-{number}" for number in range(500)]
    dead = {name for name in groups if coordinator_partition(name, 50) == 13}
    assert dead_partitions(groups, set(groups) - dead, 50) == {13: len(dead)}
    assert dead_partitions(groups, set(groups), 50) == dead_partitions(groups, set(), 50) == {}
