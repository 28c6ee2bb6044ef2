"""What keeps a storm open, whom it names, and how its numbers go together."""

from itertools import pairwise

from rebalance_monitor.coordinator.findings.finding import Finding
from rebalance_monitor.coordinator.findings.kinds import Kind
from rebalance_monitor.coordinator.settings import DetectionSettings
from tests.coordinator.storms.test_storms import crash_loop
from tests.coordinator.support.epochs import A, Epochs
from tests.coordinator.support.timeline import T0, Client, Topic, findings, of

QUIET_MS = DetectionSettings().storm_quiet_ms
THRESHOLD = DetectionSettings().storm_threshold


def fleet(size: int, host: str = "") -> list[Client]:
    return [Client(f"m{n}-1", (n,), f"consumer-{n}", host or f"/10.0.0.{n}") for n in range(size)]


def drain(topic: Topic, members: list[Client], times: int, every: int, first: int, generation: int) -> None:
    """Close one member after the other and let its successor come, on another host, 8 s later."""
    for turn in range(times):
        at, place = first + turn * every, turn % len(members)
        topic.generation(at, generation + 2 * turn, [one for one in members if one is not members[place]])
        members[place] = Client(f"m{place}-{turn + 100}", (place,), f"consumer-{place}", f"/10.0.{turn}.1")
        topic.generation(at + 8_000, generation + 2 * turn + 1, members)


def storm(topic: Topic, until: int = 0) -> list[Finding]:
    return of(findings(topic, until=until), Kind.STORM)


def test_a_storm_is_over_after_quiet_though_others_are_replaced_one_by_one() -> None:
    alone = storm(crash_loop(8), 700_000)
    followed = crash_loop(8)
    members = [Client(f"m{n}-1", (n,), f"consumer-{n}", f"/10.0.0.{n}") for n in range(2)]
    drain(followed, [*members, Client("m2-9", (2,), "consumer-2", "/10.0.0.2")], 21, 240_000, 400_000, 18)
    told = storm(followed, 6_000_000)
    assert [(one.phase, one.at) for one in told] == [(one.phase, one.at) for one in alone]
    assert told[-1].resolution == "quiet"
    assert told[-1].at < T0 + 400_000 + QUIET_MS


def test_failed_generations_have_no_offender_and_more_of_them_are_the_next_update() -> None:
    topic, members = Topic(), fleet(3)
    topic.generation(0, 1, members)
    topic.generation(120_000, 2, members[:2])
    topic.generation(200_000, 23, members[:2])
    (opened,) = storm(topic, 300_000)
    assert (opened.details["completed"], opened.details["failed"]) == (0, 20)
    assert "worst_client" not in opened.details


def test_a_calm_roll_out_within_a_storm_is_not_published_as_more_of_it() -> None:
    topic, members = Topic(), fleet(8)
    topic.generation(0, 1, members)
    topic.generation(100_000, 100, members)
    drain(topic, members, 8, 20_000, 130_000, 101)
    told = storm(topic, 1_000_000)
    assert [one.phase for one in told] == ["opened", "resolved"]
    assert told[-1].details["total"] == 99


def test_what_counts_in_the_window_is_never_more_than_the_total() -> None:
    """A client that is lost again makes what was noted of it before count."""
    topic, members, number, at = Topic(), fleet(8, "/10.0.0.9"), 7, 100_000
    members = [Client(one.member_id, one.partitions, "orders", one.host) for one in members]
    topic.generation(0, 1, members)
    topic.generation(at, number, members)
    for turn, place in enumerate([0, 1, 2, 3, 3, 3, 3]):
        at += 15_000
        topic.generation(at, number + 1, [one for one in members if one is not members[place]])
        members[place] = Client(f"m{place}-{turn + 2}", (place,), "orders", "/10.0.0.9")
        topic.generation(at + 5_000, number + 2, members)
        number += 2
    told = [one for one in storm(topic, 600_000) if one.phase != "resolved"]
    assert len(told) > 2
    for one in told:
        assert int(one.details["count"]) <= int(one.details["total"])
    for before, after in pairwise(told):
        assert int(after.details["total"]) // THRESHOLD > int(before.details["total"]) // THRESHOLD


