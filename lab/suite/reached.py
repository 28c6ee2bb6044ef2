"""The ceiling beside what the model reaches, on the same simulated departures, from records alone.

The ceiling is an observer who knows every setting of the clients: a learner (`forest`) that is grown on
departures of other seeds, with the settings among its features. The model sees the topic only.

Counted are members that had something to commit, or commit when idle, and that commit within their session
timeout: the population of the bars. `--all` counts every departure.
"""

from __future__ import annotations

from collections import defaultdict
from random import Random
from typing import TYPE_CHECKING, NamedTuple

import click
import numpy as np
from msgspec.structs import replace

from rebalance_monitor.coordinator.departure.evidence import NO_WORK
from rebalance_monitor.coordinator.departure.explain import explain
from rebalance_monitor.coordinator.departure.hypotheses import Way
from rebalance_monitor.lab.simulator import draw_plan, simulate
from rebalance_monitor.lab.simulator.plans.families import FAMILIES
from rebalance_monitor.lab.simulator.plans.plan import Mode
from rebalance_monitor.lab.simulator.study import ceiling
from rebalance_monitor.lab.simulator.study.forest import Forest
from rebalance_monitor.lab.suite.departures import FIRST_UNSEEN, observations, way_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import numpy.typing as npt

    from rebalance_monitor.decoders import Row
    from rebalance_monitor.lab.simulator.engine import Simulation
    from rebalance_monitor.lab.simulator.truth import Removal

    Floats = npt.NDArray[np.float64]
    Flags = npt.NDArray[np.bool_]

SURE = 0.8
_LEARNT = 3_000_000
_NAMES, _MODES = sorted(FAMILIES), list(Mode)
_PER_POLL = frozenset({Mode.PER_POLL, Mode.PER_RECORD, Mode.TRANSACTION})
_BUSY_PER_SECOND = 2.0
# Margins with fewer truths are left out.
_LEAST = 10
_COUNTED = (Way.DIED, Way.STALLED, Way.UNJOINED, Way.LEFT)
_WORDS = {
    Way.DIED: "session timeout",
    Way.STALLED: "poll interval exceeded",
    Way.UNJOINED: "join deadline missed",
    Way.LEFT: "left",
}


class Case(NamedTuple):
    """One departure: what the topic shows (and the settings), its way, what the model says of it.

    `works`: it is of the population of the bars.
    """

    shown: list[float]
    way: Way
    answer: Sequence[float]
    removal: Removal
    works: bool


def cases(seeds: Iterable[int], *, judged: bool = True) -> Iterator[Case]:
    """Yield the departures of classic groups at production timings; `judged`: by the model, too."""
    for seed in seeds:
        made = simulate(draw_plan(Random(seed), "production"), seed)  # noqa: S311 - a simulation
        if not any(plan.modern for plan in made.plan.groups):
            yield from _cases(made, judged=judged)


def _cases(made: Simulation, *, judged: bool) -> Iterator[Case]:
    seen = (one for one in made.truth.removals if one.seen and one.fault != "pause")
    removals = {(one.group, one.member): one for one in seen}
    answers = _answers(made.rows) if judged else {}
    for place, shown in ceiling.departures(made):
        one = removals.get(place)
        if one is not None and (place in answers or not judged):
            had_work, answer = answers.get(place, (True, ()))
            works = had_work and _works(made, one)
            yield Case(shown + _settings(one, shown[0]), way_of(one), answer, one, works)


def _answers(rows: Sequence[Row]) -> dict[tuple[str, str], tuple[bool, list[float]]]:
    """Return what the model says of each departed member, a group learning from one rebalance to the next."""
    found: dict[tuple[str, str], tuple[bool, list[float]]] = {}
    learnt: dict[str, tuple[tuple[float, ...], tuple[float, ...]]] = defaultdict(lambda: ((), ()))
    for group, evidence, members in observations(rows):
        beats, ways = learnt[group]
        explained = explain(replace(evidence, beats=beats, ways=ways))
        learnt[group] = explained.beats, explained.group_ways
        for name, one, shares in zip(members, evidence.departed, explained.ways, strict=True):
            found[group, name] = one.work != NO_WORK, shares
    return found


