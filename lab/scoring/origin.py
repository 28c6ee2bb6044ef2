"""Where an accuracy page comes from: what its results say of the runs that they were made of."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from rebalance_monitor.lab.scoring.page_origin import Origin
from rebalance_monitor.lab.scoring.scored import LIVE
from rebalance_monitor.lab.workers.families import FAMILIES, plain
from rebalance_monitor.lab.workers.flags import herd_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rebalance_monitor.lab.scoring.results import Result


def origin(command: str, results: Sequence[Result], notes: Sequence[str] = ()) -> Origin:
    """Give what made the page: versions, seeds, loads, and what was skipped or left out, and why."""
    abouts = [result.about for result in results]
    skipped = {group: why for about in abouts for group, why in about["skipped"].items()}
    watched = sum(len(result.families) for result in results if LIVE in result.claims)
    spoilt = [(group, why) for result in results for group, why in result.spoilt.items()]
    return Origin(
        command=command,
        brokers=sorted({str(about["kafka"]) for about in abouts}),
        seeds=sorted({int(about["seed"]) for about in abouts}),
        runs=sum(len(_runs(result)) for result in results),
        seconds=sum(about["ended"] - about["began"] for about in abouts) / 1000,
        remarks=[
            f"The streaming job of their day watched {watched} of them live; replayed were all.",
            *_codes(abouts),
            *notes,
            *_loads(abouts),
            *(f"Left out {group}: {why}." for group, why in _herds(spoilt)),
            *(f"Skipped {group}: {why}." for group, why in sorted(skipped.items())),
        ],
        ran=_ran(results),
        software=list(dict.fromkeys(one for about in abouts for one in about.get("software", ()))),
        days=(
            min((about["began"] for about in abouts), default=0),
            max((about["ended"] for about in abouts), default=0),
        ),
    )


def _codes(abouts: Sequence[dict[str, Any]]) -> list[str]:
    """Say whose code recorded what was kept, which is the job that watched, and whose judged it."""
    said = []
    for key, what in (("recorded_by", "recorded"), ("judged_by", "judged")):
        codes = Counter(str(about[key]) for about in abouts if about.get(key))
        listed = ", ".join(f"{count} by the code of {code}" for code, count in sorted(codes.items()))
        said += [f"Of {len(abouts)} results these were {what} by known code: {listed}."] if codes else []
    return said


def _herds(spoilt: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Put the groups of a herd, numbered, into one entry."""
    counts = Counter((herd_of(group), why) for group, why in spoilt)
    named = ((f"{group}{f' ({count} groups)' * (count > 1)}", why) for (group, why), count in counts.items())
    return sorted(named)


def _ran(results: Sequence[Result]) -> dict[str, dict[str, list[str]]]:
    found: dict[str, dict[str, set[str]]] = {}
    for result in results:
        for scenario, family in _runs(result):
            found.setdefault(str(result.about["kafka"]), {}).setdefault(scenario, set()).add(family)
    return {
        version: {name: sorted(families) for name, families in scenarios.items()}
        for version, scenarios in found.items()
    }


def _runs(result: Result) -> set[tuple[str, str]]:
    """Give scenario and family of every run: many groups of one herd are one."""
    named = ((group, plain(family)) for group, family in result.families.items())
    # A connector's group is named after the connector, not after a scenario.
    return {(group.partition(f".{family}")[0], family) for group, family in named if family in FAMILIES}


def _loads(abouts: Sequence[dict[str, Any]]) -> list[str]:
    """Say how starved the machine was: delays and time-outs cannot be read without it."""
    return [
        f"Kafka {about['kafka']}, seed {about['seed']}: mean load {about['load']} on {about['cores']} cores, "
        f"{(about['ended'] - about['began']) / 60_000:.0f} minutes"
        + (f", woken at most {about['late_ms']} ms late." if "late_ms" in about else ".")
        for about in abouts
        if "load" in about
    ]
