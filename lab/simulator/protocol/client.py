"""One client process in virtual time: the behaviour of its library and of its application.

Heartbeats and commits are no events: they are worked out when something depends on them. The commits of a
stretch are written when the group's state changes. A heartbeat is drawn when the client falls silent, or when
it must hear of a rebalance.
"""

from __future__ import annotations

from math import log
from typing import TYPE_CHECKING

from rebalance_monitor.lab.simulator.plans.families import FAMILIES
from rebalance_monitor.lab.simulator.plans.plan import Act
from rebalance_monitor.lab.simulator.protocol import names, wire
from rebalance_monitor.lab.simulator.protocol.beats import EARLY_LATE_MS, Beats
from rebalance_monitor.lab.simulator.protocol.commits import Commits
from rebalance_monitor.lab.simulator.protocol.members import State
from rebalance_monitor.lab.simulator.truth import Removed

if TYPE_CHECKING:
    from random import Random

    from rebalance_monitor.lab.simulator.plans.plan import ClientPlan, GroupPlan
    from rebalance_monitor.lab.simulator.protocol.coordinator import Coordinator
    from rebalance_monitor.lab.simulator.protocol.feed import Feed, Owned
    from rebalance_monitor.lab.simulator.protocol.log import Log
    from rebalance_monitor.lab.simulator.protocol.members import Member, Phase

# Between the library's answer to a heartbeat and its JoinGroup, where no poll is needed.
_REJOIN_MS = 20.0
_RECONNECT_MS = 500.0
# retry.backoff.ms of Java and librdkafka by default.
_RETRY_MS = 100.0
# Of the logarithm of the time that a leader takes to assign.
_ASSIGN_SPREAD = 1.3
# From the client's start, and that of its own commit timer, to its JoinGroup: it must find its coordinator.
_FIND_MS = 40.0


