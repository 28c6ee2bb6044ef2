"""Groups of which some members go while others are in a long batch, by the rules of Java's client.

A member commits within its polls, at its interval and as it rejoins or closes; it rejoins in the poll after
it has heard of the rebalance; the barrier ends once nobody is waited for; who leaves is gone at once, and who
dies when its session ends.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from hypothesis import strategies as st

from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.kinds import Kind
from rebalance_monitor.coordinator.live import Live
from rebalance_monitor.coordinator.probe.sample import ProbeSample, RebalancingGroup
from rebalance_monitor.coordinator.settings import DetectionSettings
from tests.coordinator.support.timeline import T0, Client, Topic, findings, of

if TYPE_CHECKING:
    from rebalance_monitor.coordinator.findings.finding import CauseEntry, Finding

CLAIM = 0.8
LEAST_PHASE_MS = 1_000
# Session, rebalance timeout, commit and heartbeat interval (ms): the defaults, Java's old ones, the lab's.
TIMES = [
    (45_000, 300_000, 5_000, 3_000),
    (10_000, 300_000, 5_000, 3_000),
    (6_000, 80_000, 1_000, 1_000),
    (6_000, 8_000, 1_000, 1_000),
]


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
    rejoined: int = 0
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
        self.rejoined = max(joins)
        until = max([self.rejoined, *self.went.values()])
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

    @property
    def as_long_as_a_session(self) -> bool:
        """Whether the barrier lasted, by chance, as long as one that a session ends: nobody can tell then."""
        session, _, every, beat = self.times
        return -every <= self.ended - self.began - session <= 2 * every + beat

    @property
    def both_ended_it(self) -> bool:
        """Whether, by chance, one that stayed rejoined just as a session ended: either explains the end."""
        _, _, every, beat = self.times
        return any(abs(self.rejoined - went) <= every + beat for went in self.went.values())

    def told(self) -> list[Finding]:
        """What records alone tell."""
        return findings(self.topic, until=1_000)

    def looked(self, phase: int, *, lists: bool, behind: int = 0, hidden: bool = False) -> list[Finding]:
        """The findings with a sample every second, `phase` ms after full ones; `lists`: of members, too.

        `behind`: by how much the clock of who looks is known to be behind. `hidden`: no look lists the group.
        """
        return self.ended_by(phase, lists=lists, behind=behind, hidden=hidden)[1]

    def ended_by(
        self, phase: int, *, lists: bool, behind: int = 0, hidden: bool = False
    ) -> tuple[list[Finding], list[Finding]]:
        """The same, after what these looks open and end themselves; a phase of 10 s is stuck."""
        live, found = Live(DetectionSettings(stuck_after_ms=10_000), "c1"), self.told()
        looks = []
        for at in range(self.began - 20_000 + phase, self.ended + 3_000, 1_000):
            seen = (RebalancingGroup("g", "PreparingRebalance", "classic", "consumer"),)
            during = self.began <= at < self.ended and not hidden
            there = [one for name, one in self.clients.items() if self.went.get(name, at + 1) > at]
            who = tuple((one.member_id, "", one.client_id, one.host) for one in there)
            members = {"g": who} if during and lists else {}
            looks.append(ProbeSample(T0 + at - behind, seen * during, ((7, 1, 1),), ((1, True),), members))
        if hidden:
            looks[0] = replace(looks[0], listed=frozenset({"other"}))
        alive = {"g": {"state": "Stable", "at": T0 - 60_000}}
        seen_by_looks = live.on_samples(looks, alive if hidden else {}, found)
        return seen_by_looks, live.refine(found, {1} if behind else ())


def of_whom(found: list[Finding], name: str) -> list[CauseEntry]:
    last = of(found, Kind.REBALANCE)[-1]
    return [entry for entry in last.causes if entry.member_id == f"{name}-1"]


def confident(found: list[Finding], name: str) -> set[Cause]:
    """The causes claimed of a member, in the rebalance and beside it."""
    beside = [one for one in found if one.kind in {Kind.SESSION_TIMEOUT, Kind.POLL_INTERVAL_EXCEEDED}]
    entries = [entry for one in beside for entry in one.causes if entry.member_id == f"{name}-1"]
    claims = {entry.cause for entry in (*of_whom(found, name), *entries) if entry.confidence >= CLAIM}
    return claims - {Cause.UNKNOWN}


def _rests(
    times: tuple[int, int, int, int], count: int, *, close: bool, back: int, clear: bool
) -> list[tuple[int, int]]:
    """How long (ms) a batch may last after the first of `count` members goes, as ranges.

    The batch lasts until the join phase has begun, and that until a probe samples it. `clear`: nothing else
    could have ended the phase, by chance, at that moment.
    """
    session, poll, every, beat = times
    most = min(poll - 500, 4 * session) - 100
    least = back or (1_000 if close else session + 1_000)
    if not clear:
        ranges = [(least, most)]
    elif close:
        ranges = [(least, session - every - 50), (session + 2 * every + beat + 50, most)]
    else:
        early = session - 2 * beat - every - 200
        # Even members that are not busy may hear of the phase so late. Of two, the one that is back may have
        # left: the other one alone explains how long the phase was.
        soon = early if back and count == 1 and back + beat < early else -1
        ranges = [(least, soon), (session + every + beat + 300, most)]
    return [(low, high) for low, high in ranges if low <= high]


@st.composite
def scenes(
    draw: st.DrawFn, *, close: bool, busy: int = 2, plain: int = 0, back: bool = True, clear: bool = False
) -> Scene:
    """One or two go, closed or killed, while up to `busy` that stay are in a long batch, and `plain` not.

    `clear`: the phase did not last, by chance, as long as another way to depart would have made it last.
    """
    returns = draw(st.sampled_from([0, 0, 4_000])) if back else 0
    names = ["b", "d"][: draw(st.integers(1, 2))]
    rests = {times: _rests(times, len(names), close=close, back=returns, clear=clear) for times in TIMES}
    times = draw(st.sampled_from([one for one in TIMES if rests[one]]))
    session, poll, every, beat = times
    batch = 12 * every + draw(st.integers(0, every))
    rest = draw(st.one_of([st.integers(low, high) for low, high in rests[times]]))
    before = draw(st.integers(max(100, every + 2 * beat - rest), min(poll - 500, 4 * session) - rest))
    gone = {name: batch + before + 250 * place for place, name in enumerate(names)}
    scene = Scene(
        times,
        batch,
        before + rest,
        busy=("a", "c")[: draw(st.integers(min(busy, 1), busy))],
        plain=("p", "q")[:plain],
        closed=gone if close else {},
        killed={} if close else gone,
        back=returns,
        heard=draw(st.integers(50, beat)),
    )
    assert scene.possible
    assert not busy or scene.ended - scene.began >= LEAST_PHASE_MS
    assert not clear or not (scene.as_long_as_a_session if close else scene.both_ended_it)
    return scene
