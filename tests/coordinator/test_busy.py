"""Who went while those that stayed were in a long batch: records fit a leave and an expiry, looks tell which.

The groups are drawn by the rules of Java's client and the coordinator: a member commits within its polls, at
its interval and as it rejoins or closes; it rejoins in the poll after it has heard of the rebalance; the
barrier ends once nobody is waited for; who leaves is gone at once, and who dies when its session ends.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from rebalance_monitor.coordinator.causes import Cause
from rebalance_monitor.coordinator.kinds import Kind
from rebalance_monitor.coordinator.live import Live
from rebalance_monitor.coordinator.looked import LISTED, LOOKED
from rebalance_monitor.coordinator.settings import DetectionSettings
from rebalance_monitor.coordinator.sightings import SeenGroup, Sighting
from tests.coordinator.timeline import T0, Client, Topic, findings, in_batches, of

if TYPE_CHECKING:
    from rebalance_monitor.coordinator.findings import CauseEntry, Finding

CLAIM, SURE = 0.6, 0.7
# Session, rebalance timeout, commit and heartbeat interval (ms): the defaults, Java's old ones, the lab's.
TIMES = [
    (45_000, 300_000, 5_000, 3_000),
    (10_000, 300_000, 5_000, 3_000),
    (6_000, 80_000, 1_000, 1_000),
    (6_000, 8_000, 1_000, 1_000),
]
quick = settings(max_examples=60, deadline=None)


@dataclass
class Scene:
    """One barrier; times in ms. The batch of `busy` begins at `batch`, others poll all the time.

    `closed` and `killed`: member -> when. `back`: how long after the first of them goes it is back, 0 for
    never. `heard`: how late those that stay hear of the rebalance.
    """

    times: tuple[int, int, int, int]
    batch: int
    takes: int
    busy: tuple[str, ...] = ("a",)
    plain: tuple[str, ...] = ()
    closed: dict[str, int] = field(default_factory=dict)
    killed: dict[str, int] = field(default_factory=dict)
    back: int = 0
    heard: int = 700
    topic: Topic = field(default_factory=Topic)
    went: dict[str, int] = field(default_factory=dict)
    began: int = 0
    ended: int = 0
    possible: bool = True

    def __post_init__(self) -> None:
        names = (*self.busy, *self.plain, *self.closed, *self.killed)
        self.clients = {name: self._client(name, place) for place, name in enumerate(names)}
        self.topic.generation(0, 1, list(self.clients.values()))
        self._goings()
        firsts = [*self.went.values(), *([self._returns()] if self.back else [])]
        self.began = min(firsts)
        joins = [self._stays(name) for name in (*self.busy, *self.plain)]
        until = max([*joins, *self.went.values()])
        self.possible &= not self.back or self._returns() < until
        self.ended = until + 10
        after = [self.clients[name] for name in (*self.busy, *self.plain)]
        if self.back:
            first = min(self.closed | self.killed, key=lambda name: (self.closed | self.killed)[name])
            after.append(replace(self.clients[first], member_id=f"{first}-2"))
        self.topic.generation(self.ended + 20, 2, after)
        self.topic = self.topic.sorted()

    def _client(self, name: str, place: int) -> Client:
        session, poll, *_ = self.times
        called = f"consumer-g-{name}"
        return Client(f"{name}-1", (place,), called, f"/{name}", session=session, rebalance=poll)

    def _returns(self) -> int:
        return min((self.closed | self.killed).values()) + self.back

    def _commits(self, name: str, until: int, last: int | None = None) -> int:
        """Regular commits before `until`, and one at `last`; returns the last one's time."""
        every = self.times[2]
        first = 1_000 + 137 * self.clients[name].partitions[0]
        self.topic.commits(first, until, self.clients[name], every=every)
        if last is not None:
            self.topic.commit(last, dict.fromkeys(self.clients[name].partitions, 100))
        return last or until - (until - first) % every

    def _goings(self) -> None:
        session, _, _, beat = self.times
        for name, at in self.closed.items():
            self._commits(name, at - 50, at - 30)
            self.went[name] = at
        for name, at in self.killed.items():
            self.went[name] = max(self._commits(name, at), at - at % beat) + session

    def _stays(self, name: str) -> int:
        """Commit as one that stays, and return when it rejoins."""
        hears = self.began + self.heard
        if name in self.plain:
            self._commits(name, self.began, hears + 100)
            return hears + 110
        done = self.batch + self.takes
        self._commits(name, self.batch)
        rejoins = max(done, hears)
        self.possible &= done >= self.began
        self.topic.commit(rejoins, dict.fromkeys(self.clients[name].partitions, 100))
        return rejoins + 10

    def told(self) -> list[Finding]:
        """What records alone tell."""
        return findings(self.topic, until=1_000)

    def looked(self, phase: int, *, lists: bool) -> list[Finding]:
        """What is told with a look every second, `phase` ms after full ones; `lists`: of members, too."""
        live, found = Live(DetectionSettings(), "c1"), self.told()
        looks = []
        for at in range(self.began - 20_000 + phase, self.ended + 3_000, 1_000):
            seen = (SeenGroup("g", "PreparingRebalance", "classic", "consumer"),)
            during = self.began <= at < self.ended
            there = [one for name, one in self.clients.items() if self.went.get(name, at + 1) > at]
            who = tuple((one.member_id, "", one.client_id, one.host) for one in there)
            members = {"g": who} if during and lists else {}
            looks.append(Sighting(T0 + at, seen * during, ((7, 1, 1),), ((1, True),), members))
        live.on_sightings(looks, {}, found)
        return live.refine(found)