class Client:
    """A process of `plan`, number `number` of its group; it joins when started."""

    def __init__(
        self, plan: ClientPlan, number: int, group: Coordinator, feed: Feed, log: Log, rng: Random
    ) -> None:
        self.plan, self.number, self.group = plan, number, group
        self.family = FAMILIES[plan.family]
        self._rng, self._feed = rng, feed
        self.commits = Commits(plan, self.family, group, feed, log, rng)
        self.line = group.line
        self.alive = self.connected = True
        self.stalled = self.deaf = self.unsynced = self.stopped = self.stale = False
        self.lost = self.waiting = True
        self.fault = ""
        self.member = ""
        self._own_id = names.own_id(plan, self.family, rng)
        self.identity = names.identity(plan, number, group.plan.name, self.family)
        self.beats: Beats | None = None
        self.last_poll = self.line.now
        self._heard: Phase | None = None
        self._generation = -1
        self._stall = 0

    # What the coordinator asks.

    @property
    def reaches(self) -> bool:
        """Whether its requests arrive."""
        return self.alive and self.connected

    @property
    def beating(self) -> bool:
        """Whether its heartbeats arrive and count."""
        return self.alive and self.connected and not (self.stopped or self.stale)

    @property
    def owned(self) -> Owned:
        """Its newest assignment."""
        return self.commits.owned

    def syncs(self, member_id: str) -> bool:
        """Whether it has sent SyncGroup for the generation of its JoinGroup response."""
        return self.reaches and not self.unsynced and not self.stale and self.member == member_id

    def new_id(self) -> str:
        """Return the member id that it has from now on."""
        self.lost = False
        self.member = self._own_id or names.given_id(self.plan.instance or self.identity[0], self._rng)
        return self.member

    def subscription(self, group: GroupPlan) -> bytes:
        """Give the bytes of its subscription."""
        sticky = group.protocol == "cooperative-sticky"
        return wire.subscription(self.plan.family, group.topics, self.owned, self._generation, sticky=sticky)

    def record(self, member: Member) -> bytes:
        """Give its entry in the group's record."""
        plan = self.plan
        sent = member.subscription, self.commits.assigned
        return wire.member(member.id, member.instance, *self.identity, plan.rebalance, plan.session, *sent)

    def own(self, owned: Owned) -> None:
        """Take an assignment; what was committed before was of the old one."""
        self.flush(self.line.now)
        self.commits.own(owned, self.line.now)

    # What the coordinator answers.

    def on_joined(self, member: Member, generation: int, *, leads: bool) -> None:
        """Send SyncGroup at the end of the join phase; the leader does so once it has assigned."""
        if not member.joined and not member.new and self.group.state is State.COMPLETING:
            # A static member that was kept: what it sends is of an older generation.
            self.stale = True
            return
        self.stale, self.waiting, self._heard = False, True, None
        usual, first = self.family.assign_ms
        median = first if self._generation < 0 else usual
        self._generation = generation
        if leads and self.syncs(member.id):
            work = 0.5 + self._rng.lognormvariate(log(median), _ASSIGN_SPREAD)
            self.line.at(self.line.now + work, self.group.on_leader_sync, self, generation)

    def on_synced(self, at: float) -> None:
        """Begin heartbeats and timers: it has its assignment."""
        family, plan, random = self.family, self.plan, self._rng.random
        lag = family.beat_lag + family.beat_drift * plan.heartbeat
        early = family.early_beat and family.early_beat + random() * EARLY_LATE_MS
        self.beats = Beats(at, plan.heartbeat, lag, self._rng, early)
        self.waiting, self._heard = False, None
        self.commits.begin(at)
        if not self.stalled:
            self.last_poll = at
        elif self.last_poll + plan.poll < self.line.now:
            self.line.at(at + random() * family.poll_check, self._breach, self._stall)

    def on_removed(self, member_id: str) -> None:
        """Learn with the next heartbeat that the coordinator has removed it."""
        if self.member != member_id:
            return
        self.member, self.waiting, self._heard = "", True, None
        if self.alive and not self.lost:
            self.lost = True
            if self.connected:
                # A newcomer has the answer to its JoinGroup, and backs off.
                now = self.line.now
                at = now + _RETRY_MS if self.beats is None else self.beats.first_after(now)
                self.line.at(at, self._return)

    def on_load(self, generation: int) -> None:
        """Go on when the coordinator has loaded the group, or join again."""
        self.skip(self.line.now)
        if not self.alive:
            return
        soon = self.line.now + self._rng.random() * 1000
        if self.member not in self.group.members:
            self.member, self.lost = "", True
            self.line.at(soon, self._return)
        elif self.waiting or self._heard is not None or generation != self._generation:
            self.line.at(soon, self._rejoin_loaded)
        elif self._rng.random() < self.family.rejoins_after_load:
            self.line.at(soon + self._rng.random() * 2000, self._rejoin_loaded)

    def _rejoin_loaded(self) -> None:
        if self.reaches and self.member in self.group.members and not self.stalled:
            self.waiting = True
            self.group.on_join(self)

    def hear(self, phase: Phase) -> None:
        """Learn with the next heartbeat that a rebalance has begun."""
        if self.beating and self.beats is not None:
            at = self.beats.first_after(self.line.now)
            self.line.at(at + self.group.latency(), self._on_rebalance_notice, phase)

    def _on_rebalance_notice(self, phase: Phase) -> None:
        if phase is not self.group.phase or not self.beating or self.group.down_until > self.line.now:
            return
        self._heard = phase
        plan, random = self.plan, self._rng.random
        # An application that waits in poll lets it rejoin at once, one that works does so with its next poll.
        works = plan.rejoins_in_poll and random() < plan.work
        wait = random() * (plan.gap if works else _REJOIN_MS)
        if self.family.fetches_first:
            wait = sum(random() for _ in range(self.family.fetches_first)) * plan.fetch
        self.line.at(self.line.now + wait, self.rejoin, phase)

    def rejoin(self, phase: Phase) -> None:
        """Send JoinGroup, unless the application holds it back."""
        member = self.group.members.get(self.member)
        if phase is not self.group.phase or member is None or member.joined or not self.reaches:
            return
        if self.deaf or (self.stalled and self.plan.rejoins_in_poll):
            self._heard = phase
            return
        self.flush(self.line.now)
        if self.plan.revoke_commit and not self.waiting:
            self.commits.commit(self.line.now, member)
        self.waiting = True
        self.line.at(self.line.now + self.group.latency(), self.group.on_join, self)

    def join(self) -> None:
        """Send the first JoinGroup of a member id."""
        if self.reaches and not self.member and not self.stalled:
            self.group.on_join(self)

    def _return(self) -> None:
        """Join with a new member id, at the next poll."""
        if self.lost and not self.stalled and not self.deaf:
            self.lost = False
            self.line.at(self.line.now + self._rng.random() * self.plan.gap, self.join)

    # What happens to it.

    def kill(self) -> None:
        """End without a word."""
        self._fall_silent("kill")
        self.alive = False
        self._watch_group()

    def close(self) -> None:
        """Close by the family's habits: static members and Streams say no goodbye."""
        if not self.alive:
            return
        self.flush(self.line.now)
        member = self.group.members.get(self.member)
        if self.plan.final_commit and member is not None and not self.waiting and not self.stalled:
            self.commits.commit(self.line.now, member)
        if self.family.ends_fetch and member is not None and not self.stalled:
            self.be_deaf(float("inf"))
            self.line.at(self.line.now + self._until_answered(), self._leave)
        else:
            self._leave()

    def _until_answered(self) -> float:
        """Draw how long (ms) its fetch takes: until a record comes, or the broker has waited."""
        wait, rate = self._rng.random() * self.plan.fetch, self._feed.flow(self.owned, self.line.now)
        return min(wait, self._rng.expovariate(rate)) if rate else wait

    def _leave(self) -> None:
        if not self.alive:
            return
        self._fall_silent("close")
        self.alive = False
        if self.family.goodbye and (self.plan.instance is None or self.family.keeps_id):
            wait = self._rng.lognormvariate(log(self.family.close_lag[0]), self.family.close_lag[1])
            self.line.at(self.line.now + wait, self.group.on_leave, self.member, Removed.LEFT, "close")
        else:
            self._watch_group()

    def cut(self, lasts: float, fault: str) -> None:
        """Lose the network (or be frozen) for `lasts` ms."""
        if not self.alive:
            return
        self._fall_silent(fault)
        self.connected = False
        self._watch_group()
        self.line.at(self.line.now + lasts, self._heal)

    def _heal(self) -> None:
        if not self.alive:
            return
        self.skip(self.line.now)
        self.connected = True
        soon = self.line.now + self._rng.random() * _RECONNECT_MS
        if (member := self.group.members.get(self.member)) is None:
            self.lost = True
            self.line.at(soon, self._return)
            return
        self.fault = ""
        member.guard += 1
        member.armed = self.line.now
        self.group.on_return(member)
        if self.waiting:
            self.line.at(soon, self._rejoin_loaded)
        elif self.group.phase is not None and not member.joined:
            self.line.at(soon, self._on_rebalance_notice, self.group.phase)

    def stall(self, lasts: float) -> None:
        """Let the application process for `lasts` ms, from its next poll on."""
        begins = self.commits.work_begins(self.line.now)
        self.line.at(begins, self._begin_stall, lasts)

    def _begin_stall(self, lasts: float) -> None:
        if not self.alive or self.stalled:
            return
        now = self.line.now
        self.flush(now)
        self.stalled, self.fault, self.last_poll = True, "stall", self.commits.last_poll(now)
        self.commits.stall(now)
        self._stall += 1
        self.line.at(now + lasts, self._resume, self._stall)
        if self.family.deaf_when_stalled:
            self.deaf = True
        if self.family.beats_in_poll:
            self._silence()
            self.stopped = True
            self._watch_group()
        elif self.family.enforces_poll:
            self.line.at(max(now, self.last_poll + self.plan.poll), self._overdue, self._stall)

    def _overdue(self, stall: int) -> None:
        """Let the library notice the breach that begins now: at its next check, or its next heartbeat."""
        if stall == self._stall:
            wait = self._rng.random() * self.family.poll_check
            at = self.line.now + wait
            if self.family.poll_at_beat and self.beats is not None and self.beating:
                at = self.beats.first_after(self.line.now)
            self.line.at(at, self._breach, stall)

    def _breach(self, stall: int) -> None:
        there = self.alive and self.member and not self.waiting
        if not there or not self.stalled or stall != self._stall:
            return
        speaks = self.plan.instance is None or self.family.keeps_id
        if not speaks or self.family.leaves_after_stall:
            self._silence()
            self.stopped = True
            self._watch_group()
            return
        if self.plan.instance is not None:
            # -2: it stays a member for the rest of its session, without heartbeats.
            self._silence()
            self.stopped = True
        self.lost = True
        at = self.line.now + self.group.latency()
        self.line.at(at, self.group.on_leave, self.member, Removed.POLL, self.fault)

    def be_deaf(self, lasts: float) -> None:
        """Go on with heartbeats, but neither commit nor rejoin, for `lasts` ms."""
        if self.alive:
            self.flush(self.line.now)
            self.deaf = self.stalled = True
            self.fault = "deaf"
            self.commits.stall(self.line.now)
            self._stall += 1
            self.line.at(self.line.now + lasts, self._resume, self._stall)

    def be_unsynced(self, lasts: float) -> None:
        """Send no SyncGroup for `lasts` ms."""
        self.unsynced, self.fault = True, "unsynced"
        self.line.at(self.line.now + lasts, self._be_synced)

    def _be_synced(self) -> None:
        self.unsynced = False
        if self.alive:
            self.group.on_late_sync(self)

    def _resume(self, stall: int) -> None:
        if not self.alive or stall != self._stall:
            return
        now = self.line.now
        self.flush(now)
        if self.stopped and self.family.leaves_after_stall and self.member:
            self.lost = True
            self.group.on_leave(self.member, Removed.POLL, "stall")
        self.stalled = self.deaf = self.stopped = False
        self.last_poll = now
        self.commits.go_on(now)
        if (member := self.group.members.get(self.member)) is None or self.lost:
            self.member, self.lost = "", True
            self._return()
            return
        member.guard += 1
        member.armed = now
        self.fault = ""
        self.group.on_return(member)
        if self.stale:
            self._rejoin_loaded()
        elif self.group.phase is not None and not member.joined and self._heard is self.group.phase:
            self.rejoin(self.group.phase)

    def _fall_silent(self, fault: str) -> None:
        self.flush(self.line.now)
        self._silence()
        if not self.stalled:
            self.last_poll = self.line.now
        self.fault = self.fault or fault

    def _silence(self) -> None:
        """Note the last heartbeat: the session ends a timeout after it."""
        member = self.group.members.get(self.member)
        if member is not None and self.beats is not None and self.beating:
            member.armed = max(member.armed, self.beats.last_before(self.line.now))

    def _watch_group(self) -> None:
        if (member := self.group.members.get(self.member)) is not None:
            self.group.watch(member)

    # Commits.

    def skip(self, until: float) -> None:
        """Let commits up to `until` (ms) be lost."""
        self.commits.skip(until)

    def flush(self, until: float) -> None:
        """Write the commits up to `until` (ms), while the group's state was the same."""
        flows = self.group.accepts and self.reaches and not self.waiting
        self.commits.write(until, self.group.members.get(self.member) if flows else None)

    def begin(self, act: Act, lasts: float) -> None:
        """Let `act` happen to it now."""
        match act:
            case Act.KILL:
                self.kill()
            case Act.CLOSE:
                self.close()
            case Act.STALL:
                self.stall(lasts)
            case Act.DEAF:
                self.be_deaf(lasts)
            case Act.CUT | Act.FREEZE:
                self.cut(lasts, str(act))
            case Act.UNSYNCED:
                self.be_unsynced(lasts)
            case Act.REMOVE:
                self.group.on_leave(self.member, Removed.ADMIN, "remove")
            case Act.REJOIN:
                self._rejoin_loaded()
            case Act.START:
                self.line.at(self.line.now + _FIND_MS * (0.3 + self._rng.random()), self.join)
