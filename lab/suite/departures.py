"""Departures with their truth, as the model sees them: of simulations, and of recordings of real brokers.

`python -m rebalance_monitor.lab.suite.departures` scores the model on simulations that `make fit` does not
use (`--real FOLDER`: on recordings): claims at 0.6, 0.8 and 0.9 by cause, and how often what was stated was
true. `--informed` adds the true settings of each recorded group to the evidence: its heartbeat and commit
intervals, its max.poll.interval where clients send none, and its family. What that changes is what the model
does not know; the rest is what nobody can read off these records. `--margins` prints both beside each other.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Hashable
from copy import copy
from functools import partial
from pathlib import Path
from random import Random
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import click
import msgspec
from msgspec.structs import replace as changed

from rebalance_monitor.coordinator.departure.evidence import decode
from rebalance_monitor.coordinator.departure.explain import explain
from rebalance_monitor.coordinator.departure.fitted import FITTED, Fitted
from rebalance_monitor.coordinator.departure.hypotheses import Way, client_of
from rebalance_monitor.coordinator.departure.observe import observed
from rebalance_monitor.coordinator.departure.waits import tried_heartbeats
from rebalance_monitor.coordinator.findings.finding import CLAIMED, MEASURED
from rebalance_monitor.coordinator.findings.outputs import FindingOut
from rebalance_monitor.coordinator.settings import DetectionSettings
from rebalance_monitor.coordinator.shard import ShardCoordinator, new_shard_state
from rebalance_monitor.coordinator.state.membership import compare
from rebalance_monitor.engine.replay.replaying import Replay, Samples, replay_capture
from rebalance_monitor.lab.scoring.margins import ALL, LEAST
from rebalance_monitor.lab.simulator import draw_plan, simulate
from rebalance_monitor.lab.simulator.samples import ends, samples, ticks
from rebalance_monitor.lab.simulator.study.recorded import read_recording
from rebalance_monitor.lab.simulator.truth import Removed
from rebalance_monitor.lab.truth.recorded_suite import read_suite, suite_folders
from rebalance_monitor.lab.workers.families import plain
from rebalance_monitor.lab.workers.timings import classes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from rebalance_monitor.coordinator.departure.alone import Explained
    from rebalance_monitor.coordinator.departure.evidence import Evidence
    from rebalance_monitor.coordinator.findings.finding import Finding
    from rebalance_monitor.coordinator.refine.reattribution import Judge
    from rebalance_monitor.coordinator.state.group_state import GroupState
    from rebalance_monitor.decoders import Row
    from rebalance_monitor.lab.simulator import Simulation
    from rebalance_monitor.lab.simulator.study.measures import Fact
    from rebalance_monitor.lab.simulator.truth import Removal
    from rebalance_monitor.lab.truth.recorded_suite import Suite
    from rebalance_monitor.lab.workers.timings import Timing

Key = TypeVar("Key", bound=Hashable)
FIRST_UNSEEN = 1_000_000
"""The first seed of a simulation that nothing is fitted on."""

LEAST_SHARE = 1e-3
"""No truth surprises more than this share of it does."""

LOSSES = frozenset((Way.DIED, Way.STALLED, Way.UNJOINED))
_LEVELS = (0.6, 0.8, 0.9)
_CLASSIC = "classic"
# The lab's family -> the client's, where the lab distinguishes assignors.
_FAMILY_OF = {
    "confluent": "librdkafka",
    "confluent-cooperative": "librdkafka",
    "java-range": "java",
    "java-cooperative": "java",
}
_TIMED, _GAPS, _NOT = frozenset({"auto", "timer"}), 4, 1e-3

WAY_OF = {
    Removed.LEFT: Way.LEFT,
    Removed.ADMIN: Way.LEFT,
    Removed.EXPIRED: Way.DIED,
    Removed.POLL: Way.STALLED,
    Removed.JOIN_DEADLINE: Way.UNJOINED,
    Removed.SYNC_DEADLINE: Way.UNSYNCED,
}


class Seen(NamedTuple):
    """One rebalance: what the records say, and the true way of each departed member (None: not known).

    `completed`: the evidence with what samples of the probe and of ends add; None where they add nothing.
    """

    evidence: Evidence
    ways: tuple[Way | None, ...]
    completed: Evidence | None = None


Life = list[Seen]
"""The rebalances of one group, in their order: a group learns from one to the next."""


Completed = dict[tuple[str, tuple[str, ...]], "Evidence"]
"""Group and departed members of a rebalance -> its evidence, completed by samples."""


def simulated(
    seeds: Iterable[int], profile: str = "production", faults: int = 4, *, sampled: bool = False
) -> list[Life]:
    """Simulate one group per seed.

    `sampled`: with what samples add to the evidence. Without, members that only a pause of the broker took
    are left out.
    """
    lives: list[Life] = []
    for seed in seeds:
        sim = simulate(draw_plan(Random(seed), profile, faults=faults), seed)  # noqa: S311 - a simulation
        removals = sim.truth.removals
        once = _once(one.member for one in removals)
        shown = (one for one in removals if one.seen and one.member in once)
        truth = {one.member: way_of(one) for one in shown if sampled or one.fault != "pause"}
        session = int(sim.plan.broker.session)
        more = _completed(partial(_replayed, sim, session)) if sampled else {}
        found = _lives(sim.rows, lambda _, one, truth=truth: truth.get(one), session, completed=more)  # type: ignore[misc]
        lives += found.values()
    return lives


def way_of(one: Removal) -> Way:
    """Return the way of a removal."""
    static = one.plan.instance is not None
    stalled = static and one.fault == "stall" and one.at - one.last_poll >= one.plan.poll
    return _way(one.cause, stalled=stalled)


def way_of_fact(fact: Fact) -> Way:
    """Return the way of a removal in a log."""
    return _way(Removed(fact.cause), stalled=fact.stalled)


def _way(cause: Removed, *, stalled: bool) -> Way:
    """Return the way: a static member that stalled for its poll interval expires."""
    return Way.STALLED if stalled and cause is Removed.EXPIRED else WAY_OF[cause]


def _replayed(sim: Simulation, session: int, judge: Judge) -> Iterable[Finding]:
    replay = Replay(DetectionSettings(session_timeout_848_ms=session), "simulated", judge=judge)
    return replay.run(ticks(sim), Samples(samples(sim)), Samples(ends(sim)))


def _completed(replayed: Callable[[Judge], Iterable[Finding]]) -> Completed:
    """Return the evidence of rebalances to which samples add something; `replayed` by a judge."""
    found: Completed = {}

    def judge(finding: Finding, evidence: Evidence) -> Explained:
        found[finding.group or "", tuple(_departed(finding, evidence))] = changed(evidence, beats=(), ways=())
        return explain(evidence)

    for _ in replayed(judge):
        pass
    return found


def _departed(finding: Finding, evidence: Evidence) -> list[str]:
    """Return the departed members that a finding lists; one that is not judged by its silence has no name."""
    gone = [one.member_id for one in finding.members if one.role == "left"]
    if not evidence.apart:
        return gone
    return [name if age >= 0 else "" for name, age in zip(gone, evidence.apart, strict=True)]


def recorded(folder: Path, *, informed: bool = False, sampled: bool = False) -> list[Life]:
    """Read the departures from a recording (a suite folder of the lab).

    `informed`: with the true settings of each group. `sampled`: with what samples add to the evidence.
    """
    return list(recorded_groups(folder, informed=informed, sampled=sampled).values())


def recorded_groups(folder: Path, *, informed: bool = False, sampled: bool = False) -> dict[str, Life]:
    """Return the same by group."""
    # First, for it writes the truth again that the recording is read with.
    suite = read_suite(folder)
    recording = read_recording(folder)
    ways = [((one.group, one.member), way_of_fact(one)) for one in recording.facts]
    once = _once(key for key, _ in ways)
    truth = {key: way for key, way in ways if key in once}
    known, session = suite if informed else None, suite.pace.session_ms
    capture, settings = folder / "capture", DetectionSettings(session_timeout_848_ms=session)
    more = _completed(lambda judge: replay_capture(capture, settings, judge=judge)) if sampled else {}
    found: dict[str, Life] = {}
    for rows in recording.shards.values():
        found |= _lives(rows, lambda group, member: truth.get((group, member)), session, known, more)
    return found


def _once(members: Iterable[Key]) -> set[Key]:
    """Return the members that departed once. Those of epoch-based groups keep their ids as they come back."""
    return {member for member, times in Counter(members).items() if times == 1}


def with_settings(evidence: Evidence, timing: Timing, family: str) -> Evidence:
    """Return the evidence as one has it who knows the settings of the group."""
    tried = tried_heartbeats(evidence.session, evidence.deadline)
    nearest = min(tried, key=lambda one: abs(one - timing.heartbeat_ms))
    departed = []
    for one in evidence.departed:
        known = changed(one, named=True, family=_FAMILY_OF.get(plain(family), plain(family)))
        if client_of(known).hides:
            known = changed(known, poll_interval=timing.poll_ms)
        if timing.way in _TIMED and len(one.trace.gaps) < _GAPS:
            known = changed(known, trace=changed(one.trace, gaps=(timing.commit_ms,) * _GAPS))
        departed.append(known)
    beats = tuple(1.0 if one == nearest else _NOT for one in tried)
    return changed(evidence, departed=tuple(departed), beats=beats)


def _lives(
    rows: Sequence[Row],
    truth: Callable[[str, str], Way | None],
    session: int,
    suite: Suite | None = None,
    completed: Mapping[tuple[str, tuple[str, ...]], Evidence] = MappingProxyType({}),
) -> dict[str, Life]:
    lives: dict[str, Life] = defaultdict(list)
    observed = list(observations(rows, session))
    # An administrator's removal is in no log. So a member that a log names once may have departed twice.
    once = _once((group, member) for group, _, members in observed for member in members)
    for group, seen, members in observed:
        evidence = seen
        if suite is not None and not seen.apart and group in suite.timings and group in suite.families:
            evidence = with_settings(seen, suite.timings[group], suite.families[group])
        ways = (truth(group, member) if (group, member) in once else None for member in members)
        lives[group].append(Seen(evidence, tuple(ways), completed.get((group, tuple(members)))))
    return lives


def observations(rows: Sequence[Row], session: int = 45_000) -> Iterator[tuple[str, Evidence, list[str]]]:
    """Yield group, evidence and departed members of each rebalance in a shard's `rows`.

    `session`: the session timeout (ms) of epoch-based groups, by default that of brokers. Those of their
    members that are not judged by their silence have no name, as static ones.
    """
    if not rows:
        return
    settings = DetectionSettings(session_timeout_848_ms=session)
    shard = ShardCoordinator(new_shard_state(rows[0].shard, 0, None), settings, "lab")
    for row in rows:
        before = copy(shard.state.groups.get(row.group)) if row.row_kind == "record" else None
        found = [one.finding for one in shard.on_row(row) if isinstance(one, FindingOut)]
        yield from _of_epochs(found)
        after = shard.state.groups.get(row.group)
        if before is not None and after is not None and _is_rebalance(before, after):
            change = compare(before.members, after.members)
            aborted = max(0, after.generation - before.generation - 1)
            evidence = observed(before, change, after.cst, aborted)
            yield row.group, evidence, [one.member_id for one in change.left]


def _of_epochs(found: Iterable[Finding]) -> Iterator[tuple[str, Evidence, list[str]]]:
    """Yield the same of epoch-based groups, whose members were removed one by one."""
    for finding in found:
        evidence = decode(str(finding.details[MEASURED]).encode()) if MEASURED in finding.details else None
        if evidence is None or not evidence.apart:
            continue
        yield finding.group or "", changed(evidence, beats=(), ways=()), _departed(finding, evidence)


def _is_rebalance(before: GroupState, after: GroupState) -> bool:
    classic = before.group_type == after.group_type == _CLASSIC
    return classic and bool(before.members) and after.generation != before.generation


def is_of(life: Life, kind: str, value: str) -> bool:
    """Whether members with this `family`, or with a `session` timeout of so many seconds, left a group."""
    gone = [one for seen in life for one in seen.evidence.departed]
    if kind == "session":
        return any(one.session == 1_000 * int(value) for one in gone)
    return any(one.family == value for one in gone)


def answers(
    lives: Iterable[Life], by: Fitted = FITTED, *, informed: bool = False
) -> Iterator[tuple[list[float], Way]]:
    """Yield what the model says of each departed member, beside its true way.

    `informed`: the heartbeat intervals of the evidence are true, so nothing is learned of them.
    """
    for life in lives:
        beats: tuple[float, ...] = ()
        ways: tuple[float, ...] = ()
        for seen in life:
            known = seen.evidence.beats if informed else beats
            found = explain(changed(seen.evidence, beats=known, ways=ways), by)
            beats, ways = found.beats, found.group_ways
            for shares, true in zip(found.ways, seen.ways, strict=True):
                if true is not None:
                    yield shares, true


def table(lives: Iterable[Life], by: Fitted = FITTED, *, informed: bool = False) -> str:
    """Return claims by true way and level, as lines of text."""
    truths: dict[Way, int] = defaultdict(int)
    right: dict[tuple[Way, float], int] = defaultdict(int)
    wrong: dict[tuple[Way, float], int] = defaultdict(int)
    surprise = 0.0
    for shares, true in answers(lives, by, informed=informed):
        truths[true] += 1
        surprise -= math.log(max(shares[true], LEAST_SHARE))
        best = Way(max(range(len(shares)), key=shares.__getitem__))
        for level in _LEVELS:
            if shares[best] >= level:
                (right if best is true else wrong)[best, level] += 1
    lines = [f"{'way':10} truths  recall at 0.6, 0.8, 0.9; precision"]
    for way in sorted(truths):
        cells = [f"{right[way, level] / truths[way]:.3f}" for level in _LEVELS]
        cells += [
            f"{right[way, level] / max(right[way, level] + wrong[way, level], 1):.3f}" for level in _LEVELS
        ]
        lines.append(f"{way.name:10} {truths[way]:6}  " + "  ".join(cells))
    for level in _LEVELS:
        good = sum(count for (_, at), count in right.items() if at == level)
        bad = sum(count for (_, at), count in wrong.items() if at == level)
        lines.append(f"claims at {level}: {good} of {good + bad} right, {good / max(good + bad, 1):.3f}")
    lines.append(f"surprise {surprise / max(sum(truths.values()), 1):.4f} each")
    return "\n".join(lines)


def beside(folders: Iterable[Path]) -> dict[tuple[str, str], list[int]]:
    """Return losses by margin: how many, how many are claimed, how many by one who knows the settings.

    Counted are classic groups that commit within their session timeout, from records alone.
    """
    rows: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0, 0])
    for folder in folders:
        suite = read_suite(folder)
        for informed in (False, True):
            for group, every in recorded_groups(folder, informed=informed).items():
                life = [seen for seen in every if not seen.evidence.apart]
                text, family = suite.timings.get(group), suite.families.get(group)
                if text is None or family is None or text.commit_ms > text.session_ms:
                    continue
                places = [("family", plain(family)), ("Kafka", str(suite.about["kafka"]))]
                places += classes(text).items()
                for shares, true in answers([life], informed=informed):
                    for row in [rows[place] for place in (ALL, *places)] if true in LOSSES else ():
                        row[0] += informed
                        row[1 + informed] += shares[true] >= CLAIMED
    return dict(sorted(rows.items()))


def as_margins(rows: Mapping[tuple[str, str], Sequence[int]]) -> str:
    """Return the margins with enough losses as a table."""
    lines = ["| losses by | | truths | reached | ceiling | share |", "|---|---|--:|--:|--:|--:|"]
    for (kind, value), (truths, reached, most) in rows.items():
        if truths >= LEAST:
            share = f"{reached / max(most, 1):.2f}"
            lines.append(
                f"| {kind} | {value} | {truths} | {reached / truths:.2f} | {most / truths:.2f} | {share} |"
            )
    return "\n".join(lines)


@click.command()
@click.option("--groups", default=300, show_default=True, help="Simulated groups.")
@click.option("--profile", default="production", show_default=True, help="Timers: fast, production.")
@click.option("--real", "folders", multiple=True, type=click.Path(path_type=Path, exists=True))
@click.option("--only", default="", help="Groups with a `family=` or a `session=` (seconds).")
@click.option("--informed", is_flag=True, help="With the true settings of each recorded group.")
@click.option("--margins", "by_margin", is_flag=True, help="Each margin of recordings, beside the ceiling.")
@click.option("--by", "constants", type=click.Path(path_type=Path, exists=True), help="What a fit keeps.")
def main(
    groups: int,
    profile: str,
    folders: tuple[Path, ...],
    only: str,
    constants: Path | None,
    *,
    informed: bool,
    by_margin: bool,
) -> None:
    """Score the departure model against the truth; `--real`: of the recordings below a folder."""
    folders = tuple(suite_folders(folders))
    if by_margin:
        click.echo(as_margins(beside(folders)))
        return
    if folders:
        lives = [life for folder in folders for life in recorded(folder, informed=informed)]
    else:
        lives = simulated(range(FIRST_UNSEEN, FIRST_UNSEEN + groups), profile)
    kind, _, value = only.partition("=")
    lives = [life for life in lives if not kind or is_of(life, kind, value)]
    by = Fitted(*msgspec.json.decode(constants.read_bytes())["best"]) if constants else FITTED
    click.echo(table(lives, by, informed=informed and bool(folders)))


if __name__ == "__main__":
    main()
