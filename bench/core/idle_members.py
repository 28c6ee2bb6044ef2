"""What the ends of topics tell of clients that do not commit when idle: departures with and without them.

`python -m bench.core.idle_members --groups 40` simulates so many groups of each such family at production
timings, with faults, and replays each twice: from records and probe samples alone, and with the ends of its
topics, too. Counted are members that the coordinator removed for a fault: how many were named with the right
cause, and with a wrong one alone (at the confidence that notifies). Apart are groups whose topics get less
than a record in ten seconds and partition: there a silence says little, and the ends show that.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from random import Random
from typing import TYPE_CHECKING

import click

from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.settings import DetectionSettings
from rebalance_monitor.engine.replay.replaying import Replay, Samples
from rebalance_monitor.lab.simulator import draw_plan, simulate
from rebalance_monitor.lab.simulator.samples import ends, samples, ticks
from rebalance_monitor.lab.simulator.truth import Removed

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rebalance_monitor.coordinator.findings.finding import Finding
    from rebalance_monitor.lab.simulator import Simulation
    from rebalance_monitor.lab.simulator.truth import Removal

FAMILIES = ("librdkafka", "franz-go", "sarama", "kafka-go", "kafkajs")
FIRST_SEED = 4_000_000
RIGHT: dict[Removed, frozenset[Cause]] = {
    Removed.EXPIRED: frozenset({Cause.SESSION_TIMEOUT, Cause.STATIC_MEMBER_EXPIRED}),
    Removed.POLL: frozenset({Cause.POLL_INTERVAL_EXCEEDED}),
    Removed.JOIN_DEADLINE: frozenset({Cause.JOIN_DEADLINE_MISSED}),
}
CLAIMS = frozenset().union(*RIGHT.values(), {Cause.MEMBER_LEFT, Cause.SYNC_DEADLINE_MISSED})
BUSY = 0.1
"""Records a second and partition."""

LEVEL = DetectionSettings().attribution_confidence


def found_in(made: Simulation, *, with_ends: bool) -> list[Finding]:
    """Return what a simulation's records and samples lead to."""
    replay = Replay(DetectionSettings(), "simulated")
    asked = Samples(ends(made) if with_ends else iter(()))
    return list(replay.run(ticks(made), Samples(samples(made)), asked))


def counted(removals: Iterable[Removal], found: Iterable[Finding]) -> Counter[str]:
    """Count the members that were removed for a fault, and what was said of them."""
    claims: dict[str, set[Cause]] = {}
    for one in found:
        for cause in one.causes:
            if cause.member_id and cause.confidence >= LEVEL and cause.cause in CLAIMS:
                claims.setdefault(cause.member_id, set()).add(cause.cause)
    counts: Counter[str] = Counter()
    for removal in removals:
        right = RIGHT.get(removal.cause)
        if right is None or not removal.seen or removal.fault == "pause":
            continue
        said = claims.get(removal.member, set())
        counts["removed"] += 1
        counts["right"] += bool(said & right)
        counts["wrong"] += bool(said and not said & right)
    return counts


@click.command()
@click.option("--groups", default=40, show_default=True, help="Simulated groups of each family.")
def main(groups: int) -> None:
    """Print a table: family, traffic, removed members, and what was said of them without and with ends."""
    click.echo("| family | topics | removed for a fault | named right | named wrongly |")
    click.echo("|---|---|---|---|---|")
    for number, family in enumerate(FAMILIES):
        counts: dict[tuple[bool, bool], Counter[str]] = defaultdict(Counter)
        first = FIRST_SEED + 10_000 * number
        for seed in range(first, first + groups):
            made = simulate(draw_plan(Random(seed), family=family), seed)  # noqa: S311 - a simulation
            busy = made.plan.groups[0].traffic.per_second >= BUSY
            for with_ends in (False, True):
                counts[busy, with_ends] += counted(made.truth.removals, found_in(made, with_ends=with_ends))
        for busy in (True, False):
            before, after = counts[busy, False], counts[busy, True]
            cells = [f"{before[name]} → {after[name]}" for name in ("right", "wrong")]
            topics = "busy" if busy else "quiet"
            click.echo(f"| {family} | {topics} | {after['removed']} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
