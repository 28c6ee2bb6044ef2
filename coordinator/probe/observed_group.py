"""The probe samples of one group that is rebalancing, or was within the storm window."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from rebalance_monitor.coordinator.deadlines import not_rejoined
from rebalance_monitor.coordinator.deadlines.not_rejoined import Awaited
from rebalance_monitor.coordinator.findings.finding import HELD_BY, join_end
from rebalance_monitor.coordinator.findings.kinds import Severity
from rebalance_monitor.coordinator.probe.answers import after
from rebalance_monitor.coordinator.probe.newcomers import Newcomer, add_newcomers
from rebalance_monitor.coordinator.state.state_machine import Status

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from rebalance_monitor.coordinator.findings.finding import Finding
    from rebalance_monitor.coordinator.probe.sample import RebalancingGroup
    from rebalance_monitor.coordinator.settings import DetectionSettings

_SEPARATE, _MIN_LOOKS = 3, 10
_SPARE = 10
_LISTED_MS, _MAX_LISTED, _MAX_TURNS = 60_000, 100, 8
# The first sample of a join phase comes so late at most, and so does the last one before its end.
_SOON_MS = 2_500


class Watched(msgspec.Struct):
    """One group; times in ms, incidents "" if none is open.

    Samples: `sightings` are the times of samples that show it rebalancing, `counted` those that count towards
    a storm, `runs` those of them in which a join phase began. `formed`, `failed`: the first samples of a
    generation that awaits its assignment, and of the join phase after one that failed. `opened`: its first
    sample, `count`: how many since then, `unseen`: the sample before the first, `state`: its state in the
    last one. `since`: when its join phase began, `before`: when the last one did, `again`: it was begun again
    since then.

    Members: `listed`: member id -> the last sample that lists it. `lists`: the samples that list members.
    `forgotten`: the last sample that lists a member which is not remembered. `newcomers`: see `newcomers.py`.

    Incidents: `open`, `stuck` and `storm`; `stuck_since` and `storm_at`: when their events began. Of the
    storm: `worst`, `worst_at`: its published offender, and when; `updates`: how often it was updated. Of the
    stuck join phase: `awaited`: the members that it waits for, if known; `loudness`: its published severity;
    `threshold`: the duration from which on it is stuck; `stuck_updates`: how often it was updated; `ends_at`:
    when the coordinator removes the missing members, -1 unknown; `removed`: how many it removed then.
    """

    opened: int
    since: int
    generation: int | None
    group_type: str = msgspec.field(name="type")
    protocol_type: str
    storm_at: int
    stuck_since: int = -1
    again: bool = False
    count: int = 0
    state: str = ""
    open: str = ""
    stuck: str = ""
    storm: str = ""
    sightings: list[int] = msgspec.field(default_factory=list)
    counted: list[int] = msgspec.field(default_factory=list)
    runs: list[int] = msgspec.field(default_factory=list)
    listed: dict[str, int] = msgspec.field(default_factory=dict)
    lists: list[int] = msgspec.field(default_factory=list)
    forgotten: int = -1
    unseen: int = -1
    newcomers: list[Newcomer] = msgspec.field(default_factory=list)
    worst: str = ""
    worst_at: int = -1
    updates: int = 0
    loudness: str = ""
    threshold: int = -1
    stuck_updates: int = 0
    ends_at: int = -1
    awaited: Awaited = Awaited()
    removed: int = 0
    before: int = -1
    formed: list[int] = msgspec.field(default_factory=list)
    failed: list[int] = msgspec.field(default_factory=list)

    def is_another(self, at: int, fresh_ms: int) -> bool:
        """Whether a generation completed between two samples, so that `at` shows another join phase."""
        last = self.sightings[-1] if self.sightings else at
        return last < self.since and at - last > fresh_ms

    def turn(self, seen: RebalancingGroup, at: int) -> bool:
        """Take its state at `at` (ms); return whether its generation failed, so that a join phase began."""
        failed = self.state == Status.COMPLETING and seen.state == Status.PREPARING
        if seen.state == Status.COMPLETING != self.state:
            self.formed = [*self.formed, at][-_MAX_TURNS:]
        self.state = seen.state
        if failed:
            self.since, self.again, self.failed = at, True, [*self.failed, at][-_MAX_TURNS:]
        return failed

    def change_type(self, seen: RebalancingGroup, at: int) -> None:
        """Go on as a group of another type, if it is seen as one: what it waits for begins at `at` (ms)."""
        if seen.group_type != self.group_type:
            self.group_type, self.protocol_type, self.since = seen.group_type, seen.protocol_type, at

    def take(self, looks: Sequence[int], members: Collection[tuple[str, str, str, str]]) -> None:
        """Store the members in the last of `looks`.

        Keep those of a join phase after it has ended: its record can arrive after the next one has begun.
        """
        now = looks[-1]
        if self.opened == now:
            self.unseen = looks[-2] if len(looks) > 1 else -1
        there = {member[0]: now for member in members}
        if self.lists and max(now - _LISTED_MS, self.forgotten) < self.lists[-1]:
            self.newcomers = add_newcomers(self.newcomers, members, self.listed, now, looks[0] - 1)
        # Members of the newest list are forgotten last.
        known = {name: at for name, at in self.listed.items() if name not in there} | there
        since = self.before if now - self.since < _LISTED_MS else self.since
        fresh = [name for name, at in known.items() if at > min(now - _LISTED_MS, since - 1)]
        self.listed = {name: known.pop(name) for name in fresh[-_MAX_LISTED:]}
        self.forgotten = max([self.forgotten, *known.values()])
        self.lists += [now] * bool(members)
        self._trim(looks)

    def _trim(self, looks: Sequence[int]) -> None:
        """Forget the samples of a long join phase, except the first ones and the ones in `looks`."""
        if len(self.sightings) <= 2 * len(looks) + _SPARE:
            return
        firsts = self._firsts()
        self.sightings = [at for at in self.sightings if at >= looks[0] or at in firsts]
        self._keep_lists(looks[0] - 1, firsts)
        self.counted = [at for at in self.counted if at >= looks[0]]
        self.runs = [at for at in self.runs if at >= looks[0]]

    def _firsts(self) -> set[int]:
        """Return the first samples, and member lists, since it was seen and since its join phase began."""
        marks, kept = (self.opened, self.since), (self.sightings, self.lists)
        return {next((at for at in times if at >= mark), -1) for times in kept for mark in marks}

    def _keep_lists(self, since: int, firsts: Collection[int]) -> None:
        """Forget lists that are not after `since`, except `firsts` and each first list without a member."""
        last = set(self.listed.values())
        before = [-1, *self.lists[:-1]]
        pairs = zip(before, self.lists, strict=False)
        self.lists = [at for one, at in pairs if at > since or at in firsts or one in last]

    @property
    def is_seen_from_its_beginning(self) -> bool:
        """Whether its join phase began after a generation, or a sample just before did not show it."""
        return self.since > self.opened or (self.unseen >= 0 and self.since - self.unseen <= _SOON_MS)

    def is_gone(self, members: Collection[str], at: int) -> bool:
        """Whether one of these members is no longer listed at `at` (ms), and the phase goes on."""
        return bool(self.lists) and any(0 <= self.listed.get(one, at) < at - _SOON_MS for one in members)

    def explain(self, after: int, until: int) -> None:
        """Drop the samples between the two times from the count of storms."""
        self.counted = [at for at in self.counted if not after < at <= until]
        self.runs = [at for at in self.runs if not after < at <= until]

    def forget(self, since: int) -> None:
        """Forget the samples up to `since`, except the first ones of a join phase seen after it."""
        firsts = self._firsts() if after(self.sightings, since) else set()
        self.sightings = [at for at in self.sightings if at > since or at in firsts]
        self.counted = [at for at in self.counted if at > since]
        self.runs = [at for at in self.runs if at > since]
        self._keep_lists(since, firsts)

    def is_calm(self, at: int, settings: DetectionSettings) -> bool:
        """Whether, at `at`, no sample of a storm's window counts."""
        return not after(self.counted, at - settings.storm_sightings_window_ms)

    def may_storm(self, at: int, settings: DetectionSettings) -> bool:
        """Whether, at `at`, enough samples show it in enough separate runs, however many do not."""
        since = at - settings.storm_sightings_window_ms
        return after(self.runs, since) >= _SEPARATE and after(self.counted, since) >= _MIN_LOOKS

    def storms(self, looks: Sequence[int], at: int, settings: DetectionSettings) -> bool:
        """Whether, at `at`, that many samples show it, and enough of the latest `looks` do.

        `looks`: the samples that its coordinator answered, ascending; a sample that shows it counts anyway.
        """
        if not self.may_storm(at, settings):
            return False
        since = at - settings.storm_sightings_window_ms
        looked = sorted({*looks[len(looks) - after(looks, since) :], *self.counted})
        looked = looked[len(looked) - after(looked, since) :]
        often = after(self.counted, since) >= settings.storm_sightings_share * len(looked)
        return often and at - looked[0] >= settings.storm_sightings_window_ms / 2

    def stuck_for(self, at: int) -> int:
        """Return how long the stuck join phase has lasted at `at`, or lasted until the next one began."""
        return (self.since if self.since > self.stuck_since else at) - self.stuck_since

    def set_back(self, at: int) -> None:
        """Go on from `at`: the clock that saw the rest was ahead."""
        self.sightings, self.counted, self.runs, self.lists = [], [], [], []
        self.formed, self.failed = [], []
        self.listed, self.forgotten, self.unseen, self.newcomers = {}, at, -1, []
        self.opened, self.since, self.before = min(self.opened, at), min(self.since, at), -1
        self.stuck_since, self.storm_at = min(self.stuck_since, at), min(self.storm_at, at)
        self.worst_at = min(self.worst_at, at)


