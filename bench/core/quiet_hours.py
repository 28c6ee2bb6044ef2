"""False alarms on simulated groups to which nothing happens, by group-hours.

`python -m bench.core.quiet_hours --hours 1000` simulates healthy groups, some for each seed, with the ends of
their topics every five seconds, and runs them through the coordinator as `replay` does: those of a seed in
one shard, for most of what a single group costs is spent on empty batches. Clients that commit by hand do so
once a second at most.
Every finding of lag about such a group is false, except `rebalance_cost`, which blames no member, and every
warning, but for what is so: its partitions are dealt out unevenly, it is empty, because it was closed, its
join phase lasted as long as is said, because a member was in a long batch, or the coordinator did remove the
member that is blamed, as it does of one that closes while its broker is away.
Most of these groups are closed at the end, at any moment, and a broker of some stops or is restarted. They
live for half an hour, so they are closed far more often than groups of real clients. So groups that are
accused as they are closed are counted by closes, and the others by hours: the sum is the rate of groups that
are closed once a day. What a seed gave is kept in the file as soon as it is there: a run that was stopped
goes on, and a million hours can be reached in pieces.
"""

from __future__ import annotations

import gc
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import click
import msgspec

from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.finding import CLAIMED
from rebalance_monitor.coordinator.findings.kinds import Kind, Severity
from rebalance_monitor.coordinator.settings import DetectionSettings
from rebalance_monitor.engine.memory import uncollected
from rebalance_monitor.engine.replay.replaying import Replay, Samples
from rebalance_monitor.lab.simulator import draw_plan, simulate
from rebalance_monitor.lab.simulator.plans.plan import AFTER_WORK, Act
from rebalance_monitor.lab.simulator.samples import TICK_MS, ends, samples, ticks
from rebalance_monitor.lab.simulator.truth import Removed
from rebalance_monitor.lab.suite.healthy import NEAR_MS, OF_LAG, UPPER_95, is_false

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from rebalance_monitor.coordinator.findings.finding import CauseEntry, Finding
    from rebalance_monitor.lab.simulator.plans.plan import ClientPlan, GroupPlan, Plan
    from rebalance_monitor.lab.simulator.truth import JoinPhase, Removal

FIRST_SEED = 2_000_000
HOUR_MS, DAY_H = 3_600_000, 24
BY_HAND_MS = 1_000.0
_LEFT = frozenset({Removed.LEFT, Removed.ADMIN})


class Quiet(msgspec.Struct):
    """One seed: how many hours its groups lived, how many samples had lag, and the false findings by kind.

    `critical`: how many findings of lag were critical. `costs`: rebalances that were given a cost. `closed`:
    groups that were closed. `stuck`: join phases that lasted as long as was said. `removed`: warnings of
    groups of which the coordinator removed a member. `at_close`, `before`: groups that were accused falsely
    as they were closed, and before.
    """

    seed: int
    hours: float
    measured: int
    false: dict[str, int]
    critical: int = 0
    costs: int = 0
    closed: int = 0
    stuck: int = 0
    removed: int = 0
    at_close: int = 0
    before: int = 0


def played(seed: int, profile: str = "healthy", groups: int = 1) -> Quiet:
    """Simulate groups, healthy if not said otherwise, and count what lag says of them."""
    made = simulate(_apart(draw_plan(Random(seed), profile, groups=groups)), seed)  # noqa: S311 - a simulation
    replay = Replay(DetectionSettings(), "simulated")
    measured = 0

    def count(_now: int, batch: object, _found: object) -> None:
        nonlocal measured
        lags = getattr(batch, "lags", None)
        measured += lags.measured() if lags else 0

    replay.watch = count
    found = list(replay.run(ticks(made), Samples(samples(made)), Samples(ends(made))))
    loud = [one for one in found if is_false(one)]
    moving = [one for one in loud if not _stood_still(one, made.truth.phases)]
    false = [one for one in moving if not lost_a_member(one, made.truth.removals)]
    closing = {one.name: made.plan.epoch + _lives(one, made.plan.length, min) for one in made.plan.groups}
    early, late = accused(false, closing)
    return Quiet(
        seed,
        sum(_lives(one, made.plan.length) for one in made.plan.groups) / HOUR_MS,
        measured,
        dict(Counter(one.kind.value for one in false)),
        sum(one.severity is Severity.CRITICAL for one in found if one.kind in OF_LAG),
        sum(one.kind is Kind.REBALANCE_COST for one in found),
        sum(any(step.act is not Act.START for step in one.steps) for one in made.plan.groups),
        len(loud) - len(moving),
        len(moving) - len(false),
        len(late),
        len(early),
    )


def accused(false: Iterable[Finding], closing: Mapping[str, float]) -> tuple[set[str], set[str]]:
    """Return the groups accused before they are closed (ms, by group), and as they are: perhaps in both."""
    found: tuple[set[str], set[str]] = set(), set()
    for one in false:
        group = one.group or ""
        found[one.at >= closing[group]].add(group)
    return found


def _blamed(one: Finding) -> list[CauseEntry]:
    return [entry for entry in one.causes if entry.member_id and entry.confidence >= CLAIMED]


