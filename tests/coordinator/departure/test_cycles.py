"""Members that come and go time after time are a storm, whoever they are; deployments are none."""

from dataclasses import replace
from itertools import count

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from rebalance_monitor.coordinator.findings.finding import Finding
from rebalance_monitor.coordinator.findings.kinds import Kind
from tests.coordinator.support.epochs import SETTINGS, Epochs
from tests.coordinator.support.timeline import Client, Topic, findings, in_batches, of

SESSION = 45_000
pods = st.sampled_from(["same", "other host", "all new"])
slow = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])


class Group:
    """A classic group as its members come and go; who replaces another has a name by the kind of `pod`.

    Same: its client id and host (a StatefulSet); other host: its client id; all new: nothing of it.
    """

    def __init__(self, pod: str = "all new") -> None:
        self.pod, self.at, self.members, self.topic = pod, 0, list[Client](), Topic()
        self.ids, self.written = count(), list[str]()

    def __repr__(self) -> str:
        return f"{self.pod}: {self.written}"

    def write(self, wait: int) -> None:
        """Complete a generation of those who are there, `wait` ms after the one before."""
        self.at += wait
        shared = [replace(one, partitions=(place,)) for place, one in enumerate(self.members)]
        self.written.append(f"{self.at / 1000:.0f} s {' '.join(one.member_id for one in self.members)}")
        self.topic.generation(self.at, len(self.written), shared)

    def come(self, before: list[Client | None]) -> None:
        """Start a member in the place of each that was there before."""
        for old in before:
            number = next(self.ids)
            client, host = f"consumer-{number}", f"/10.0.{number // 250}.{number % 250}"
            if old is not None and self.pod != "all new":
                client, host = old.client_id, old.host if self.pod == "same" else host
            self.members.append(Client(f"m-{number}", (), client, host, session=SESSION, rebalance=300_000))

    def go(self, old: list[Client]) -> None:
        self.members = [one for one in self.members if one not in old]

    def roll(self, waiting: list[Client], batch: int, wait: int, *, surge: bool) -> None:
        """Replace those `waiting`, `batch` at a time, the new ones first where it has a `surge`."""
        while waiting:
            old, waiting = waiting[:batch], waiting[batch:]
            for coming in (surge, not surge):
                if coming:
                    self.come(list(old))
                else:
                    self.go(old)
                self.write(wait)

    def crash_loop(self, times: int, comes_after: int) -> None:
        """Start with three, and lose the newest again and again: it is back `comes_after` ms later."""
        self.come([None] * 3)
        self.write(0)
        self.at = 300_000
        for _ in range(times):
            crashing = self.members[-1]
            self.go([crashing])
            self.write(30_000)
            self.come([crashing])
            self.write(comes_after)

    def storms(self) -> list[Finding]:
        return of(findings(self.topic), Kind.STORM)


waits = st.integers(2_000, 25_000)
gaps = st.integers(10_000, 400_000)


@st.composite
def deployments(draw: st.DrawFn) -> Group:
    """A start, and what is done to a healthy group, each thing once but for a rollout and its roll-back."""
    group = Group(draw(pods))
    for _ in range(draw(st.integers(2, 9))):
        group.come([None])
        group.write(draw(waits))
    group.at += draw(gaps)
    grown = draw(st.integers(0, 6))
    for _ in range(grown):
        group.come([None])
        group.write(draw(waits))
    group.at += draw(st.integers(130_000, 400_000))
    batch, surge = draw(st.integers(1, 3)), draw(st.booleans())
    # One that is rolled back halfway has not replaced everybody.
    whole = draw(st.booleans())
    size = len(group.members) if whole else min(len(group.members) - 1, 4)
    wait = draw(waits)
    group.roll(group.members[:size], batch, wait, surge=surge)
    if draw(st.booleans()):
        group.at += draw(gaps)
        group.roll(group.members[-size:], batch, wait, surge=surge)
    group.at += draw(gaps)
    for _ in range(draw(st.integers(0, 3))):
        group.come([None])
        group.write(draw(waits))
    return group


@slow
@given(deployments())
def test_starts_scale_outs_rollouts_and_their_roll_backs_are_no_storm(group: Group) -> None:
    assert group.storms() == []


@pytest.mark.parametrize("surge", [False, True])
@pytest.mark.parametrize(
    "sizes",
    [
        pytest.param([3, 3, 1], id="rolled back halfway, and one drained"),
        pytest.param([2, 2, 2], id="rolled back early, and deployed again"),
        pytest.param([2, 2, 6], id="superseded twice"),
        pytest.param([1, 1, 1, 6], id="superseded three times"),
    ],
)
def test_rollouts_that_supersede_each_other_are_no_storm(sizes: list[int], *, surge: bool) -> None:
    group = Group()
    group.come([None] * 6)
    group.write(1_000)
    group.at += 600_000
    for size in sizes:
        # The newest first: a rollout that is undone.
        group.roll(group.members[-size:], 1, 15_000, surge=surge)
    assert group.storms() == []


