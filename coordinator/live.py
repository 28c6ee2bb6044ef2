"""What probe samples show between records: rebalances in progress, stuck ones, storms that never complete.

Runs on the driver. `Live` keeps a JSON-able memory of its samples, bounded by the storm window. Consecutive
samples in which a group rebalances are one join phase, unless a generation completed within it. If one sample
has the join phase over and the next one has it begun again, a generation failed without a record. A sample
that a group's coordinator did not answer is no evidence about the group, unless it lists the group. The probe
decides only findings of its own kinds. `refine` adds bounds and the coordinator to the others and never
changes an id.
"""

from __future__ import annotations

from collections import deque
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import msgspec

from rebalance_monitor.coordinator.findings.kinds import Kind
from rebalance_monitor.coordinator.findings.massed import massed
from rebalance_monitor.coordinator.probe import expected_barriers, group_summaries
from rebalance_monitor.coordinator.probe.answers import Judged, LastAnswers, Unanswered
from rebalance_monitor.coordinator.probe.broker_outages import Outages
from rebalance_monitor.coordinator.probe.coordinator_moves import Moves
from rebalance_monitor.coordinator.probe.expected_barriers import Calm
from rebalance_monitor.coordinator.probe.last_commits import last_commits
from rebalance_monitor.coordinator.probe.observed_group import Watched, begin_observation, end_barrier
from rebalance_monitor.coordinator.probe.probe_findings import Probed
from rebalance_monitor.coordinator.probe.visibility import Visibility
from rebalance_monitor.coordinator.refine import listed_members, outages, refinement
from rebalance_monitor.coordinator.refine.after_a_move import HeldBack
from rebalance_monitor.coordinator.refine.failed_generations import with_failed
from rebalance_monitor.coordinator.refine.history import LookBack, look_back
from rebalance_monitor.coordinator.refine.outages import Reach
from rebalance_monitor.coordinator.refine.reattribution import by_evidence, timed
from rebalance_monitor.coordinator.refine.shared_incidents import OneStorm
from rebalance_monitor.coordinator.refine.suppressed import Suppressed
from rebalance_monitor.coordinator.refine.waiting_records import with_work
from rebalance_monitor.coordinator.state.state_machine import Status

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from rebalance_monitor.coordinator.deadlines.not_rejoined import Commits
    from rebalance_monitor.coordinator.departure.evidence import Departed
    from rebalance_monitor.coordinator.findings.finding import Finding, MemberEntry
    from rebalance_monitor.coordinator.lag.board import Board
    from rebalance_monitor.coordinator.probe.sample import ProbeSample, RebalancingGroup
    from rebalance_monitor.coordinator.refine.listed_members import Listed
    from rebalance_monitor.coordinator.refine.reattribution import Judge, More
    from rebalance_monitor.coordinator.refine.waiting_records import Ends
    from rebalance_monitor.coordinator.settings import DetectionSettings

    _Memory = dict[str, Any]
    _Summary = Mapping[str, Any]
    _Listed = tuple[tuple[str, str, str, str], ...]

_FRESH_MS, _NOBODY = 10_000, -1
_NONE: dict[str, Any] = {}


