"""When one client commits, and what: no events, but worked out for a stretch of time when somebody asks.

A stretch ends where the group's state, the member's assignment or the application's work changes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rebalance_monitor.lab.simulator.plans.plan import AFTER_WORK, Mode
from rebalance_monitor.lab.simulator.protocol import wire
from rebalance_monitor.lab.simulator.protocol.log import partitions_bytes

if TYPE_CHECKING:
    from random import Random

    from rebalance_monitor.lab.simulator.plans.families import Family
    from rebalance_monitor.lab.simulator.plans.plan import ClientPlan
    from rebalance_monitor.lab.simulator.protocol.coordinator import Coordinator
    from rebalance_monitor.lab.simulator.protocol.feed import Feed, Owned
    from rebalance_monitor.lab.simulator.protocol.log import Log
    from rebalance_monitor.lab.simulator.protocol.members import Member

NEVER = float("inf")
_TIMED = frozenset({Mode.IN_POLL, Mode.BACKGROUND, Mode.OWN_TIMER})
_AUTO = frozenset({Mode.IN_POLL, Mode.BACKGROUND})
# How often an application that commits by hand stops after a commit, and not in its work.
_POLLS_NO_MORE = 0.3


class Commits:
    """The commits of one client, whose own timer starts with it, at `now`."""

    def __init__(
        self, plan: ClientPlan, family: Family, group: Coordinator, feed: Feed, log: Log, rng: Random
    ) -> None:
        now = group.line.now
        self._plan, self._family, self._group = plan, family, group
        self._feed, self._log, self._rng = feed, log, rng
        self.owned: Owned = []
        self._ends = feed.of(self.owned)
        self.assigned = b""
        self._listed = b""
        self._offsets: tuple[int, ...] = ()
        self._next = now + plan.interval
        self._done = now
        self._works_until = NEVER

    def own(self, owned: Owned, at: float) -> None:
        """Take an assignment at `at` (ms): its first commit may repeat what its predecessor had committed.

        An application that does not poll has nothing of it to commit.
        """
        if owned != self.owned or not self.assigned:
            self.owned, self._listed = owned, partitions_bytes(owned)
            self._ends = self._feed.of(owned)
            self.assigned = wire.assignment(owned)
        self._offsets = self._ends.at(self._works_until) if self._works_until < at else ()
        if self._next == NEVER and self._plan.mode in AFTER_WORK:
            # It had nothing to wait for: a KIP-848 member joins without partitions.
            self._next = self._after_work(at)

    def begin(self, at: float) -> None:
        """Begin a generation: its first commit."""
        plan, random = self._plan, self._rng.random
        self._done = at
        match plan.mode:
            case Mode.BACKGROUND if not self._family.timer_with_generation:
                self._next += max(0, -(-(at - self._next) // plan.interval)) * plan.interval
            case Mode.IN_POLL | Mode.BACKGROUND:
                self._next = at + plan.interval + self._lag()
            case Mode.OWN_TIMER:
                self._next = max(self._next, at + random() * plan.gap)
            case Mode.NEVER:
                self._next = NEVER
            case _:
                self._next = self._after_work(at)

    def stall(self, at: float) -> None:
        """Let the application work on what it has from `at` on."""
        self._works_until = at

    def go_on(self, at: float) -> None:
        """Let the application poll again: what was due meanwhile is due now."""
        self._works_until = NEVER
        self._next = max(self._next, at + self._rng.random() * self._family.commit_lag)

    def work_begins(self, at: float) -> float:
        """Give when the application's next piece of work begins: after a commit, if it commits by hand."""
        if self._plan.mode in AFTER_WORK:
            return max(at, min(self._next, at + 2 * self._plan.gap))
        return at

    def last_poll(self, at: float) -> float:
        """Draw when one that stalls at `at` (ms) has polled last.

        An application that commits each batch may poll no more after a commit: its last poll began the batch.
        """
        random = self._rng.random
        if self._plan.mode not in AFTER_WORK or random() >= _POLLS_NO_MORE:
            return at
        return at - min(2 * random() * self._plan.gap, self._plan.poll / 2)

    def skip(self, until: float) -> None:
        """Let commits up to `until` (ms) be lost."""
        self._done = max(self._done, until)
        while self._next < until:
            self._advance(max(self._next, until - self._plan.interval))

    def write(self, until: float, member: Member | None) -> None:
        """Write the commits of a stretch up to `until` (ms); without a member none is accepted."""
        if until <= self._done:
            return
        begun, self._done = self._done, until
        if member is None or self._plan.mode is Mode.NEVER:
            return
        if self._plan.mode is not Mode.BACKGROUND:
            until = min(until, self._works_until)
        while self._next <= until:
            at = self._next
            if at >= begun:
                self.commit(at, member)
            self._advance(at)

    def commit(self, at: float, member: Member) -> None:
        """Commit at `at`, if there is something to commit (or unchanged offsets are repeated).

        A coordinator that is away, or awaits SyncGroup, accepts none.
        """
        mode = self._plan.mode
        if not self.owned or mode is Mode.NEVER or not self._group.accepts:
            return
        offsets = self._ends.at(min(at, self._works_until))
        if offsets == self._offsets and not (self._family.commits_idle and mode in _AUTO):
            return
        self._offsets = offsets
        member.last_commit = at
        self._log.commit(at, self._group.plan.name, self._listed, offsets)
        if self._group.commits_arm and mode is not Mode.TRANSACTION and at > member.armed:
            member.armed = at

    def _advance(self, at: float) -> None:
        """Set the commit after the one at `at`."""
        timed = self._plan.mode in _TIMED
        self._next = at + self._plan.interval + self._lag() if timed else self._after_work(at)

    def _lag(self) -> float:
        """Draw how late (ms) a commit is that was due: until the next poll, where the application works."""
        random, plan = self._rng.random, self._plan
        if plan.mode is not Mode.BACKGROUND and random() < plan.work:
            return random() * plan.gap
        return random() * self._family.commit_lag

    def _after_work(self, at: float) -> float:
        """Give when the work on what comes next after `at` is done."""
        begun = max(self._ends.next_after(at), at)
        return begun + self._plan.gap * (0.5 + self._rng.random())