def of_whom(found: list[Finding], name: str) -> list[CauseEntry]:
    last = of(found, Kind.REBALANCE)[-1]
    return [entry for entry in last.causes if entry.member_id == f"{name}-1"]


def confident(found: list[Finding], name: str) -> set[Cause]:
    """The causes claimed of a member, in the rebalance and beside it."""
    beside = [one for one in found if one.kind in {Kind.SESSION_TIMEOUT, Kind.POLL_INTERVAL_EXCEEDED}]
    entries = [entry for one in beside for entry in one.causes if entry.member_id == f"{name}-1"]
    claims = {entry.cause for entry in (*of_whom(found, name), *entries) if entry.confidence >= CLAIM}
    return claims - {Cause.UNKNOWN}


@st.composite
def scenes(draw: st.DrawFn, *, close: bool, busy: int = 2, plain: int = 0, back: bool = True) -> Scene:
    """One or two go, closed or killed, while up to `busy` that stay are in a long batch, and `plain` not."""
    times = draw(st.sampled_from(TIMES))
    session, poll, every, beat = times
    batch = 12 * every + draw(st.integers(0, every))
    takes = draw(st.integers(every + 2 * beat, min(poll - 500, 4 * session)))
    names = ["b", "d"][: draw(st.integers(1, 2))]
    first = batch + draw(st.integers(100, takes - 1_000))
    gone = {name: first + 250 * place for place, name in enumerate(names)}
    scene = Scene(
        times,
        batch,
        takes,
        busy=("a", "c")[: draw(st.integers(min(busy, 1), busy))],
        plain=("p", "q")[:plain],
        closed=gone if close else {},
        killed={} if close else gone,
        back=draw(st.sampled_from([0, 0, 4_000])) if back else 0,
        heard=draw(st.integers(50, beat)),
    )
    # Their batch lasts until the barrier begins, and that until somebody looks.
    assume(scene.possible and (not busy or scene.ended - scene.began >= 1_000))
    return scene


phases = st.integers(0, 999)


def told_as(found: list[Finding], names: dict[str, int], cause: Cause, *, surely: bool) -> None:
    """Nothing else is claimed of these members; `surely`: and this is."""
    for name in names:
        claims = confident(found, name)
        assert claims == {cause} if surely else claims <= {cause}, of_whom(found, name)


@quick
@given(scene=scenes(close=True))
def test_records_claim_no_timeout_of_one_that_closed_while_those_that_stayed_were_busy(scene: Scene) -> None:
    told_as(scene.told(), scene.closed, Cause.MEMBER_LEFT, surely=False)


@quick
@given(scene=scenes(close=False))
def test_records_claim_no_leave_of_one_that_died_while_those_that_stayed_were_busy(scene: Scene) -> None:
    told_as(scene.told(), scene.killed, Cause.SESSION_TIMEOUT, surely=False)


@quick
@given(scene=scenes(close=False, plain=1))
def test_where_one_of_those_that_stayed_was_not_busy_records_claim_no_leave_of_one_that_died(
    scene: Scene,
) -> None:
    told_as(scene.told(), scene.killed, Cause.SESSION_TIMEOUT, surely=False)


@quick
@given(scene=scenes(close=False, busy=0, plain=2, back=False))
def test_where_nobody_was_busy_records_name_who_died(scene: Scene) -> None:
    told_as(scene.told(), scene.killed, Cause.SESSION_TIMEOUT, surely=True)


@quick
@given(scene=scenes(close=True, busy=0, plain=2, back=False))
def test_where_nobody_was_busy_records_tell_who_closed(scene: Scene) -> None:
    told_as(scene.told(), scene.closed, Cause.MEMBER_LEFT, surely=True)


