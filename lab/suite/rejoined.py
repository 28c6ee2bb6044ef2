"""Who has not rejoined a join phase: simulated phases with their truth, and the weights fitted to them.

Each phase that lasts long enough is looked at as the driver does: by commits until a few seconds before, by
who is listed, and, for every second phase, by the ends of the topics. `make fit` fits `Rejoining` to what
these looks show.

`python -m rebalance_monitor.lab.suite.rejoined` judges the weights on simulations that no fit has seen.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, NamedTuple

import click

from rebalance_monitor.coordinator.deadlines.not_rejoined import describe_member, with_successors
from rebalance_monitor.coordinator.deadlines.rejoining import NOTHING, odds_of, signs, somebody_of
from rebalance_monitor.coordinator.departure.fitted import REJOINING, Rejoining
from rebalance_monitor.coordinator.probe.last_commits import LATE_MS
from rebalance_monitor.coordinator.settings import DetectionSettings
from rebalance_monitor.coordinator.shard import ShardCoordinator, new_shard_state
from rebalance_monitor.lab.simulator import draw_plan, simulate
from rebalance_monitor.lab.suite.departures import FIRST_UNSEEN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from rebalance_monitor.coordinator.deadlines.rejoining import Seen, Sign
    from rebalance_monitor.coordinator.state.group_state import GroupState, Member
    from rebalance_monitor.lab.simulator.engine import Simulation
    from rebalance_monitor.lab.simulator.truth import JoinPhase

    Identity = tuple[str, str, str, str]

SEEDS = range(600_000, 601_200)
"""The seeds of the simulations that the weights are fitted to."""

STEPS = (1.0, 0.5, 0.25, 0.1)
# A phase is looked at so long (ms) after it began, and was first seen so long after.
_LOOKED_AFTER = (20_000, 60_000)
_SEEN_AFTER = 1_000
# How far, in logarithms, a weight may wander before it must be worth it.
_WIDTH = 1.5
_LEVELS = (0.6, 0.8)


class Look(NamedTuple):
    """One join phase at one moment, by listed members of the generation before.

    `signs` and `succeeded` as of `Seen`. `missing`: whether it has not rejoined.
    """

    signs: tuple[Sign, ...]
    succeeded: tuple[int, ...]
    missing: tuple[bool, ...]


def looks(seeds: Iterable[int]) -> Iterator[Look]:
    """Look at the long join phases of simulated classic groups."""
    for seed in seeds:
        made = simulate(draw_plan(Random(seed), "production"), seed)  # noqa: S311 - a simulation
        if not any(plan.modern for plan in made.plan.groups):
            yield from _looks(made, by_ends=seed % 2 == 0)


def _looks(made: Simulation, *, by_ends: bool) -> Iterator[Look]:
    due = sorted(
        (
            (phase.began + after, phase)
            for phase in made.truth.phases
            for after in _LOOKED_AFTER
            if phase.began + after < phase.ended
        ),
        key=lambda one: -one[0],
    )
    shard = ShardCoordinator(new_shard_state(made.plan.shard, 0, None), DetectionSettings(), "lab")
    for row in made.rows:
        while due and due[-1][0] - LATE_MS < max(row.record_ts, row.commit_ts):
            at, phase = due.pop()
            state = shard.state.groups.get(phase.group)
            found = None if state is None else _look(made, state, phase, at, by_ends=by_ends)
            if found is not None:
                yield found
        shard.on_row(row)


def _look(made: Simulation, state: GroupState, phase: JoinPhase, at: float, *, by_ends: bool) -> Look | None:
    """Return what is seen of a phase at `at` (ms); None where nobody of the generation before is missing."""
    listed = _listed(made, phase.group, at)
    before = {member.member_id for member in state.members}
    ids = {one[0] for one in listed}
    members = [member for member in state.members if member.member_id in ids]
    now = int(at) - LATE_MS
    seen = [describe_member(state, member) for member in members]
    if by_ends:
        seen = [
            _with_work(made, phase.group, state, member, one, now)
            for member, one in zip(members, seen, strict=True)
        ]
    missing = tuple(phase.joined.get(one.member_id, math.inf) > at for one in seen)
    if not any(missing):
        return None
    seen = with_successors(seen, [one for one in listed if one[0] not in before])
    found = signs(seen, int(phase.began) + _SEEN_AFTER, now, exact=True)
    return Look(tuple(found), tuple(one.succeeded for one in seen), missing)


def _listed(made: Simulation, group: str, at: float) -> list[Identity]:
    """Return the members that the broker lists at `at` (ms since 1970)."""
    changes = made.groups[group].changes
    place = bisect_right([time for time, _, _ in changes], at - made.plan.epoch) - 1
    members = changes[place][2] if place >= 0 else ()
    return [(one.id, one.instance or "", *one.client.identity) for one in members]


def _with_work(made: Simulation, group: str, state: GroupState, member: Member, seen: Seen, now: int) -> Seen:
    """Return a member with when the first record after its last commit was written."""
    if seen.last_commit < 0:
        return seen
    owned = [(state.topics[topic], list(numbers)) for topic, *numbers in member.assigned]
    epoch = made.plan.epoch
    came = made.feeds[group].of(owned).next_after(seen.last_commit - epoch) + epoch
    return replace(seen, waited=int(came) if came <= now else NOTHING)


def surprise(look: Look, by: Rejoining) -> float:
    """Return -log(what is said of who is missing). All simulated clients are listed."""
    odds = odds_of(look.signs, look.succeeded, by)
    given = sum(
        missing * math.log(one) - math.log1p(one) for one, missing in zip(odds, look.missing, strict=True)
    )
    return math.log(somebody_of(odds)) - given


def fit(found: Sequence[Look], top_of: Callable[[float, float, float], float]) -> Rejoining:
    """Return the weights that explain the looks best, by coordinate steps from the first values."""
    first = Rejoining()

    def loss(by: Rejoining) -> float:
        far = (math.log(one / two) for one, two in zip(by, first, strict=True))
        return sum(surprise(look, by) for look in found) + sum((one / _WIDTH) ** 2 / 2 for one in far)

    def moved(by: Rejoining, name: str, step: float) -> tuple[float, Rejoining]:
        tried = by._replace(**{name: getattr(by, name) * math.exp(step)})
        return loss(tried), tried

    best, least = first, loss(first)
    for step in STEPS:
        for name in Rejoining._fields:
            sides = [moved(best, name, step), moved(best, name, -step)]
            top = top_of(least, sides[0][0], sides[1][0])
            if top:
                sides.append(moved(best, name, top * step))
            least, best = min([(least, best), *sides], key=lambda one: one[0])
    return Rejoining(*(float(f"{value:.3g}") for value in best))


def table(found: Sequence[Look], by: Rejoining) -> Iterator[str]:
    """Yield the surprise of a look, and who is named by how sure."""
    every = [late for look in found for late in look.missing]
    left = sum(surprise(look, by) for look in found) / len(found)
    yield f"{len(found)} looks, {sum(every)} of {len(every)} members are missing; surprise {left:.4f} each"
    said = [share for look in found for share in _shares(look, by)]
    for level in _LEVELS:
        named = [late for share, late in zip(said, every, strict=True) if share >= level]
        found_of = f"{sum(named) / sum(every):.3f} of the missing"
        yield f"named at {level}: {sum(named)} of {len(named)} are missing, {found_of}"


def _shares(look: Look, by: Rejoining) -> list[float]:
    odds = odds_of(look.signs, look.succeeded, by)
    somebody = somebody_of(odds)
    return [one / (1 + one) / somebody for one in odds]


@click.command()
@click.option("--groups", default=300, show_default=True, help="Simulated groups.")
def main(groups: int) -> None:
    """Judge the weights, and the first values beside them."""
    found = list(looks(range(FIRST_UNSEEN, FIRST_UNSEEN + groups)))
    for name, by in (("fitted", REJOINING), ("first values", Rejoining())):
        click.echo(f"{name}: {by}")
        click.echo("\n".join(table(found, by)))


if __name__ == "__main__":
    main()
