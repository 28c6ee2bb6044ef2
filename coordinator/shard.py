"""The coordinator of one state key: rows in offset order, then a clock row; findings and summaries out.

Every record is taken once, by offset. A row below the end offset found at start is history: it rebuilds
state and its findings say so. Clocks never go back, and nothing that only time decides happens while
catching up. Only where the driver's clock itself was set back does the state's go back with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rebalance_monitor.coordinator import clock, removal, summary
from rebalance_monitor.coordinator.checks import unsubscribed_topics
from rebalance_monitor.coordinator.classic import classic_group
from rebalance_monitor.coordinator.commits import positions, topic_names, trace
from rebalance_monitor.coordinator.commits.owners import Owners
from rebalance_monitor.coordinator.context import Scene
from rebalance_monitor.coordinator.deadlines import not_rejoined, silent_members, stuck_rebalances
from rebalance_monitor.coordinator.findings.outputs import (
    FindingOut,
    GroupOut,
    Output,
    RemovedOut,
    StatOut,
    count,
    counters,
)
from rebalance_monitor.coordinator.lag import publishing
from rebalance_monitor.coordinator.lifecycle import close_incidents, empty_groups
from rebalance_monitor.coordinator.modern import epoch_group
from rebalance_monitor.coordinator.rebalance import visits
from rebalance_monitor.coordinator.state.group_state import GroupState
from rebalance_monitor.coordinator.state.roster import Roster
from rebalance_monitor.coordinator.state.shard_state import PendingRemoval, ShardState
from rebalance_monitor.coordinator.state.store import GroupStore
from rebalance_monitor.coordinator.state.wakes import Wakes
from rebalance_monitor.decoders import Decoded, GroupMetadataValue, decode_record, rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rebalance_monitor.coordinator.findings.finding import Finding
    from rebalance_monitor.coordinator.settings import DetectionSettings
    from rebalance_monitor.coordinator.state.group_state import Member
    from rebalance_monitor.decoders import Row
    from rebalance_monitor.decoders.batches.batch import Read

_QUIET_CLOCKS, _NAMES = 10, 1_000
# Commits so far apart (ms), and so many of them, say when a batch's clients were served.
_SERVED_MS, _SERVED = 2_000, 1_000
# The end offset may never be read: markers of transactions and compaction leave offsets without a record.
_RECHECK_MS = 1_000
_COMMITTING = frozenset({classic_group.CLASSIC, epoch_group.CONSUMER, epoch_group.STREAMS})
_COMMIT_TYPES = frozenset({b"\0\0", b"\0\1"})


def new_shard_state(shard: int, bucket: int, catching_up_until: int | None) -> ShardState:
    """State of a key never seen before; None says that its first row is live already."""
    until = None if catching_up_until is not None and catching_up_until <= 0 else catching_up_until
    return ShardState(shard, bucket, until, GroupStore(), complete=catching_up_until is not None)


def _run_of(row: Row) -> trace.Run:
    # A request may bring a time of its own, also one that has not come yet.
    return min(row.commit_ts, row.record_ts), *rows.run_parts(row), row.record_ts


def _outputs(findings: Iterable[Finding]) -> list[Output]:
    return [FindingOut(finding) for finding in findings]


class ShardCoordinator:
    """Applies rows and clocks to `state`, which it changes in place.

    `history_end`: rows below this offset are history, even where quiet clocks have ended the catching up: a
    limited batch may read nothing but offsets that compaction has emptied. `summaries`: False for a caller
    that has no use for them, nor for positions. `read` reads records. `reader`: names the process that takes
    positions; one that is new to the state is given all of them.
    """

    def __init__(
        self,
        state: ShardState,
        settings: DetectionSettings,
        cluster: str,
        history_end: int = 0,
        *,
        summaries: bool = True,
        read: Read = decode_record,
        reader: int = -1,
    ) -> None:
        self.state = state
        self._history_end = history_end
        self._settings = settings
        self._cluster = cluster
        self._summaries = summaries
        self._read = read
        self._reader = reader
        self._wakes = Wakes(state.groups)
        self._owners: dict[str, Owners] = {}
        self._by_group: dict[str, DetectionSettings] = {}
        self._came: dict[str, GroupState] = {}
        self._served: list[int] = []
        self._active: set[str] = set()
        self.waiting: dict[str, list[Row]] = {}
        """Group -> its commits that wait, in the order of their offsets."""

    def on_row(self, row: Row, *, waits: bool = False) -> list[Output]:
        """Take one row; rows at or before an offset already taken change nothing. Never raises on content.

        `waits`: it is commits of history, which wait for others of their group. They are to be settled before
        any other row of the group, before history ends, and before the clock.
        """
        state = self.state
        if row.first_offset <= state.last_offset:
            return []
        until = state.catching_up_until
        out = self._go_live(row.record_ts) if until is not None and row.first_offset >= until else []
        history = self._progress(row)
        out += self._decide_pending(row, state.pending) if state.pending else []
        if row.row_kind == rows.COMMIT_RUN:
            if waits:
                self.waiting.setdefault(row.group, []).append(row)
            else:
                out += self._on_commits(row.group, (row,), history=history)
        else:
            self._wakes.touched.add(row.group)
            out += self._on_single(row, history=history)
        if state.catching_up_until is not None and row.last_offset + 1 >= state.catching_up_until:
            out += self._go_live(row.record_ts)
        return out

    def settle(self, group: str) -> list[Output]:
        """Take the commits of a group that wait."""
        return self._on_commits(group, self.waiting.pop(group), history=True)

    def on_clock(self, now: int) -> list[Output]:
        """Take a clock of `now` ms; clocks that go back count as the newest one."""
        out = self.tick(now)
        for group in self.due():
            out += self.wake(group)
        return out + self.stats()

    def tick(self, now: int) -> list[Output]:
        """Move the clock, the first part of `on_clock`: for callers that let no group harm another."""
        state = self.state
        state.now = max(state.now, now)
        out: list[Output] = []
        if state.pending is not None and state.now >= state.pending.ts + removal.CLOSES_AFTER_MS:
            out += self._remove(state.pending)
        state.idle_clocks = 0 if state.rows else state.idle_clocks + 1
        if state.catching_up_until is not None and state.idle_clocks >= _QUIET_CLOCKS:
            out += self._go_live(state.now)
        return out

    def set_back(self, now: int) -> list[Output]:
        """Go on from `now` (ms) where the clock was ahead of it: deadlines start anew, as after a start."""
        state = self.state
        if now < state.now:
            state.now = state.live_since = now
            state.unpublished = dict.fromkeys(state.unpublished, now)
            for group in state.groups.values():
                group.wake, group.last_summary = 0, min(group.last_summary, now)
            self._wakes.forget()
        return []

    def due(self) -> list[str]:
        """Return the groups that the clock has something to do for: none while catching up."""
        state = self.state
        self._active |= self._wakes.touched
        if len(self._active) > 2 * len(state.groups.live) + _NAMES:
            # Names that only commit come and go, and nobody need ask for the resting groups.
            self._active.intersection_update(state.groups.live)
        if state.catching_up_until is None:
            return self._wakes.due(state.now)
        self._wakes.forget()
        return []

    def take_resting(self) -> list[str]:
        """Return the live groups without a row since the last call; what else is kept of them is dropped."""
        active, self._active = self._active, set()
        found = [group for group in self.state.groups.live if group not in active]
        for group in found:
            self._owners.pop(group, None)
        return found

    def _progress(self, row: Row) -> bool:
        """Note how far the shard was read; True while that is history."""
        state = self.state
        state.rows += 1
        state.complete |= row.first_offset == 0
        if row.first_offset > state.last_offset + 1 > 0:
            if state.committing and row.first_offset == state.last_offset + 2:
                publishing.on_marker(state)
            state.hole = row.first_offset
        state.committing = row.group if row.row_kind == rows.COMMIT_RUN else ""
        state.last_offset, state.last_ts = row.last_offset, max(state.last_ts, row.record_ts)
        if state.catching_up_until is None and row.first_offset < self._history_end:
            state.catching_up_until = self._history_end
        return state.catching_up_until is not None

    def _go_live(self, at: int) -> list[Output]:
        self.state.catching_up_until = None
        self._wakes.forget()
        self.state.orphans = {}
        self.state.live_since = max(self.state.now, at)
        names = [name for name in self.state.groups if self._settings.is_always_on(name)]
        there = ((self.state.groups[name], self._scene(name, -1, at, history=False)) for name in names)
        return _outputs(one for state, scene in there for one in empty_groups.stands_empty(state, scene))

    def _scene(self, group: str, offset: int, ts: int, *, history: bool) -> Scene:
        settings = self._settings_of(group)
        complete, whole = self.state.complete, self.state.hole if ts < self.state.resumed_at else -1
        return Scene(self._cluster, self.state.shard, group, settings, offset, ts, history, complete, whole)

    def _settings_of(self, group: str) -> DetectionSettings:
        settings = self._settings if not self._settings.groups else self._by_group.get(group)
        if settings is None:
            settings = self._by_group[group] = self._settings.for_group(group)
        return settings

    def _on_commits(self, name: str, batch: Sequence[Row], *, history: bool) -> list[Output]:
        """Fold runs of a group; without members it is a simple consumer, which costs nothing, or a reset."""
        for row in batch:
            self.state.commits += row.count
            if not history and (not self._served or row.record_ts >= self._served[-1] + _SERVED_MS):
                self._served.append(row.record_ts)
        groups = self.state.groups
        # Without a call for groups that were touched before.
        group = groups.live.get(name) or groups.get(name)
        if group is None:
            for row in batch:
                at, partitions, offsets, _ = _run_of(row)
                if history:
                    empty_groups.note_orphan(self.state, name, at)
                publishing.on_lone_commits(self.state, name, at, (partitions, offsets))
            return []
        self._active.add(name)
        # Without a call for groups whose positions are due already.
        if name not in self.state.unpublished:
            publishing.on_commits(self.state, name)
        try:
            if not group.members or group.group_type not in _COMMITTING:
                return [out for row in batch for out in self._on_reset(row, group, history=history)]
            return self._fold(name, batch, group, history=history)
        finally:
            if not group.wake:
                # Commits move no deadline, or make the group due at once.
                self._wakes.touched.add(name)

    def _on_reset(self, row: Row, group: GroupState, *, history: bool) -> list[Output]:
        """Take commits of a group without members."""
        at, partitions, offsets, _ = _run_of(row)
        asks = not group.members and visits.were_evicted(group)
        back = positions.went_back(group.positions, partitions, offsets) if asks else ()
        positions.take_commits(group.positions, at, partitions, offsets)
        scene = self._scene(row.group, row.first_offset, row.record_ts, history=history)
        topics = {topic for topic, _ in rows.listed_partitions(partitions)}
        return _outputs(empty_groups.on_commit(group, scene, at, sorted(topics), back))

    def _fold(self, name: str, batch: Sequence[Row], group: GroupState, *, history: bool) -> list[Output]:
        """Take commits of a group with members."""
        names = bool(group.subscriptions.names) and topic_names.is_ambiguous(group)
        if len(batch) > 1 and (names or group.stuck.suspected):
            # Each run may change what the next one means.
            return [out for row in batch for out in self._fold(name, (row,), group, history=history)]
        found: list[Output] = []
        place = 0
        for runs in trace.together(group, map(_run_of, batch)):
            at, partitions, offsets, _ = runs[-1]
            positions.take_commits(group.positions, at, partitions, offsets, len(runs))
            if names and topic_names.on_run(group, rows.listed_partitions(partitions), at):
                self._owners.pop(name, None)
            owned = self._owned(name, group)
            # A commit of a member that was said to be silent is news of its own.
            at_once = len(runs) >= trace.FEWEST_TOGETHER and not owned.silent(partitions)
            for number, part in enumerate([runs] if at_once else [[run] for run in runs], start=place):
                begun = trace.fold(group, part, owned)
                found += self._begun(batch[number], part[-1][0], group, begun, history=history)
            place += len(runs)
        return found

    def _begun(
        self, row: Row, at: int, group: GroupState, begun: list[Member], *, history: bool
    ) -> list[Output]:
        """Take it that members have begun a commit at `at` (ms)."""
        if isinstance(group.members, Roster):
            group.members.commit(begun)
        silent = [member for member in begun if member.silent_id]
        if not silent and not group.stuck.suspected:
            return []
        group.wake = 0
        scene = self._scene(row.group, row.first_offset, row.record_ts, history=history)
        found = stuck_rebalances.settle(group, scene, "withdrawn") if group.stuck.suspected and begun else []
        return _outputs(found + silent_members.on_commit(group, scene, silent, at))

    def _owned(self, name: str, group: GroupState) -> Owners:
        """Return the owners of the group's partitions now."""
        owned = self._owners.get(name)
        if owned is None or (owned.is_stale and not owned.catch_up(group)):
            owned = self._owners[name] = Owners(group)
        return owned

    def _on_single(self, row: Row, *, history: bool) -> list[Output]:
        if row.row_kind != rows.RECORD:
            self._on_failure(row)
            return []
        self.state.records += 1
        key, value = rows.record(row)
        if key[:2] in _COMMIT_TYPES:
            return self._on_tombstone(row, key, history=history)
        found = self._read(key, value)
        if not isinstance(found, Decoded):
            count(self.state, found.reason, row, "")
            return []
        scene = self._scene(row.group, row.first_offset, row.record_ts, history=history)
        if (owned := self._owners.get(row.group)) is not None:
            owned.is_stale = True
        if found.value is None and row.group not in self.state.groups:
            self.state.orphans.pop(row.group, None)
            return []
        if found.type == classic_group.GROUP_METADATA:
            return self._on_classic(row, found, scene, len(value or b""))
        return self._on_epochs(row, found, scene) if found.type in epoch_group.GROUP_TYPES else []

    def _on_tombstone(self, row: Row, key: bytes, *, history: bool) -> list[Output]:
        group = self.state.groups.get(row.group)
        publishing.on_tombstone(self.state, row.group, group, row.record_ts, key)
        if group is None:
            return []
        scene = self._scene(row.group, row.first_offset, row.record_ts, history=history)
        return _outputs(unsubscribed_topics.on_tombstone(group, scene, key))

    def _on_classic(self, row: Row, found: Decoded, scene: Scene, size: int) -> list[Output]:
        if not isinstance(found.value, GroupMetadataValue):
            group = self.state.groups[row.group]
            if group.group_type == classic_group.CLASSIC:
                self._hold(scene)
            return []
        group = self._group(row.group)
        group.wake = 0
        self._owners.pop(row.group, None)
        return _outputs(classic_group.on_value(group, found.value, scene, size))

    def _on_epochs(self, row: Row, found: Decoded, scene: Scene) -> list[Output]:
        group = self._group(row.group)
        if found.value is None and group.group_type != epoch_group.GROUP_TYPES[found.type]:
            return []
        group.wake = 0
        if epoch_group.is_group_tombstone(found):
            self._hold(scene)
            return []
        return _outputs(epoch_group.on_record(group, found, scene))

    def _group(self, name: str) -> GroupState:
        groups = self.state.groups
        # Without a call for groups that were touched before.
        group = groups.live.get(name) or groups.get(name)
        if group is None:
            group = groups[name] = self._came.pop(name, GroupState())
            group.last_commit = self.state.orphans.pop(name, -1)
            publishing.adopt(self.state, name, group)
        return group

    def _hold(self, scene: Scene) -> None:
        """Take the group out; the next row decides whether it was removed or migrated."""
        gone = self.state.groups.pop(scene.group)
        self._owners.pop(scene.group, None)
        self.state.pending = PendingRemoval(scene.group, scene.offset, scene.ts, scene.history, gone)

    def _decide_pending(self, row: Row, held: PendingRemoval) -> list[Output]:
        to = removal.becomes(held, row)
        if not to:
            return [] if to is None else self._remove(held)
        self.state.pending = None
        self._came = {held.group: removal.handed_on(held.state)}
        scene = self._scene(held.group, held.offset, held.ts, history=held.history)
        return _outputs(removal.migrated(held.state, scene, to))

    def _remove(self, held: PendingRemoval) -> list[Output]:
        self.state.pending = None
        publishing.forget(self.state, held.group)
        scene = self._scene(held.group, held.offset, held.ts, history=held.history)
        return [*_outputs(removal.removed(held.state, scene)), RemovedOut(held.group)]

    def _on_failure(self, row: Row) -> None:
        """Count it; of a known group it may have been a generation, so no gap is claimed across it."""
        failure = rows.failure(row)
        if row.group and row.group in self.state.groups:
            self.state.groups[row.group].live = False
        count(self.state, failure.reason, row, f"{row.shard}/{row.first_offset}")

    def wake(self, group: str) -> list[Output]:
        """Evaluate the deadlines of one group at the clock; summarise it if it changed, or counts down."""
        state, now = self.state.groups[group], self.state.now
        quiet_until = clock.quiet_until(state, self._settings_of(group))
        if quiet_until > now:
            state.wake = quiet_until
            return []
        scene = self._scene(group, -1, now, history=False)
        # Session timeouts of epoch-based groups are brought up to date before their deadlines are judged.
        found = epoch_group.on_clock(state, scene) if state.group_type != classic_group.CLASSIC else []
        settings, moment = scene.settings, self._moment(state, scene)
        found += clock.report(moment)
        if found:
            moment = self._moment(state, scene)
        out = _outputs(found)
        if empty_groups.retired(state, settings, now):
            del self.state.groups[group]
            self._owners.pop(group, None)
            publishing.forget(self.state, group)
            return [*out, *_outputs(close_incidents.ended(state, scene, "expired")), RemovedOut(group)]
        ends = silent_members.countdown(state, now, moment.ahead)
        state.dirty = state.dirty or bool(ends) or not_rejoined.has_new_silence(state, settings, now)
        if state.dirty and now >= state.last_summary + settings.summary_interval_ms:
            # Again while deadlines count down, and once more when they no longer do.
            state.dirty, state.last_summary = bool(ends), now
            if self._summaries:
                said = summary.summarise(group, state, settings.summary_members, ends)
                out.append(
                    GroupOut(group, said | {"offsets_expire_at": empty_groups.expiry(state, settings)})
                )
        due = clock.due(moment)
        state.wake = due if due > now else now + _RECHECK_MS
        return out

    def _moment(self, state: GroupState, scene: Scene) -> clock.Moment:
        return clock.moment(state, scene, self.state.now, self.state.live_since, self.state.last_ts)

    def stats(self) -> list[Output]:
        """Return positions that are due and counters since the last clock, the last part of `on_clock`."""
        due = publishing.publish(self.state, self._reader) if self._summaries else []
        times, self._served = self._served[-_SERVED:], []
        served = [StatOut("served", {"shard": self.state.shard, "times": times})] if times else []
        return [*due, *counters(self.state), *served]