@pytest.mark.parametrize("before", [11_000, 15_000, 25_000])
def test_one_silent_since_long_before_the_others_were_busy_expired(before: int) -> None:
    """They polled, and knew of no rebalance, long after its last commit: so it had not left by then."""
    scene = Scene(TIMES[0], 75_000, 60_000, killed={"b": 75_000 - before})
    assert of_whom(scene.told(), "b")[0].confidence >= SURE
    told_as(scene.told(), scene.killed, Cause.SESSION_TIMEOUT, surely=True)


@quick
@given(scene=scenes(close=True), phase=phases)
def test_lists_of_members_tell_a_clean_close_however_long_those_that_stayed_were_busy(
    scene: Scene, phase: int
) -> None:
    told_as(scene.looked(phase, lists=True), scene.closed, Cause.MEMBER_LEFT, surely=True)


@quick
@given(scene=scenes(close=True), phase=phases)
def test_the_start_of_the_barrier_tells_a_clean_close_however_long_those_that_stayed_were_busy(
    scene: Scene, phase: int
) -> None:
    told_as(scene.looked(phase, lists=False), scene.closed, Cause.MEMBER_LEFT, surely=True)


@quick
@given(scene=scenes(close=False), phase=phases)
def test_lists_of_members_tell_an_expiry_in_a_barrier_that_anybody_began(scene: Scene, phase: int) -> None:
    found = scene.looked(phase, lists=True)
    told_as(found, scene.killed, Cause.SESSION_TIMEOUT, surely=True)
    assert all(of_whom(found, name)[0].confidence >= SURE for name in scene.killed)


@quick
@given(scene=scenes(close=False), phase=phases)
def test_the_start_of_the_barrier_tells_no_leave_of_one_that_died(scene: Scene, phase: int) -> None:
    told_as(scene.looked(phase, lists=False), scene.killed, Cause.SESSION_TIMEOUT, surely=False)


@quick
@given(scene=scenes(close=False, back=False), phase=phases)
def test_a_barrier_that_began_as_a_session_ended_tells_the_expiry(scene: Scene, phase: int) -> None:
    first = min(scene.went, key=lambda name: scene.went[name])
    found = scene.looked(phase, lists=False)
    told_as(found, {first: 0}, Cause.SESSION_TIMEOUT, surely=True)
    assert of_whom(found, first)[0].confidence >= SURE


@quick
@given(scene=scenes(close=True), cuts=st.lists(st.integers(0, 200), max_size=6))
def test_how_records_are_cut_into_batches_changes_nothing(scene: Scene, cuts: list[int]) -> None:
    inside = [cut for cut in cuts if cut < len(scene.topic.rows)]
    assert in_batches(scene.topic, inside, clocks=False) == in_batches(scene.topic, [], clocks=False)


def test_what_records_leave_open_is_told_with_its_numbers() -> None:
    scene = Scene(TIMES[0], 60_000, 50_000, closed={"b": 62_000})
    entries = {entry.cause: entry for entry in of_whom(scene.told(), "b")}
    assert {Cause.MEMBER_LEFT, Cause.SESSION_TIMEOUT} <= entries.keys()
    assert "session timeout 45.0 s" in entries[Cause.SESSION_TIMEOUT].why
    assert "may have been busy for 54.0 s" in entries[Cause.MEMBER_LEFT].why
    (left, *_) = of_whom(scene.looked(300, lists=True), "b")
    assert f"{LISTED} 0.0 s to 0.5 s into its silence" in left.why
    (left, *_) = of_whom(scene.looked(300, lists=False), "b")
    assert f"{LOOKED} 0.0 s to 0.5 s into its silence" in left.why


def test_one_that_is_back_in_the_barrier_may_as_well_have_been_removed() -> None:
    scene = Scene(TIMES[0], 60_000, 50_000, closed={"b": 62_000}, back=4_000)
    told = {entry.cause: entry.confidence for entry in of_whom(scene.looked(300, lists=True), "b")}
    assert told == {Cause.MEMBER_LEFT: 0.97, Cause.MEMBER_REMOVED_BY_ADMIN: 0.2}


def test_of_a_group_too_large_to_be_remembered_lists_tell_nothing() -> None:
    """Who is not among the members that are remembered need not be gone."""
    crowd = tuple((f"m{number}", "", "c", "/h") for number in range(150))
    live = Live(DetectionSettings(), "c1")
    seen = (SeenGroup("g", "PreparingRebalance", "classic", "consumer"),)
    looks = [Sighting(T0 + at, seen, ((7, 1, 1),), ((1, True),), {"g": crowd}) for at in (1_000, 2_000)]
    live.on_sightings(looks)
    (group,) = live.snapshot()["groups"].values()
    assert (len(group["listed"]), group["forgotten"]) == (100, T0 + 2_000)