def around(group: Watched | None, looks: Sequence[int]) -> Sequence[int]:
    """Return `looks`, ascending, with the sample before the group was first seen, however old."""
    if group is None or not looks or not 0 <= group.unseen < looks[0]:
        return looks
    return [group.unseen, *looks]


def end_barrier(groups: Mapping[str, Watched], finding: Finding) -> None:
    """Note that a generation of one of the groups completed: later samples show another join phase."""
    group = groups.get(finding.group or "")
    if group is not None and finding.at >= group.since:
        if group.stuck:
            _end_stuck(group, finding)
        group.before, group.since, group.again = group.since, finding.at, False


def _end_stuck(group: Watched, finding: Finding) -> None:
    """Take the generation that ended a stuck join phase: it shows which members its deadline removed.

    A member that was listed until then lived. That is critical, even where a session takes as long.
    """
    ended, gone = join_end(finding), not_rejoined.awaited_members(finding)
    there = {name for name, at in group.listed.items() if at >= ended - _SOON_MS}
    lived = not_rejoined.removed_alive(finding)
    if 0 <= group.ends_at <= ended + _SOON_MS and (removed := not_rejoined.departed(finding, there)).members:
        gone, group.loudness, group.removed = removed, Severity.CRITICAL.value, len(removed.members)
        lived |= dict.fromkeys(there, 1.0)
    if gone.members and (lived or HELD_BY in finding.details or not group.awaited.members):
        group.awaited = gone


def begin_observation(
    before: Watched | None, at: int, group: RebalancingGroup, generation: int | None
) -> Watched:
    """Begin to remember a group that is seen rebalancing from `at` (ms) on; `before`: what still is of it."""
    fresh = Watched(at, at, generation, group.group_type, group.protocol_type, at)
    if before is not None:
        fresh.sightings, fresh.counted, fresh.runs = before.sightings, before.counted, before.runs
        fresh.storm, fresh.storm_at, fresh.listed = before.storm, before.storm_at, dict(before.listed)
        fresh.lists, fresh.forgotten, fresh.newcomers = before.lists, before.forgotten, before.newcomers
        fresh.before, fresh.formed, fresh.failed = before.since, before.formed, before.failed
        fresh.worst, fresh.worst_at, fresh.updates = before.worst, before.worst_at, before.updates
    return fresh
