"""The KIP-848 group coordinator in virtual time (consumer groups of Kafka 4).

- Session: the broker's (group.consumer.session.timeout.ms), armed by every heartbeat, by no commit.
- Rebalance timeout: the member's, while it has partitions to revoke (state UNREVOKED_PARTITIONS).
- A static member that closes says -2: it stays, its session runs on, its successor takes its place.
- A removal writes tombstones 8, 7, 5 and the next group epoch. The target assignment follows with the next
  heartbeat of a survivor, and each survivor's own epoch with its own.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rebalance_monitor.lab.simulator.protocol import wire848 as wire
from rebalance_monitor.lab.simulator.protocol.coordinator import Coordinator
from rebalance_monitor.lab.simulator.protocol.members import Member, State
from rebalance_monitor.lab.simulator.truth import JoinPhase, Removed

if TYPE_CHECKING:
    from random import Random

    from rebalance_monitor.lab.simulator.plans.plan import BrokerPlan, GroupPlan
    from rebalance_monitor.lab.simulator.protocol.log import Log
    from rebalance_monitor.lab.simulator.protocol.members import Process
    from rebalance_monitor.lab.simulator.protocol.timeline import Timeline
    from rebalance_monitor.lab.simulator.truth import Truth

_STABLE, _UNREVOKED, _UNRELEASED = 0, 1, 2
_LEFT_FOR_NOW = -2


@dataclass(slots=True, eq=False)
class Modern(Member):
    """A member with its epochs and partitions (numbers, the same in every topic)."""

    epoch: int = 0
    previous: int = 0
    status: int = _STABLE
    owned: list[int] = field(default_factory=list)
    revoking: list[int] = field(default_factory=list)
    target: list[int] = field(default_factory=list)
    due: int = 0


class ModernGroup(Coordinator):
    """One KIP-848 group; `generation` is the group epoch."""

    commits_arm = False

    def __init__(
        self, plan: GroupPlan, broker: BrokerPlan, line: Timeline, rng: Random, log: Log, truth: Truth
    ) -> None:
        super().__init__(plan, broker, line, rng, log, truth)
        self.members: dict[str, Modern] = {}  # type: ignore[assignment]
        self.accepts = True
        self._topics = [(name, rng.randbytes(16)) for name in plan.topics]
        self._hash = rng.getrandbits(62)
        self._computed = 0
        self._began: tuple[float, str, str] | None = None

    # Requests.

    def on_join(self, client: Process) -> None:
        """Take the first heartbeat (epoch 0) of a member id."""
        if self._deferred(self.on_join, client) or not client.reaches or client.member in self.members:
            return
        instance = client.plan.instance
        old = next((m for m in self.members.values() if instance and m.instance == instance), None)
        if old is not None and old.epoch != _LEFT_FOR_NOW:
            # UNRELEASED_INSTANCE_ID: it tries again until the session of the old one is over.
            self.line.at(self.line.now + 1000, self.on_join, client)
            return
        member = Modern(client.new_id(), client, instance, armed=self.line.now, seen=True)
        if old is not None:
            self._replace(old, member)
        else:
            self.members[member.id] = member
            self._bump("join", member.id, joined=member)
        client.on_synced(self.line.now + self.latency())
        self._catch_up(member)

    def on_leader_sync(self, client: Process, generation: int) -> None:
        """Ignore it: a KIP-848 group has no SyncGroup."""

    def on_late_sync(self, client: Process) -> None:
        """Ignore it: a KIP-848 group has no SyncGroup."""

    def on_leave(self, member_id: str, cause: Removed, fault: str) -> None:
        """Take a leave: -1, or -2 of a static member, which stays for the rest of its session."""
        if self._deferred(self.on_leave, member_id, cause, fault):
            return
        member = self.members.get(member_id)
        if member is None:
            return
        if member.instance is None or cause is Removed.ADMIN:
            self._remove(member, cause, fault)
            return
        member.client.flush(self.line.now)
        member.previous, member.epoch = member.epoch, _LEFT_FOR_NOW
        member.status, member.revoking = _STABLE, []
        self._write(wire.CURRENT, member)
        self.watch(member)

    def on_return(self, member: Member) -> None:
        """Let it learn what it has missed, with its next heartbeat."""
        if self.members.get(member.id) is member and not self.members[member.id].revoking:
            self._catch_up(self.members[member.id])

    def session(self, member: Member) -> float:
        """Give the broker's session timeout (ms)."""
        del member
        return self._broker.session

    def exempt(self, member: Member) -> bool:
        """Nobody is exempt."""
        del member
        return False

    # What follows.

    def on_beat(self, member: Modern, due: int) -> None:
        """Take the heartbeat of a member that has something to learn."""
        if member.due != due or self.members.get(member.id) is not member or not member.client.beating:
            return
        if self._deferred(self.on_beat, member, due):
            return
        if self._computed < self.generation:
            self._compute()
        self._reconcile(member)

    def _catch_up(self, member: Modern) -> None:
        """Let a member's next heartbeat bring it up to date."""
        member.due += 1
        if member.client.beating and member.client.beats is not None:
            at = member.client.beats.first_after(self.line.now)
            self.line.at(at + self.latency(), self.on_beat, member, member.due)

    def _reconcile(self, member: Modern) -> None:
        """Advance a member towards its target, as CurrentAssignmentBuilder does."""
        if member.status == _UNREVOKED and not member.revoking:
            member.status = _STABLE
        gives = [p for p in member.owned if p not in member.target]
        if gives:
            if member.status != _UNREVOKED:
                member.status, member.revoking = _UNREVOKED, gives
                self._write(wire.CURRENT, member)
                self._revoke(member)
            return
        held = {p for other in self.members.values() if other is not member for p in other.owned}
        takes = [p for p in member.target if p not in held]
        status = _STABLE if len(takes) == len(member.target) else _UNRELEASED
        changed = (member.epoch, member.status, sorted(member.owned)) != (self._computed, status, takes)
        if changed:
            member.previous, member.epoch, member.status = member.epoch, self._computed, status
            member.owned = takes
            self._owns(member)
            self._write(wire.CURRENT, member)
        if status == _UNRELEASED:
            self._catch_up(member)
        self._settle(member.id)

    def _revoke(self, member: Modern) -> None:
        """Let the client revoke: at once while its application polls; the rebalance timeout watches it."""
        guard = member.due
        self.line.at(self.line.now + member.client.plan.rebalance, self._unrevoked, member, guard)
        self._try_revoke(member, guard)

    def _try_revoke(self, member: Modern, guard: int) -> None:
        client = member.client
        if member.due != guard or self.members.get(member.id) is not member or not client.reaches:
            return
        if client.stalled:
            self.line.at(self.line.now + 500, self._try_revoke, member, guard)
            return
        self.line.at(self.line.now + client.plan.gap * self.rng.random() + 3, self._revoked, member, guard)

    def _revoked(self, member: Modern, guard: int) -> None:
        """Take the acknowledgement: a heartbeat of its own."""
        if member.due != guard or self.members.get(member.id) is not member or not member.client.reaches:
            return
        member.client.flush(self.line.now)
        member.owned = [p for p in member.owned if p not in member.revoking]
        member.revoking = []
        self._owns(member)
        self._reconcile(member)

    def _unrevoked(self, member: Modern, guard: int) -> None:
        if member.due == guard and member.revoking and self.members.get(member.id) is member:
            self._remove(member, Removed.JOIN_DEADLINE, member.client.fault)

    def _settle(self, member_id: str) -> None:
        """Note that a rebalance is over once everybody has arrived."""
        arrived = all(
            m.status == _STABLE and m.epoch in {self.generation, _LEFT_FOR_NOW} for m in self.members.values()
        )
        if self._began is None or not arrived:
            return
        began, trigger, by = self._began
        self._began, self.state = None, State.STABLE
        self.changes.append((self.line.now, self.state, tuple(self.members.values())))
        epoch = self._log.epoch
        self._truth.phases.append(
            JoinPhase(
                self.plan.name,
                self.generation,
                epoch + began,
                epoch + self.line.now,
                trigger,
                by,
                "rejoin",
                member_id,
                len(self.members),
            )
        )

    def _bump(self, trigger: str, member_id: str, joined: Modern | None = None) -> None:
        """Begin a group epoch; a join computes the target assignment with it."""
        if joined is not None:
            self._write(wire.MEMBER, joined)
        self.generation += 1
        now = self.line.now
        self._began = self._began or (now, trigger, member_id)
        hashed = self._hash if self.members else 0
        self._record(wire.key(wire.GROUP, self.plan.name), wire.group_epoch(self.generation, hashed))
        self.state = State.RECONCILING if self.members else State.EMPTY
        self.changes.append((now, self.state, tuple(self.members.values())))
        if joined is not None:
            self._compute()
            self._reconcile(joined)
        for member in self.members.values():
            if member is not joined and member.epoch != _LEFT_FOR_NOW and not member.revoking:
                self._catch_up(member)
        if not self.members:
            self._began = None

    def _compute(self) -> None:
        """Compute the target assignment: everybody keeps what fits its share."""
        self._computed = self.generation
        quota, more = divmod(self.plan.partitions, len(self.members))
        free = set(range(self.plan.partitions))
        before = {member.id: list(member.target) for member in self.members.values()}
        shares = {}
        for place, member in enumerate(self.members.values()):
            shares[member.id] = quota + (place < more)
            member.target = [p for p in member.target if p in free][: shares[member.id]]
            free -= set(member.target)
        rest = sorted(free)
        for member in self.members.values():
            want = shares[member.id] - len(member.target)
            member.target = sorted(member.target + rest[:want])
            rest = rest[want:]
            if member.target != before[member.id] or member.epoch == 0:
                self._write(wire.TARGET_MEMBER, member)
        name = self.plan.name
        self._record(wire.key(wire.TARGET, name), wire.target_epoch(self._computed))

    def _remove(self, member: Member, cause: Removed, fault: str) -> None:
        self._forget(member, cause, fault, held=False, triggered=True)
        self._bury(member)
        self._bump("departure", member.id)

    def _bury(self, member: Member) -> None:
        for kind in (wire.CURRENT, wire.TARGET_MEMBER, wire.MEMBER):
            self._record(wire.key(kind, self.plan.name, member.id), None)

    def _replace(self, old: Modern, member: Modern) -> None:
        """Give a static member's place to its successor: no new epoch."""
        del self.members[old.id]
        if old.id != member.id:
            self._bury(old)
            old.client.on_removed(old.id)
        member.owned, member.target = list(old.owned), list(old.target)
        self.members[member.id] = member
        for kind in (wire.MEMBER, wire.TARGET_MEMBER, wire.CURRENT):
            self._write(kind, member)
        self._owns(member)
        member.epoch = self._computed
        self._write(wire.CURRENT, member)

    def _owns(self, member: Modern) -> None:
        numbers = sorted(member.owned)
        member.client.own([(topic, numbers) for topic, _ in self._topics] if numbers else [])

    # Outages.

    def resume(self) -> None:
        """Go on after a pause: sessions that ran out meanwhile end at once."""
        now = self.line.now
        self.accepts = True
        for member in list(self.members.values()):
            member.client.skip(now)
            if member.armed + self._broker.session <= now:
                self._remove(member, Removed.EXPIRED, "pause")
            else:
                self._catch_up(member)

    def load(self) -> None:
        """Load the group: everything was written, and everybody has a full session."""
        now = self.line.now
        self.accepts = True
        for member in list(self.members.values()):
            member.client.skip(now)
            member.armed = now
            self.watch(member)
            self._catch_up(member)

    # Records.

    def _record(self, key: bytes, value: bytes | None) -> None:
        self._log.record(self.line.now, self.plan.name, key, value)

    def _parts(self, numbers: list[int]) -> list[tuple[bytes, list[int]]]:
        return [(topic, sorted(numbers)) for _, topic in self._topics] if numbers else []

    def _write(self, kind: int, member: Modern) -> None:
        """Write a member's record of one type."""
        client = member.client
        if kind == wire.MEMBER:
            names = [name for name, _ in self._topics]
            value = wire.member(member.instance, *client.identity, names, client.plan.rebalance)
        elif kind == wire.TARGET_MEMBER:
            value = wire.target(self._parts(member.target))
        else:
            kept = [p for p in member.owned if p not in member.revoking]
            parts = (self._parts(kept), self._parts(member.revoking))
            value = wire.current(member.epoch, member.previous, member.status, *parts)
        self._record(wire.key(kind, self.plan.name, member.id), value)