def _works(made: Simulation, one: Removal) -> bool:
    plan = one.plan
    group = next(found for found in made.plan.groups if found.name == one.group)
    idle = FAMILIES[plan.family].commits_idle and plan.mode is FAMILIES[plan.family].auto
    often = plan.gap if plan.mode in _PER_POLL else plan.interval
    busy = group.traffic.per_second >= _BUSY_PER_SECOND
    return plan.mode is not Mode.NEVER and (idle or busy) and often <= plan.session


def _settings(one: Removal, silence: float) -> list[float]:
    """Return what an observer who knows every setting knows beside the topic, and how it compares."""
    plan = one.plan
    timers = [plan.session, plan.poll, plan.rebalance, plan.heartbeat, plan.interval, plan.gap]
    kinds = [_NAMES.index(plan.family), _MODES.index(plan.mode), plan.instance is not None, plan.final_commit]
    late = [silence - timer for timer in (plan.session, plan.poll, plan.rebalance, plan.session + plan.poll)]
    beats = [one / plan.heartbeat for one in late] + [one / plan.interval for one in late]
    return [float(number) for number in (*timers, *kinds, *late, *beats)]


def table(found: Sequence[Case], posterior: Floats) -> Iterator[str]:
    """Yield the margins as lines of a table."""
    places: dict[tuple[str, str], list[int]] = defaultdict(list)
    for number, case in enumerate(found):
        plan = case.removal.plan
        places["all", ""].append(number)
        places["family", plan.family].append(number)
        places["commits", str(plan.mode)].append(number)
        places["session", f"{plan.session // 1000} s"].append(number)
        places["poll interval", f"{plan.poll // 1000} s"].append(number)
        places["family, commits", f"{plan.family}, {plan.mode}"].append(number)
        places["session, poll interval", f"{plan.session // 1000} s, {plan.poll // 1000} s"].append(number)
    truth = np.array([case.way for case in found])
    model = np.array([case.answer for case in found])
    yield "| cause | by | | truths | ceiling: recall (precision of claims) | reached |"
    yield "|---|---|---|--:|---|---|"
    for way in _COUNTED:
        for (kind, value), numbers in sorted(places.items()):
            rows = np.array(numbers)
            true = truth[rows] == way
            shown = [_shown(shares[rows, way] >= SURE, true) for shares in (posterior, model)]
            if true.sum() >= _LEAST:
                yield f"| {_WORDS[way]} | {kind} | {value} | {true.sum()} | {' | '.join(shown)} |"


def _shown(claimed: Flags, true: Flags) -> str:
    right, claims = int((claimed & true).sum()), int(claimed.sum())
    return f"{right / max(int(true.sum()), 1):.2f} ({right / max(claims, 1):.3f} of {claims})"


@click.command()
@click.option("--groups", default=1_000, show_default=True, help="Simulated groups that are judged.")
@click.option("--learnt", default=8_000, show_default=True, help="Groups that the ceiling is learnt from.")
@click.option("--all", "every", is_flag=True, help="Every departure, not those of the bars alone.")
def main(groups: int, learnt: int, *, every: bool) -> None:
    """Print recall and precision at 0.8 by margins: the ceiling, and the model."""
    known = list(cases(range(_LEARNT, _LEARNT + learnt), judged=False))
    shown, ways = np.array([one.shown for one in known]), np.array([int(one.way) for one in known])
    forest = Forest(shown, ways, len(Way))
    found = [one for one in cases(range(FIRST_UNSEEN, FIRST_UNSEEN + groups)) if every or one.works]
    posterior = forest.posterior(np.array([one.shown for one in found]))
    click.echo(f"{len(found)} departures judged, {len(known)} learnt from")
    click.echo("\n".join(table(found, posterior)))


if __name__ == "__main__":
    main()