@slow
@given(deployments(), st.integers(1, 5), waits)
def test_a_scale_in_after_a_deployment_is_no_storm(group: Group, fewer: int, wait: int) -> None:
    group.at += 300_000
    for _ in range(min(fewer, len(group.members) - 1)):
        group.go(group.members[-1:])
        group.write(wait)
    assert group.storms() == []


@slow
@given(
    stay=st.integers(1, 4),
    size=st.integers(1, 3),
    pod=pods,
    apart=st.tuples(st.booleans(), st.booleans()),
    period=st.integers(30_000, 95_000),
    share=st.floats(0.2, 0.8),
)
@example(stay=2, size=1, pod="other host", apart=(False, False), period=90_000, share=0.3)
@example(stay=3, size=2, pod="all new", apart=(False, False), period=80_000, share=0.5)
def test_members_that_come_and_go_three_times_in_a_window_are_a_storm_whoever_they_are(
    stay: int, size: int, pod: str, apart: tuple[bool, bool], period: int, share: float
) -> None:
    """`apart`: they come, and go, one after the other, or all at once; away for a `share` of the period."""
    group = Group(pod)
    group.come([None] * (stay + size))
    group.write(0)
    group.at = 300_000
    start = group.at
    for cycle in range(8):
        old = group.members[stay:]
        for begin, change, alone in ((0.0, group.go, apart[0]), (share, group.come, apart[1])):
            group.at = start + int((cycle + begin) * period)
            for part in [[one] for one in old] if alone else [old]:
                change(list(part))
                group.write(1_000)
    told = group.storms()
    assert told[0].phase == "opened"
    assert told[0].at - told[0].details["window_ms"] <= group.topic.rows[1].record_ts + 2 * period
    assert of(in_batches(group.topic, list(range(1, len(group.topic.rows), 3))), Kind.STORM) == told


def test_one_flaking_pod_does_not_make_a_storm_of_the_rollout_that_it_is_part_of() -> None:
    """Those that come back after it was lost are others, each once."""
    group = Group("other host")
    group.come([None] * 20)
    group.write(0)
    group.at = 600_000
    group.roll(group.members[:4], 1, 5_000, surge=False)
    for _ in range(2):
        flaking = group.members[-1]
        group.go([flaking])
        group.write(5_000)
        group.come([flaking])
        group.write(5_000)
    group.roll(group.members[:16], 1, 5_000, surge=False)
    assert group.storms() == []


def test_a_scale_out_beside_a_crash_loop_is_not_reported_as_part_of_the_storm() -> None:
    def loop(more: int) -> int:
        group = Group("other host")
        group.crash_loop(4, 30_000)
        for _ in range(more):
            group.members.insert(0, Client(f"more-{len(group.members)}", (), f"more-{len(group.members)}"))
            group.write(3_000)
        group.go(group.members[-1:])
        group.write(30_000)
        return int(group.storms()[-1].details["total"])

    assert loop(0) == loop(6)


def test_the_worst_offender_that_comes_from_another_host_each_time_is_reported_by_its_client_id() -> None:
    group = Group("other host")
    group.crash_loop(8, 15_000)
    told = group.storms()[-1].details
    assert told["worst_client"] == "consumer-2"
    assert told["worst_share"] == 1.0
    assert told["worst_member"] in {f"m-{number}" for number in range(7, 11)}
    assert "worst_host" not in told


@pytest.mark.parametrize(("period", "storms"), [(40_000, True), (90_000, True), (200_000, False)])
def test_an_autoscaler_that_flaps_an_epoch_based_group_is_a_storm(period: int, *, storms: bool) -> None:
    topic, epoch, stays = Epochs(), 1, "stays-000000000000000"
    topic.join(0, stays, epoch, (0, 1))
    for cycle in range(8):
        at = 300_000 + cycle * period
        more = f"{cycle}-more-0000000000000"
        topic.join(at, more, epoch + 1, ())
        topic.ack(at + 500, stays, epoch + 1, (0,))
        topic.leave(at + period // 2, more, epoch + 2)
        topic.target(at + period // 2, epoch + 2)
        topic.ack(at + period // 2 + 500, stays, epoch + 2, (0, 1))
        epoch += 2
    assert bool(of(findings(topic, SETTINGS), Kind.STORM)) is storms