def test_a_group_that_has_not_converged_since_it_is_watched_storms_as_well() -> None:
    """The monitor began in the middle of it: the oldest member has been there for long."""
    # Of which only the newest record of each kind is left.
    for watched_for, told in ((600_000, ["opened"]), (10_000, [])):
        topic = Epochs()
        topic.metadata(0, A)
        topic.bump(0, 2)
        for turn in range(6):
            member, at = f"loops-{turn:016d}", watched_for + turn * 2_000
            topic.join(at, member, 3 + 2 * turn, ())
            topic.leave(at + 1_000, member, 4 + 2 * turn)
        assert [one.phase for one in storm(topic)] == told


def test_a_deployment_whose_last_old_member_goes_after_its_successor_came_is_a_rolling_restart() -> None:
    """In an epoch-based group the last departure is noted when it happens; the convergence tells of it."""
    topic, epoch, size = Epochs(), 0, 4
    old = [f"old-{number:018d}" for number in range(size)]
    new = [f"new-{number:018d}" for number in range(size)]
    there: list[str] = []

    def converge(at: int) -> None:
        topic.target(at, epoch)
        for member in there:
            topic.ack(at, member, epoch)

    for number, member in enumerate(old):
        epoch += 1
        topic.join(1_000 * number, member, epoch, ())
        there.append(member)
        converge(1_000 * number + 500)
    for number, member in enumerate(new):
        at = 600_000 + 20_000 * number
        epoch += 1
        topic.join(at, member, epoch, ())
        there.append(member)
        converge(at + 2_000)
        epoch += 1
        topic.leave(at + 8_000, old[number], epoch)
        there.remove(old[number])
        converge(at + 10_000)
    for number, member in enumerate(new[1:]):
        at = 720_000 + 1_000 * number
        epoch += 1
        topic.leave(at, member, epoch)
        there.remove(member)
        converge(at + 500)
    told = findings(topic, until=300_000)
    (restart,) = of(told, Kind.ROLLING_RESTART)
    assert restart.details["restarted"] == size
    assert of(told, Kind.STORM) == []


def begun(topic: Epochs, at: int, epoch: int, members: list[str]) -> int:
    """Let the members of an epoch-based group join and converge; return the epoch."""
    for number, member in enumerate(members):
        epoch += 1
        topic.join(at + number, member, epoch, ())
    for number, member in enumerate(members):
        topic.ack(at + 5_000 + number, member, epoch, (number,))
    return epoch


def ended(topic: Epochs, at: int, epoch: int, members: list[str], apart: int) -> int:
    """Let the members leave, so many ms apart; return the epoch."""
    for number, member in enumerate(members):
        epoch += 1
        topic.leave(at + apart * number, member, epoch)
    return epoch


def test_an_epoch_based_group_that_closes_soon_after_its_broker_was_away_is_no_storm() -> None:
    topic, lives = Epochs(), [[f"p{n}{life}Yc0pVQm2sLr4bDk6eFg" for n in range(6)] for life in "AB"]
    epoch = begun(topic, 0, 0, lives[0])
    for second in range(10, 556):
        topic.commit(1_000 * second, dict.fromkeys(range(6), second))
    epoch = ended(topic, 600_000, epoch, lives[0], 1)
    epoch = begun(topic, 602_000, epoch, lives[1])
    ended(topic, 700_000, epoch, lives[1], 1_000)
    assert storm(topic, 720_000) == []


def test_an_epoch_based_group_whose_members_come_back_each_time_is_a_storm() -> None:
    topic, members = Epochs(), [f"A{n}qYc0pVQm2sLr4bDk6eFg" for n in range(3)]
    epoch = begun(topic, 0, 0, [A, *members])
    for turn in range(6):
        at = 600_000 + 20_000 * turn
        epoch = ended(topic, at, epoch, members, 500)
        members = [f"{turn}{n}qYc0pVQm2sLr4bDk6eFg" for n in range(3)]
        epoch = begun(topic, at + 4_000, epoch, members)
        topic.ack(at + 9_500, A, epoch, (4,))
    assert [one.phase for one in storm(topic, 750_000)][:1] == ["opened"]
