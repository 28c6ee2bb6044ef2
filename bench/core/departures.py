"""What it costs to explain why members left a group.

`python -m bench.core.departures` plays groups at production timings in the simulator, with their faults and
planned closes, and explains each of their rebalances again: µs of CPU for each departed member, the least of
several repetitions, by how many departed in the rebalance. The digest of all answers tells whether the model
still says the same.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from statistics import median
from time import process_time
from typing import TYPE_CHECKING

import click
from msgspec.structs import replace

from rebalance_monitor.coordinator.departure.explain import explain
from rebalance_monitor.lab.suite.departures import FIRST_UNSEEN, simulated

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rebalance_monitor.coordinator.departure.evidence import Evidence

_US, _REPEATED, _MOST = 1e6, 3, 0.99
_EVERY, _FEW = "all", 2
_DIGITS = 9


def rebalances(groups: int) -> Iterator[Evidence]:
    """Yield the rebalances of simulated groups in which members departed, with what the group had learned."""
    for life in simulated(range(FIRST_UNSEEN, FIRST_UNSEEN + groups)):
        beats: tuple[float, ...] = ()
        ways: tuple[float, ...] = ()
        for seen in life:
            evidence = replace(seen.evidence, beats=beats, ways=ways)
            found = explain(evidence)
            beats, ways = found.beats, found.group_ways
            if evidence.departed:
                yield evidence


def cost(evidence: Evidence) -> float:
    """Return the µs of CPU for each departed member."""
    least = float("inf")
    for _ in range(_REPEATED):
        before = process_time()
        explain(evidence)
        least = min(least, process_time() - before)
    return _US * least / len(evidence.departed)


@click.command()
@click.option("--groups", default=150, show_default=True, help="Simulated groups.")
def main(groups: int) -> None:
    """Print the median and the 99th percentile, for each departed member."""
    costs: dict[str, list[float]] = defaultdict(list)
    answers = hashlib.sha256()
    for evidence in rebalances(groups):
        count, each = len(evidence.departed), cost(evidence)
        kind = "one" if count == 1 else "two" if count == _FEW else "more"
        costs[_EVERY] += count * [each]
        costs[kind] += count * [each]
        answers.update(
            repr([[round(one, _DIGITS) for one in ways] for ways in explain(evidence).ways]).encode()
        )
    for kind, found in costs.items():
        high = sorted(found)[int(_MOST * (len(found) - 1))]
        click.echo(f"{kind:5} {len(found):6,} departures: median {median(found):.0f} µs, p99 {high:.0f} µs")
    click.echo(f"answers {answers.hexdigest()[:16]}")


if __name__ == "__main__":
    main()