def _stood_still(one: Finding, phases: Iterable[JoinPhase]) -> bool:
    """Whether it says that a join phase has lasted for long which has, and blames nobody but who held it."""
    blamed = {entry.member_id for entry in _blamed(one)}
    lasted = int(one.details.get("duration_ms", 0)) - TICK_MS
    return one.kind is Kind.REBALANCE_STUCK and any(
        phase.group == one.group
        and phase.began + lasted <= one.at <= phase.ended
        and blamed <= {phase.held_by}
        for phase in phases
    )


def lost_a_member(one: Finding, removals: Iterable[Removal]) -> bool:
    """Whether its coordinator removed members near that time which had not left, and it blames only these.

    For whichever cause: of several a few milliseconds apart one may be named wrongly. What it says of lag is
    so or not, whoever was removed.
    """
    blamed = {entry.member_id for entry in _blamed(one) if entry.cause is not Cause.MEMBER_LEFT}
    lost = {
        it.member
        for it in removals
        if it.group == one.group and it.cause not in _LEFT and abs(it.at - one.at) <= NEAR_MS
    }
    return bool(lost) and blamed <= lost and one.kind not in OF_LAG


def _apart(plan: Plan) -> Plan:
    """Give each group topics of its own: their records are drawn by group. None commits all the time."""
    groups = (
        replace(
            one,
            topics=tuple(f"{one.name}.{topic}" for topic in one.topics),
            clients=tuple(map(_seldom, one.clients)),
        )
        for one in plan.groups
    )
    return replace(plan, groups=tuple(groups))


def _seldom(client: ClientPlan) -> ClientPlan:
    """Let a client that commits by hand do so once a second at most: more says no more, and costs most."""
    return replace(client, gap=max(client.gap, BY_HAND_MS)) if client.mode in AFTER_WORK else client


def _lives(group: GroupPlan, length: float, end: Callable[..., float] = max) -> float:
    """Return how long (ms) a group lives, of a simulation of this length: until it is closed.

    `end`: whether until the last member is (`max`), or the first (`min`).
    """
    return end((step.at for step in group.steps if step.act is not Act.START), default=length)


def report(kept: list[Quiet]) -> str:
    """Return one paragraph: the hours, and the false findings by kind and per 1,000 group-days.

    `at most`: how many of all kinds are expected per 1,000 group-days at 95 % (Poisson). Last come the groups
    that were accused: as they were closed, before, and in 1,000 days of groups that are closed once a day.
    """
    hours = sum(one.hours for one in kept)
    false = sum((Counter(one.false) for one in kept), Counter[str]())
    days = hours / DAY_H
    rates = [f"{kind} {count} ({1_000 * count / days:.1f})" for kind, count in sorted(false.items())]
    said = f"{'; '.join(rates) or 'none'}; at most {1_000 * _most(false.total()) / days:.2f}"
    closed, late, early = (
        sum(getattr(one, name) for one in kept) for name in ("closed", "at_close", "before")
    )
    at_close, before = (
        [1_000 * some / max(times, 1e-9) for some in (count, _most(count))]
        for count, times in ((late, closed), (early, days))
    )
    return (
        f"{len(kept)} seeds, {hours:,.0f} group-hours, {closed:,} groups closed, "
        f"{sum(one.measured for one in kept):,} measured lags, "
        f"{sum(one.costs for one in kept)} costs of rebalances, "
        f"{sum(one.stuck for one in kept)} join phases that did stand still, "
        f"{sum(one.removed for one in kept)} warnings of members that were removed. "
        f"False findings (per 1,000 group-days): {said}; "
        f"critical: {sum(one.critical for one in kept)}. "
        f"Groups accused: {late} as they were closed, in 1,000 {at_close[0]:.2f}, at most {at_close[1]:.2f}; "
        f"{early} before, in 1,000 group-days {before[0]:.2f}, at most {before[1]:.2f}; "
        f"so of groups that are closed once a day {at_close[0] + before[0]:.2f} in 1,000 group-days"
    )


def _most(count: int) -> float:
    """Return how many are expected at most where so many were counted, at 95 % (Poisson)."""
    return UPPER_95[count] if count < len(UPPER_95) else count + 2 * count**0.5


@click.command()
@click.option("--file", type=click.Path(path_type=Path), default=Path("build/quiet_hours.jsonl"))
@click.option("--hours", default=1_000.0, show_default=True, help="Group-hours in all, those kept included.")
@click.option("--minutes", default=60.0, show_default=True, help="Start nothing new after so long.")
@click.option("--groups", default=100, show_default=True, help="Groups of one seed.")
@click.option("--first", default=FIRST_SEED, show_default=True, help="The first seed of a new file.")
def main(file: Path, hours: float, minutes: float, groups: int, first: int) -> None:
    """Count the false alarms on simulated healthy groups, and go on where the last run stopped.

    Runs side by side have a file and a first seed each: the report of the files in one is that of all.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    lines = file.read_bytes().splitlines() if file.exists() else []
    kept = [msgspec.json.decode(line, type=Quiet) for line in lines]
    seed = max((one.seed + 1 for one in kept), default=first)
    until, done = time.monotonic() + 60 * minutes, sum(one.hours for one in kept)
    with file.open("ab") as out:
        while done < hours and time.monotonic() < until:
            # Next to nothing of a seed is in a cycle, and all of it lives until the end.
            with uncollected():
                one = played(seed, groups=groups)
            gc.collect()
            out.write(msgspec.json.encode(one) + b"\n")
            out.flush()
            kept.append(one)
            done, seed = done + one.hours, seed + 1
    click.echo(report(kept))


if __name__ == "__main__":
    main()