class Live:
    """The live part; `state` is what `snapshot` returned, None for a new start."""

    def __init__(
        self,
        settings: DetectionSettings,
        cluster: str,
        state: _Memory | None = None,
        judge: Judge = by_evidence,
    ) -> None:
        self._settings, self._judge = settings, judge
        self._probed = Probed(settings, cluster)
        self._calm = Calm(settings)
        self._read: Mapping[int, int] = {}
        self._off: Collection[int] = ()
        self._board: Board | None = None
        self._window = settings.longest_probe_window_ms
        memory = state or {}
        self._looks: list[int] = list(memory.get("looks", ()))
        self._last = LastAnswers(memory)
        self._reach = Reach(memory.get("reach"))
        self._unanswered = Unanswered(memory.get("unanswered"))
        self._groups = msgspec.convert(memory.get("groups", {}), dict[str, Watched])
        self._moves = Moves(cluster, memory)
        self._outages = Outages(settings, cluster, memory.get("outages"))
        self._one_storm = OneStorm(memory)
        self._suppressed = Suppressed(memory.get("untold"))
        self._held = HeldBack(memory.get("held", ()))
        self._visibility = Visibility(cluster, memory.get("visibility"))

    def snapshot(self) -> dict[str, Any]:
        """JSON-able memory for the ledger."""
        return {
            "looks": self._looks,
            **self._last.snapshot(),
            "reach": self._reach.snapshot(),
            "unanswered": self._unanswered.snapshot(),
            "groups": msgspec.to_builtins(self._groups),
            **self._moves.snapshot(),
            "outages": self._outages.snapshot(),
            **self._one_storm.snapshot(),
            "untold": self._suppressed.snapshot(),
            "held": self._held.snapshot(),
            "visibility": self._visibility.snapshot(),
        }

    @property
    def opened(self) -> frozenset[str]:
        """Incidents that the probe has opened and will resolve."""
        groups = self._groups.values()
        return frozenset(one for group in groups for one in (group.open, group.stuck, group.storm) if one)

    def forget_records(self, shard: int | None = None) -> None:
        """Forget the incidents of records, published or suppressed: new state will not resolve them.

        Without a `shard`, forget those of all shards and the leaders: the topic may be another one.
        """
        self._one_storm.forget(shard)
        if shard is not None:
            self._suppressed.forget(shard)
            self._held.forget(shard)
            return
        self._moves.forget()
        self._suppressed, self._held = Suppressed(), HeldBack()

    def on_samples(
        self,
        samples: Iterable[ProbeSample],
        summaries: Mapping[str, _Summary] | None = None,
        findings: Iterable[Finding] = (),
        read: Mapping[int, int] | None = None,
        board: Board | None = None,
    ) -> list[Finding]:
        """Take samples in time order; `summaries`: group -> its last summary (its generation, for ids).

        `findings`: findings of records of the same time, which `refine` will be given. `read`: shard -> time
        (ms) up to which its records are read; unknown for other shards. `board`: positions
        and ends, as they were before.
        """
        self._board = board
        found: list[Finding] = []
        self._read = read or {}
        published = list(findings)
        self._calm = Calm(self._settings, published)
        for ended in (one for one in published if one.phase == "resolved"):
            self._held.drop(ended)
        ends = deque(sorted((one for one in published if one.kind in _ENDS), key=lambda one: one.at))
        for sample in samples:
            while ends and ends[0].at <= sample.at:
                end_barrier(self._groups, self._as_sampled(ends.popleft()))
            if self._looks and sample.at < self._looks[-1] - _FRESH_MS:
                self._set_back(sample.at)
            if not self._looks or sample.at > self._looks[-1]:
                found += self._take_sample(sample, summaries or {})
        return found

    def give_up(self, at: int) -> list[Finding]:
        """Resolve the probe's incidents at `at` (ms): there will be no more samples."""
        return self._probed.give_up(self._groups, at)

    def _set_back(self, at: int) -> None:
        """Forget the samples of a clock that was ahead; open incidents go on from `at` (ms)."""
        self._looks, self._last = [], LastAnswers()
        self._reach, self._unanswered = Reach(), Unanswered()
        self._moves.set_back(at)
        for group in self._groups.values():
            group.set_back(at)

    def refine(
        self,
        findings: Iterable[Finding],
        off: Collection[int] = (),
        served: Mapping[int, Collection[int]] = MappingProxyType({}),
        ends: Ends | None = None,
    ) -> list[Finding]:
        """Refine findings by samples; findings that a move of the coordinator explains are left out.

        `off`: brokers whose clocks are wrong, so that samples give no times for their groups; -1: groups with
        an unknown broker. `served`: shard -> times (ms) of commits in it. `ends`: those of the topics. Many
        members that departed by one cause become one finding here.
        """
        out, self._off = [], off
        known = list(findings)
        self._serve(served)
        for found in known:
            self._outages.learn(found, self._moves.leader(found.shard))
        for found in self._timed(known, ends):
            self._learn(found)
            if refinement.is_excused(found, self._moves.at(found.shard)):
                self._suppressed.keep(found)
                self._held.keep(found)
                continue
            self._held.drop(found)
            if self._suppressed.ends(found):
                continue
            refined = None if self._overruled(found) else self._refined(found)
            if refined is not None and (refined := self._blameless(refined)) is None:
                continue
            if refined is None:
                self._suppressed.keep(found)
            else:
                out.append(self._moves.placed(refined))
        return massed(out)

    def _serve(self, served: Mapping[int, Collection[int]]) -> None:
        """Take commits: brokers without an answer to the probe served clients then."""
        leaders = {shard: self._moves.leader(shard) for shard in served}
        timed = {s: at for s, at in served.items() if self._of_broker(leaders[s]) not in self._off}
        for shard, times in timed.items():
            for at in times:
                self._outages.serve(leaders[shard], at)
        if self._reach.away:
            self._reach.serve({at for times in timed.values() for at in times}, self._looks)

    def _blameless(self, found: Finding) -> Finding | None:
        return self._outages.take(found, self._moves.leader(found.shard))

    def _refined(self, found: Finding) -> Finding | None:
        group, moved_at = self._groups.get(found.group or ""), self._moves.at(found.shard)
        finding = self._one_storm.take(found, group, goes_on=self._still_storms(found, group))
        excused = None if finding is None else outages.excuse(finding, self._reach.away, moved_at)
        return None if excused is None else refinement.refine(excused, self._look_back(found), moved_at)

    def _still_storms(self, found: Finding, group: Watched | None) -> bool:
        """Whether samples still show the storm that `found` resolves."""
        if group is None or found.kind is not Kind.STORM or found.phase != "resolved":
            return False
        answered, settings = self._look_back_at(found).answered, self._settings.for_group(found.group or "")
        return bool(answered) and group.storms(answered, max(found.at, answered[-1]), settings)

    def _look_back(self, found: Finding) -> LookBack:
        off = self._of_broker(self._moves.leader(found.shard)) in self._off
        return LookBack() if off else self._look_back_at(found)

    @staticmethod
    def _of_broker(leader: int | None) -> int:
        return _NOBODY if leader is None else leader

    def _look_back_at(self, found: Finding) -> LookBack:
        name, leader = found.group or "", self._moves.leader(found.shard)
        group, lists = self._groups.get(name), self._visibility.sees(name)
        return look_back(group, self._looks, self._unanswered, leader, lists=lists)

    def _bounded(self, found: Finding, since: int) -> Finding:
        return refinement.bounded(found, self._look_back(found), since)

    def _listed_departure(self, found: Finding, member_id: str, since: int) -> Listed | None:
        return listed_members.departure_of(self._look_back(found), found, member_id, since)

    def _more(self, ends: Ends | None) -> More:
        """Return what completes the evidence of a departed member: outages, and the ends of its topics."""

        def more(found: Finding, member: MemberEntry, one: Departed, ended: int) -> Departed:
            moved_at = self._moves.at(found.shard)
            woke = self._outages.woke(found, self._moves.leader(found.shard))
            away = self._reach.away if woke < 0 else ()
            seen = outages.with_reload(one, ended, away, moved_at)
            if woke >= 0 and seen is one:
                seen = outages.with_pause(one, ended, woke)
            samples = self._look_back(found)
            seen = with_failed(seen, found, ended, samples)
            seen = listed_members.with_successor(seen, member, found, ended, samples)
            if ends is None:
                return seen
            return with_work(seen, ended, member.partitions or 0, ends, found.group or "")

        return more

    def _as_sampled(self, finding: Finding) -> Finding:
        """Return the end of a join phase as `refine` will judge it, if that phase was stuck.

        The end of the incident names the member that the phase waited for, as the rebalance does.
        """
        group = self._groups.get(finding.group or "")
        if group is None or not group.stuck:
            return finding
        return self._timed([finding], self._board)[0]

    def _timed(self, findings: Sequence[Finding], ends: Ends | None) -> list[Finding]:
        more = self._more(ends)
        return timed(findings, self._bounded, self._listed_departure, self._settings, more, self._judge)

    def _overruled(self, finding: Finding) -> bool:
        """Whether commits suggest a join phase of a group that the probe samples: then samples decide."""
        suspected = finding.evidence == "suspected" and finding.kind in _PROBED and finding.phase == "opened"
        asked = self._last.of(self._moves.leader(finding.shard))
        fresh = abs(finding.at - asked) <= _FRESH_MS
        return suspected and fresh and self._visibility.sees(finding.group or "")

    def _learn(self, finding: Finding) -> None:
        """End a join phase with each completed generation; do not open a storm that records have opened."""
        self._one_storm.learn(finding)
        group, explained = (
            self._groups.get(finding.group or ""),
            expected_barriers.span(finding, self._settings),
        )
        if finding.kind in _ENDS:
            end_barrier(self._groups, finding)
        if explained is not None and group is not None:
            group.explain(*explained)

    def _take_sample(self, sample: ProbeSample, summaries: Mapping[str, _Summary]) -> list[Finding]:
        since = sample.at - self._window
        self._looks = [at for at in self._looks if at > since] + [sample.at]
        self._last.on_sample(sample)
        self._reach.on_sample(sample, since)
        self._unanswered.on_sample(sample, since)
        found = self._moves.on_sample(sample) + self._outages.on_sample(sample)
        found += self._visibility.on_sample(sample, summaries)
        found += self._late()
        judged = Judged(sample)
        listed = {one.group: one for one in sample.groups}
        known = {name: summaries.get(name, _NONE) for name in listed}
        seen = {
            name: one
            for name, one in listed.items()
            if not group_summaries.waits_for_absent_members(known[name], one)
        }
        for name, group in seen.items():
            found += self._take_observation(sample.at, group, known[name], sample.members.get(name))
            found += self._storming(name, sample.at, judged)
        for name in [name for name in self._groups if name not in seen and judged.knows(name)]:
            found += self._close_observation(name, sample.at, since, summaries.get(name, _NONE))
        return found

    def _late(self) -> list[Finding]:
        """Publish the delayed silences that have lasted, with the confidence that outages leave them."""
        moved = []
        for late in self._held.due(self._looks, self._moves, self._unanswered, self._read):
            left = outages.excuse(late, self._reach.away, self._moves.at(late.shard))
            if left is not None:
                self._suppressed.publish(late)
                moved.append(self._moves.placed(left))
        return moved

    def _take_observation(
        self, at: int, seen: RebalancingGroup, summary: _Summary, listed: _Listed | None
    ) -> list[Finding]:
        name = seen.group
        found: list[Finding] = []
        before = self._groups.get(name)
        begun = before is None or not before.open
        if before is None or begun:
            group = self._groups[name] = begin_observation(before, at, seen, summary.get("generation"))
            group.turn(seen, at)
        else:
            group = before
            group.change_type(seen, at)
            if not (begun := group.turn(seen, at)) and group.is_another(at, _FRESH_MS):
                group.since = at
        group.count += 1
        if not group.open:
            found.append(self._probed.progress(name, group, at, "opened", seen.state))
        group.sightings.append(at)
        if not self._calm.explains(name, at):
            group.counted.append(at)
            group.runs += [at] * begun
        group.take(self._looks, listed or ())
        board = self._board

        def commits() -> Mapping[str, Commits] | None:
            return None if board is None else last_commits(board, name, summary)

        return found + self._probed.barrier(name, group, at, seen.state, summary, listed, commits)

    def _close_observation(self, name: str, at: int, since: int, summary: _Summary) -> list[Finding]:
        group = self._groups[name]
        found = []
        if group.open:
            # It rebalances no more; what it does now, the records know.
            state = Status.EMPTY if summary.get("state") == Status.EMPTY else Status.STABLE
            found.append(self._probed.progress(name, group, at, "resolved", state))
            if group.stuck:
                found.append(self._probed.stuck(name, group, at, "resolved", state))
            group.open = group.stuck = ""
        group.forget(since)
        if group.storm and group.is_calm(at, self._settings.for_group(name)):
            found.append(self._probed.storm(name, group, at, "resolved"))
            group.storm = ""
        if not group.sightings:
            del self._groups[name]
        return found

    def _storming(self, name: str, at: int, judged: Judged) -> list[Finding]:
        group, recorded = self._groups[name], self._one_storm.is_recorded(name)
        return self._probed.storming(
            name, group, at, lambda: self._unanswered.by(judged.leader(name), self._looks), recorded=recorded
        )


_PROBED = frozenset({Kind.REBALANCE_IN_PROGRESS, Kind.REBALANCE_STUCK})
_ENDS = frozenset({Kind.REBALANCE, Kind.GROUP_EMPTY})
