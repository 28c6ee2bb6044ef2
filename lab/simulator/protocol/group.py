"""The classic group coordinator in virtual time (GroupMetadataManager/ClassicGroup of Kafka 4, and before).

Timers, as Kafka has them:

- Session: armed by heartbeats, by the end of the join phase, by the sync, and by an accepted OffsetCommit
  (Stable or PreparingRebalance). Members that await JoinGroup or SyncGroup are exempt, new ones for 5 min.
- Join deadline: the largest rebalance timeout of the members. Removes dynamic members that have not rejoined;
  static ones stay. Begins again where these alone are left and none has rejoined.
- Sync deadline: as long again from the end of the join phase, for members that never sent SyncGroup.
- Initial delay: only from Empty, again while new members arrive, at most the rebalance timeout.

Only a member that has fallen silent needs a session timer: everybody else's is re-armed before it ends.
Written are the generation (at the leader's SyncGroup), the empty group, and a static member's replacement.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rebalance_monitor.lab.simulator.protocol import wire
from rebalance_monitor.lab.simulator.protocol.coordinator import Coordinator
from rebalance_monitor.lab.simulator.protocol.members import Member, Phase, State
from rebalance_monitor.lab.simulator.truth import JoinPhase, Removed

if TYPE_CHECKING:
    from random import Random

    from rebalance_monitor.lab.simulator.plans.plan import BrokerPlan, GroupPlan
    from rebalance_monitor.lab.simulator.protocol.log import Log
    from rebalance_monitor.lab.simulator.protocol.members import Process
    from rebalance_monitor.lab.simulator.protocol.timeline import Timeline
    from rebalance_monitor.lab.simulator.truth import Truth

NEW_MEMBER_MS = 300_000.0


class Group(Coordinator):
    """One classic group."""

    def __init__(
        self, plan: GroupPlan, broker: BrokerPlan, line: Timeline, rng: Random, log: Log, truth: Truth
    ) -> None:
        super().__init__(plan, broker, line, rng, log, truth)
        self.leader: str | None = None
        self._stored: tuple[int, list[Member], str | None] = (0, [], None)
        self._stable_at = 0.0
        self._known = False

    # Requests.

    def on_join(self, client: Process) -> None:
        """Take a JoinGroup: of a member, or of somebody new."""
        if self._deferred(self.on_join, client) or not client.reaches:
            return
        under_way = self.phase
        member = self.members.get(client.member)
        if member is None:
            member = self._admitted(client)
            if member is None:
                return
        elif self.state is not State.PREPARING:
            self._prepare("rejoin", member.id)
        member.subscription = client.subscription(self.plan)
        member.joined = True
        if self.phase is not None:
            self.phase.joined[member.id] = self._log.epoch + self.line.now
        if under_way is not None and under_way.initial:
            under_way.joined_since = True
        self._check("rejoin", member.id)

    def on_leave(self, member_id: str, cause: Removed, fault: str) -> None:
        """Take a LeaveGroup, or an administrator's removal."""
        if self._deferred(self.on_leave, member_id, cause, fault):
            return
        member = self.members.get(member_id)
        if member is not None:
            self._remove(member, cause, fault)

    def on_leader_sync(self, client: Process, generation: int) -> None:
        """Take the leader's SyncGroup: the generation is written."""
        if self._deferred(self.on_leader_sync, client, generation) or not client.reaches:
            return
        self.line.at(self.line.now + self.storing(), self._stored_sync, generation)

    def _stored_sync(self, generation: int) -> None:
        """Let the generation be Stable: its record is replicated, unless somebody joined meanwhile."""
        if self.state is not State.COMPLETING or generation != self.generation:
            return
        self._assign()
        self._write(self._stable_at)
        self._enter(State.STABLE)
        for member in self.members.values():
            if member.client.syncs(member.id):
                self._sync(member)
            else:
                self.watch(member)

    def on_late_sync(self, client: Process) -> None:
        """Take a follower's SyncGroup that comes after the leader's."""
        member = self.members.get(client.member)
        if member is not None and self.state is State.STABLE and not member.synced:
            self._sync(member)

    def exempt(self, member: Member) -> bool:
        """Whether a member awaits the end of the join phase."""
        return member.joined and self.state is State.PREPARING

    # Timers.

    def _expire_new(self, member: Member) -> None:
        if member.new and self.members.get(member.id) is member:
            self._remove(member, Removed.EXPIRED, member.client.fault)

    def _deadline(self, phase: Phase) -> None:
        if phase is not self.phase or self._deferred(self._deadline, phase):
            return
        missing = [m for m in self.members.values() if not m.joined and m.instance is None]
        for member in missing:
            self._forget(member, Removed.JOIN_DEADLINE, member.client.fault, held=True)
        rest = list(self.members.values())
        joined = [m.id for m in rest if m.joined]
        if rest and not joined:
            # Static members alone, which are kept.
            self.line.at(self.line.now + self._timeout(), self._deadline, phase)
            return
        if joined and self.leader not in joined:
            self.leader = joined[0]
        holder = missing or [m for m in rest if not m.joined]
        self._complete("deadline", holder[0].id if holder else "")

    def _initial(self, phase: Phase) -> None:
        if phase is not self.phase or self._deferred(self._initial, phase):
            return
        left = self._timeout() - phase.extended
        if phase.joined_since and left > 0:
            phase.joined_since = False
            more = min(self._broker.initial_delay, left)
            phase.extended += more
            self.line.at(self.line.now + more, self._initial, phase)
            return
        phase.initial = False
        self._check("delay", "")

    def _sync_deadline(self, generation: int) -> None:
        if generation != self.generation or self.state not in {State.COMPLETING, State.STABLE}:
            return
        late = [m for m in self.members.values() if not m.synced and not m.client.syncs(m.id)]
        for member in late:
            if self.members.get(member.id) is member:
                self._remove(member, Removed.SYNC_DEADLINE, member.client.fault)

    # The state machine.

    def _prepare(self, trigger: str, member_id: str, *, initial: bool = False) -> None:
        """Begin a join phase: every live member learns of it from its next heartbeat's response."""
        waiting = self.state is State.COMPLETING
        self._enter(State.PREPARING)
        now = self.line.now
        phase = self.phase = Phase(now, trigger, member_id, initial=initial)
        for member in self.members.values():
            member.joined = False
            if waiting and member.client.syncs(member.id):
                # Its SyncGroup is answered with REBALANCE_IN_PROGRESS.
                wait = self.latency() + self.reaction() + member.client.family.refused_ms
                self.line.at(now + wait, member.client.rejoin, phase)
            else:
                member.client.hear(phase)
            if not member.client.beating:
                self.watch(member)
        if not initial and self.members:
            self.line.at(now + self._timeout(), self._deadline, phase)

    def _check(self, by: str, member_id: str) -> None:
        """End the join phase once everybody has rejoined."""
        phase = self.phase
        if phase is None or phase.initial or not all(m.joined for m in self.members.values()):
            return
        self._complete(by, member_id)

    def _complete(self, by: str, holder: str) -> None:
        phase, now = self.phase, self.line.now
        if phase is None:
            return
        self._enter(State.COMPLETING if self.members else State.EMPTY)
        self.generation += 1
        self.phase = None
        self._stable_at = now
        epoch = self._log.epoch
        self._truth.phases.append(
            JoinPhase(
                self.plan.name,
                self.generation,
                epoch + phase.began,
                epoch + now,
                phase.trigger,
                phase.member,
                by,
                holder,
                len(self.members),
                phase.joined,
            )
        )
        if not self.members:
            self.leader = None
            self._write(now)
            return
        if self.leader not in self.members:
            self.leader = self.rng.choice(list(self.members))
        self.line.at(now + self._timeout(), self._sync_deadline, self.generation)
        for member in self.members.values():
            member.armed, member.new, member.synced = now, False, False
            member.client.on_joined(member, self.generation, leads=member.id == self.leader)
            self.watch(member)

    def _enter(self, state: State) -> None:
        """Change the state, once everybody's commits so far are written."""
        now = self.line.now
        for member in self.members.values():
            member.client.flush(now)
        self.state = state
        self.accepts = state in {State.STABLE, State.PREPARING}
        self.changes.append((now, state, tuple(self.members.values())))

    def _sync(self, member: Member) -> None:
        member.synced = True
        member.armed = self.line.now
        member.client.on_synced(self.line.now + self.latency())
        self.watch(member)

    def _remove(self, member: Member, cause: Removed, fault: str) -> None:
        stable = self.state in {State.STABLE, State.COMPLETING}
        ends = not stable and all(m.joined for m in self.members.values() if m is not member)
        held = ends or len(self.members) == 1
        self._forget(member, cause, fault, held=held, triggered=stable)
        if stable:
            self._prepare("departure", member.id)
        self._check("removal", member.id)

    def _admitted(self, client: Process) -> Member | None:
        """Add a new member; None where a static one took its predecessor's place in a Stable group."""
        if self._broker.java and not self._known:
            self._known = True
            value = wire.group_value("", 0, None, None, self._log.epoch + int(self.line.now), ())
            self._log.record(self.line.now, self.plan.name, wire.group_key(self.plan.name), value)
        instance = client.plan.instance
        old = next((m for m in self.members.values() if instance and m.instance == instance), None)
        if old is not None:
            return self._replaced(old, client)
        member = Member(client.new_id(), client, instance, armed=self.line.now)
        if self.leader is None:
            self.leader = member.id
        if self.state is State.EMPTY:
            self._prepare("join", member.id, initial=True)
            if self.phase is not None:
                due = self.line.now + self._broker.initial_delay + self.lateness()
                self.line.at(due, self._initial, self.phase)
                self.line.at(self.line.now + client.plan.rebalance, self._deadline, self.phase)
        elif self.state is not State.PREPARING:
            self._prepare("join", member.id)
        self.members[member.id] = member
        self.changes.append((self.line.now, self.state, tuple(self.members.values())))
        self.line.at(self.line.now + NEW_MEMBER_MS, self._expire_new, member)
        return member

    def _replaced(self, old: Member, client: Process) -> Member | None:
        """KIP-345: a known instance id with an unknown member id takes the old member's place."""
        old.client.flush(self.line.now)
        old.client.on_removed(old.id)
        member = Member(client.new_id(), client, old.instance, new=False, armed=self.line.now)
        member.subscription, member.seen = client.subscription(self.plan), old.seen
        self.members = {
            (member.id if m is old else m.id): (member if m is old else m) for m in self.members.values()
        }
        if self.leader == old.id:
            self.leader = member.id
        client.own(old.client.owned)
        client.identity = old.client.identity
        if self.state is State.STABLE:
            self._write(self._stable_at)
            member.joined, member.synced = False, False
            client.on_joined(member, self.generation, leads=False)
            self._sync(member)
            return None
        if self.state is State.COMPLETING:
            self._prepare("rejoin", member.id)
        return member

    # Outages.

    def resume(self) -> None:
        """Go on after a pause: sessions that ran out meanwhile end at once."""
        now = self.line.now
        exempt = self.state is State.PREPARING
        self.accepts = self.state in {State.STABLE, State.PREPARING}
        before = list(self.members.values())
        for member in before:
            member.client.skip(now)
        for member in before:
            over = member.armed + member.client.plan.session <= now
            if over and not (exempt and member.joined) and self.members.get(member.id) is member:
                self._remove(member, Removed.EXPIRED, "pause")
            elif self.phase is not None and not member.joined:
                member.client.hear(self.phase)

    def load(self) -> None:
        """Load what was written last: everybody has a full session from now on."""
        now = self.line.now
        generation, members, self.leader = self._stored
        self.generation, self.phase, self._stable_at = generation, None, now
        before = [member.client for member in self.members.values()]
        self.members = {m.id: m for m in members}
        self.state = State.STABLE if members else State.EMPTY
        self.accepts = bool(members)
        self.changes.append((now, self.state, tuple(members)))
        for member in members:
            member.joined, member.new, member.synced, member.armed = False, False, True, now
            self.watch(member)
        for client in dict.fromkeys([*before, *(m.client for m in members)]):
            client.on_load(generation)

    # Details.

    def _timeout(self) -> float:
        return float(max((m.client.plan.rebalance for m in self.members.values()), default=0))

    def _assign(self) -> None:
        """Deal the partitions of each topic out to the members, in order of their ids (range)."""
        order = sorted(self.members.values(), key=lambda member: member.id)
        share, rest = divmod(self.plan.partitions, len(order))
        start = 0
        for place, member in enumerate(order):
            end = start + share + (place < rest)
            numbers = list(range(start, end))
            member.client.own([(topic, numbers) for topic in self.plan.topics] if numbers else [])
            start = end

    def _write(self, stable_at: float) -> None:
        plan, epoch = self.plan, self._log.epoch
        listed = []
        for member in self.members.values():
            member.seen = True
            listed.append(member.client.record(member))
        full = bool(listed)
        value = wire.group_value(
            plan.protocol_type,
            self.generation,
            plan.protocol if full else None,
            self.leader if full else None,
            epoch + int(stable_at),
            listed,
        )
        self._log.record(self.line.now, plan.name, wire.group_key(plan.name), value)
        self._stored = (self.generation, list(self.members.values()), self.leader)
