"""The dispatcher without its thread, its files and its clock: findings in, notifications for sinks out.

Pure but for its state, which the caller keeps: `Memory` before anything is handed to a sink, and again once a
sink has answered. A process that dies in between finds the attempt in its memory and sends the same key
again, saying that it may have arrived. One notification per way out is under way at a time.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from rebalance_monitor.alerts.dispatch.failing import (
    Refusals,
    is_blind,
    rescue,
    resolve_removed_receivers,
    sink_failing,
)
from rebalance_monitor.alerts.dispatch.plan import Memory, Outgoing, Plan, WayOut, in_one
from rebalance_monitor.alerts.dispatch.retry import Pace
from rebalance_monitor.alerts.dispatch.takeover import orphaned, renamed, rested
from rebalance_monitor.alerts.dispatch.threads import MAX_SENT, Thread, count, new_thread, phase_of, rank
from rebalance_monitor.alerts.dispatch.watchdog import KEY, Watchdog, beat
from rebalance_monitor.alerts.engine.decision import Reason
from rebalance_monitor.alerts.engine.engine import Due, Engine
from rebalance_monitor.alerts.incidents.incidents import taken
from rebalance_monitor.alerts.messages.notification import Phase
from rebalance_monitor.alerts.messages.thread import message_of_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from rebalance_monitor.alerts.engine.engine import Way
    from rebalance_monitor.alerts.incidents.alert import Alert
    from rebalance_monitor.alerts.messages.notification import SinkError
    from rebalance_monitor.coordinator.findings.finding import Finding

CATCH_UP_MS = 600_000
"""How long at most what is late waits for the monitor to catch up, ms."""
TOGETHER = 200
"""At most so many threads of one integration are repeated in one call."""
_AGAIN = frozenset({Reason.REPEAT, Reason.RESEND})
_UNLOGGED = frozenset({Reason.RESEND, Reason.SILENCED, Reason.CLOSED, Reason.WATCHDOG})


class Dispatch:
    """Not safe for several threads. `draw` gives numbers in [0, 1) for the jitter of retries."""

    def __init__(self, plan: Plan, memory: Memory, draw: Callable[[], float], now: int) -> None:
        self.plan = plan
        self.memory = memory
        self._draw = draw
        self.engine = Engine(plan.rules, memory.engine)
        self.watchdog = Watchdog(plan.watchdog)
        self._under_way: dict[str, int] = {}
        self._refusals = Refusals()
        self._looked_at = self._behind_since = -1
        self.broken: dict[str, Exception] = {}
        self._beats: dict[Way, Thread] = {}
        self.orphaned = orphaned(memory, plan.ways)
        rested(memory)
        for alert in renamed(memory, plan.cluster, now):
            self._let_in(alert, now)
        self.engine.reroute(now)
        self._go_on_waiting(now)
        self.take(resolve_removed_receivers(memory.engine.alerts.values(), plan.ways, plan.cluster, now), now)

    def take(self, findings: Iterable[Finding], now: int) -> None:
        """Take one batch's findings, in their order."""
        routed: list[tuple[Alert, list[Way]]] = []
        batch = list(findings)
        for finding in batch:
            for alert in taken(self.memory.engine.alerts, finding, self.plan.policy):
                ways = self._let_in(alert, now)
                if alert.finding.id == finding.id:
                    routed.append((alert, ways))
        count(self.memory.threads.values(), (finding for finding in batch if not finding.history))
        for alert, ways in routed:
            if ways and not self.engine.hushed(alert, now):
                for way in ways:
                    self._thread(way, [alert]).learn(alert.finding)

    def catch_up(self, now: int, *, is_behind: bool) -> None:
        """Note that old records still wait, or no longer do; see `Engine.catch_up`.

        A monitor that stays behind notifies all the same.
        """
        if not is_behind:
            self._behind_since = -1
        elif self._behind_since < 0:
            self._behind_since = now
        waits = is_behind and now - self._behind_since < CATCH_UP_MS
        self.engine.catch_up(now, is_behind=waits)

    def _go_on_waiting(self, now: int) -> None:
        """Delay late alerts as the process before did, until a batch shows what is left to read."""
        late = [one.finding.detected_at for one in self.memory.engine.alerts.values() if one.finding.late]
        since = min(max(late, default=now - CATCH_UP_MS), now)
        if now - since < CATCH_UP_MS:
            self._behind_since = since
            self.engine.catch_up(now, is_behind=True)

    def hurry(self, now: int) -> None:
        """Send alerts about a blind monitor at once, because the process ends; its watchdog stops."""
        self.watchdog.batch_at = -1
        alerts = self.memory.engine.alerts
        self.engine.hurry({name for name, alert in alerts.items() if is_blind(alert.finding)}, now)

    def advance(self, now: int) -> None:
        """Let what is due at `now` become pending, and make failing ways alerts of their own."""
        if not 0 <= self._looked_at <= now:
            self._set_back(now)
        self._looked_at = now
        if 0 <= self._behind_since <= now - CATCH_UP_MS:
            self.engine.catch_up(now, is_behind=False)
        for name, since in self._under_way.items():
            if now - since >= self.plan.sink_failing_ms:
                self._pace(name).hang(since)
        self._refusals.keep(self.memory.threads, self.memory.engine.pending)
        for name, pace in self.memory.paces.items():
            refused = self._refusals.why(name)
            if pace.alarmed < 0 and (refused or pace.is_failing(now, self.plan.sink_failing_ms)):
                pace.alarmed = now
                self.take([sink_failing(self.plan.cluster, name, pace, now, refused)], now)
            elif pace.alarmed >= 0 and pace.failing_since < 0 and not refused:
                self.take([sink_failing(self.plan.cluster, name, pace, now)], now)
                pace.alarmed = -1
        self.engine.due(now)
        self._tidy()

    def ready(self, now: int) -> list[Outgoing]:
        """Return what is to be handed to the sinks now, at most one for each; it counts as under way.

        What cannot be made for one way out is in `broken`, and holds up no other.
        """
        found = []
        self.broken = {}
        for facts in self.plan.ways.values():
            if facts.name in self._under_way or not self._pace(facts.name).may_send(now, facts.per_minute):
                continue
            try:
                outgoing = self._next(facts, now)
            except Exception as error:  # noqa: BLE001 - a bug, which the caller tells
                self.broken[facts.name] = error
                continue
            if outgoing is not None:
                self._under_way[facts.name] = now
                self._pace(facts.name).take()
                found.append(outgoing)
        return found

    def arrived(self, outgoing: Outgoing, state: dict[str, str], now: int) -> None:
        """Mark a notification as delivered; `state` is what its sink returned."""
        self._under_way.pop(outgoing.way[0], None)
        self._pace(outgoing.way[0]).succeed()
        for one, returned in outgoing.parts(state):
            self._refusals.known.pop(one.way, None)
            thread = self._threads_of(one).get(one.way)
            if thread is not None:
                thread.arrived(one.notification, returned, now)
                if one.notification.phase is Phase.RESOLVED:
                    del self._threads_of(one)[one.way]
        if outgoing.due.reason not in _UNLOGGED:
            self.engine.sent(outgoing.due, now)

    def failed(self, outgoing: Outgoing, error: SinkError, now: int) -> None:
        """Mark a notification as failed, or of unknown outcome; it stays pending."""
        self._under_way.pop(outgoing.way[0], None)
        self._pace(outgoing.way[0]).fail(error, now, self._draw())
        for one, _ in outgoing.parts({}):
            # Which of several is refused shows when each is sent by itself.
            if error.permanent and not outgoing.along:
                self._refusals.known[one.way] = (now, error.why)
            thread = self._threads_of(one).get(one.way)
            if thread is not None:
                thread.attempts += error.permanent or not outgoing.along
                # A service that refuses for good has not taken this attempt; an earlier one it may have.
                thread.uncertain = one.notification.maybe_sent or not error.permanent

    def withdraw(self, outgoing: Outgoing) -> None:
        """Take back what was never handed to its sink."""
        self._under_way.pop(outgoing.way[0], None)
        for one, _ in outgoing.parts({}):
            thread = self._threads_of(one).get(one.way)
            if thread is not None:
                thread.uncertain = one.notification.maybe_sent

    def wake(self, now: int) -> int | None:
        """Return the next time (ms) at which there may be something to do."""
        pending = (way for way in self.memory.engine.pending if not self._refusals.waits(way, now))
        waiting = {name for name, _ in pending} | self._beating(now)
        facts = [way for name, way in self.plan.ways.items() if name in waiting - self._under_way.keys()]
        times = [self._pace(way.name).wake(now, way.per_minute) for way in facts]
        look = self.engine.next_due_at()
        return min(times if look is None else [look, *times], default=None)

    def _beating(self, now: int) -> set[str]:
        """Return the ways out that the watchdog is due on."""
        return {name for name in self.plan.watchdog.ways if self.watchdog.is_due(name, now)}

    def _set_back(self, now: int) -> None:
        """Bound all waits from `now` on: the clock may have been ahead when they were set."""
        self.engine.shorten(now + self.plan.policy.hold_ms)

    def _let_in(self, alert: Alert, now: int) -> list[Way]:
        """Return the ways out whose threads this alert belongs to."""
        also = [] if alert.resolved(now) else rescue(alert, self.plan.rules, self.memory.paces)
        keys = self.engine.take(alert, now, also)
        ways = [(name, key) for key in keys for name in self.engine.ways_of(key)]
        for way in ways:
            thread = self._thread(way, [alert])
            thread.concern(alert)
            if len(thread.groups) > thread.room:
                thread.trim(self.engine.alerts_of(way[1]))
        return ways

    def _thread(self, way: Way, alerts: list[Alert]) -> Thread:
        thread = self.memory.threads.get(way)
        if thread is None:
            entry = self.memory.engine.log.get(way)
            thread = self.memory.threads[way] = new_thread(way, alerts, -1 if entry is None else entry.at)
        return thread

    def _threads_of(self, outgoing: Outgoing) -> dict[Way, Thread]:
        return self._beats if outgoing.due.reason is Reason.WATCHDOG else self.memory.threads

    def _pace(self, name: str) -> Pace:
        return self.memory.paces.setdefault(name, Pace())

    def _tidy(self) -> None:
        """Forget threads that were never delivered and have no alerts left."""
        groups = self.memory.engine.groups
        for way, thread in list(self.memory.threads.items()):
            if way[1] not in groups and not (thread.may_be_known and self.plan.ways[way[0]].closes):
                del self.memory.threads[way]

    def _next(self, facts: WayOut, now: int) -> Outgoing | None:
        """Return the first notification of this way out that has something to say; resent ones in one."""
        if self.watchdog.is_due(facts.name, now):
            return self._beat(facts.name, now)
        found: list[Due] = []
        for due in self._dues(facts, now):
            alone = due.reason is not Reason.RESEND or self.memory.threads[due.way, due.key].attempts > 0
            if not (found and alone):
                found.append(due)
            if alone or len(found) == TOGETHER:
                break
        return in_one([self._made(facts, due, now) for due in found]) if found else None

    def _made(self, facts: WayOut, due: Due, now: int) -> Outgoing:
        quiet, way = facts.name in self.plan.rules.quiet, (due.way, due.key)
        alerts = [*due.firing, *(() if quiet else due.resolved)]
        thread = self._thread(way, alerts)
        phase = self._phase(thread, due)
        message = message_of_thread(tuple(alerts), now, thread.tally, self.plan.links, thread.opened_at)
        made = thread.notification(way, phase, alerts, message)
        thread.uncertain = True
        if not thread.is_known_to_receiver:
            # It may arrive without an answer, and what is not heard of again would stay open there.
            thread.last_alerts = alerts[:MAX_SENT]
        return Outgoing(way, due, made)

    def _phase(self, thread: Thread, due: Due) -> Phase:
        if due.reason is Reason.SILENCED:
            return Phase.ACKNOWLEDGED
        return phase_of(thread, firing=bool(due.firing), again=due.reason in _AGAIN)

    def _dues(self, facts: WayOut, now: int) -> Iterator[Due]:
        """Yield what is due on this way out, as things are now."""
        threads = self.memory.threads
        held = self._refusals.waits
        pending = self.memory.engine.pending
        mine = [way for way in pending if way[0] == facts.name and not held(way, now)]
        for way in sorted(mine, key=lambda way: rank(threads.get(way), way)):
            due = self.engine.present(*way, now) or self._unclear(way, now)
            if due is None:
                self.engine.dropped(*way)
            else:
                yield due
        if not (facts.closes or facts.resend_ms):
            return
        # What has to be repeated soon is repeated along with what is due.
        soon = replace(facts, resend_ms=(facts.resend_ms or 0) // 2)
        known = [item for item in threads.items() if item[0][0] == facts.name and item[1].may_be_known]
        # The longest unrepeated thread comes first: with little room all are repeated in turn.
        for way, thread in sorted(known, key=lambda item: item[1].notified_at):
            due = None if held(way, now) else self._unasked(way, thread, facts, now)
            if due is not None:
                facts = soon if due.reason is Reason.RESEND else facts
                yield due

    def _unclear(self, way: Way, now: int) -> Due | None:
        """Return the end of a resolved alert whose last attempt may have arrived."""
        thread = self.memory.threads.get(way)
        if (
            thread is None
            or thread.is_known_to_receiver
            or not thread.uncertain
            or way[0] in self.plan.rules.quiet
        ):
            return None
        firing, resolved = self.engine.shown(*way, now)
        return Due(*way, (), resolved, Reason.ALL_RESOLVED) if resolved and not firing else None

    def _unasked(self, way: Way, thread: Thread, facts: WayOut, now: int) -> Due | None:
        """Return the notifications that the engine does not ask for: resent, silenced, ended unseen."""
        name, key = way
        if key not in self.memory.engine.groups:
            if not (facts.closes and thread.last_alerts) or self.engine.is_muted(key, now):
                return None
            ended = tuple(replace(alert, ends_at=min(alert.ends_at, now)) for alert in thread.last_alerts)
            return Due(name, key, (), ended, Reason.CLOSED)
        if not thread.is_known_to_receiver:
            return None
        silenced = self.engine.silenced(name, key, now)
        if not silenced:
            thread.acknowledged = False
        elif facts.closes and not thread.acknowledged:
            return Due(name, key, silenced, (), Reason.SILENCED)
        # After a clock was set back, at once: the service forgets by its own.
        if facts.resend_ms is None or 0 <= now - thread.notified_at < facts.resend_ms:
            return None
        firing, resolved = self.engine.shown(name, key, now)
        return Due(name, key, firing, resolved, Reason.RESEND) if firing else None

    def _beat(self, name: str, now: int) -> Outgoing:
        self.watchdog.tried_at[name] = now
        way: Way = (name, KEY)
        thread, alert, message = beat(way, self._beats.get(way), self.plan.cluster, now)
        self._beats[way] = thread
        phase = Phase.REPEATED if thread.is_known_to_receiver else Phase.OPENED
        made = thread.notification(way, phase, [alert], message)
        return Outgoing(way, Due(name, KEY, (alert,), (), Reason.WATCHDOG), made)
