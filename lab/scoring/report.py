"""Every table of an accuracy run in Markdown, with the command, versions and date that made them.

`docs/measurements/accuracy.md` is this page; `docs/accuracy.md` is its summary.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from rebalance_monitor.coordinator.findings.causes import LOSSES
from rebalance_monitor.lab.scoring import bars
from rebalance_monitor.lab.scoring.score import NOTHING, UNSURE, together
from rebalance_monitor.lab.scoring.statistics import percentile, share
from rebalance_monitor.lab.workers.families import FAMILIES, plain

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from rebalance_monitor.lab.scoring.page_origin import Origin
    from rebalance_monitor.lab.scoring.score import Band, Tally
    from rebalance_monitor.lab.scoring.scored import Scored
    from rebalance_monitor.lab.scoring.silences import Silences


HEAD = (
    "| what | family | groups | truth | detected | missed | wrong | precision | recall | "
    "delay p50 / p95 / max |"
)
RULE = "|---|---|---|--:|--:|--:|--:|---|---|---|"


def page(origin: Origin, scored: Iterable[Scored]) -> str:
    """Give the whole page."""
    parts = [_top(origin)]
    for one in scored:
        parts += [f"## {one.name}", bars.table(bars.rows(one)), bars.by_version(one)]
        parts += [_table(one.tallies), _healthy(one), _confusion(one.confusion)]
        parts += [
            _calibration("tell how one was lost", one.losses),
            _calibration("tell something else", one.others),
        ]
        parts += [_silences(one.silences)]
    parts += [_ran(version, scenarios) for version, scenarios in sorted(origin.ran.items())]
    return "\n\n".join(parts) + "\n"


def _ran(version: str, scenarios: Mapping[str, Sequence[str]]) -> str:
    lines = [f"## What ran on Kafka {version}", "", "| scenario | client families |", "|---|---|"]
    lines += [f"| {name} | {', '.join(families)} |" for name, families in sorted(scenarios.items())]
    return "\n".join(lines)


def _top(origin: Origin) -> str:
    seeds = ", ".join(map(str, origin.seeds))
    facts = [
        f"- Made by `{origin.command}` from scenarios that ran for {origin.seconds / 60:.0f} minutes",
        f"  {_days(origin.days)}{''.join(f', {one}' for one in origin.software)}.",
        f"- Brokers: {', '.join(origin.brokers)}. Scenario runs: {origin.runs}. Seeds: {seeds}.",
        *(f"- {remark}" for remark in origin.remarks),
    ]
    seen = ", ".join(map(str, DEVELOPED_ON))
    return "\n".join(["# Accuracy: every table", "", INTRODUCTION.format(seeds=seen), "", *facts])


def _days(days: tuple[int, int]) -> str:
    first, last = (f"{datetime.fromtimestamp(at / 1000, UTC):%Y-%m-%d}" for at in days)
    return f"on {first}" if first == last else f"from {first} to {last}"


INTRODUCTION = """The summary is [Accuracy](../accuracy.md), the method is in [the lab](../lab.md).

- The truth is the coordinator's own log: real brokers, real clients, injected faults.
- Intervals are 95 % Wilson intervals.
- A cause counts as claimed from a confidence of 0.6. `unsure` means less; `nothing` means that the member was
  not named.
- A run does not count if the machine starved or fenced its broker. Such runs are named below.
- Detection was developed on runs of the seeds {seeds}. Figures on these seeds say how well it fits what was
  seen. Figures on other seeds are given apart.
- In families named `manual` the members commit by hand.
- Delays are of runs whose mean machine load was at most its number of cores, after the job's first minute.
- A cell with too few truths counts as missed if even the upper end of its interval is below the bar.
- Causes of groups whose max.poll.interval is below 1.3 session timeouts are counted, but held to no bar."""
DEVELOPED_ON = (0, 1, 2, 3, 7, 11, 12, 13, 21, 22, 31, *range(41, 49), 51, 53, 61, *range(71, 74), 76, 81)
"""Seeds of the runs that detection was developed on."""


def _table(tallies: Mapping[tuple[str, str], Tally]) -> str:
    labels = list(dict.fromkeys(label for label, _ in tallies))
    lines = [HEAD, RULE]
    for label in labels:
        families = {family: one for (name, family), one in tallies.items() if name == label}
        lines.append(_row(f"**{label}**", "**all**", together(families.values())))
        lines += [_row(label, family, one) for family, one in families.items()]
    return "\n".join(lines)


def _row(label: str, family: str, one: Tally) -> str:
    cells = [
        label,
        family,
        group_type(family),
        str(one.facts),
        str(one.detected),
        str(one.missed),
        str(one.wrong),
        share(one.right, one.claims),
        share(one.detected, one.facts),
        _delay(one.delays),
    ]
    return "| " + " | ".join(cells) + " |"


def group_type(family: str) -> str:
    """Give the type of a family's groups; "" for all of them together."""
    if plain(family) in FAMILIES:
        return FAMILIES[plain(family)].group_type
    return "" if family.startswith("**") else "classic"


def _delay(delays: Sequence[float]) -> str:
    if not delays:
        return ""
    return " / ".join(f"{percentile(delays, part):.1f} s" for part in (0.5, 0.95, 1.0))


def _healthy(one: Scored) -> str:
    hours = sum(one.quiet_hours.values())
    families = ", ".join(f"{family} {some:.1f}" for family, some in one.quiet_hours.items())
    return (
        f"Findings of warning or worse that name groups to which nothing was done: {one.noise} in "
        f"{hours:.1f} group-hours{f' ({families})' if families else ''}. `raw` are groups of one member; the "
        "others have several, of real clients."
    )


def _calibration(what: str, bands: Sequence[Band]) -> str:
    if not bands:
        return f"There are no causes of members that {what}."
    lines = [
        f"Calibration: of the causes of members that {what}, with this confidence, how many were true.",
        "",
    ]
    lines += ["| confidence | stated | claims | true | share |", "|---|--:|--:|--:|---|"]
    lines += [
        f"| {one.low:.1f}-{one.low + 0.1:.1f} | {one.stated:.2f} | {one.claims} | {one.true} | "
        f"{share(one.true, one.claims)} |"
        for one in bands
    ]
    return "\n".join(lines)


def _silences(found: Mapping[float, Silences]) -> str:
    if not found:
        return "No member was said to be silent."
    lines = [
        "Members said to be silent before the broker acted (`member_silent`), by the finding's confidence:"
    ]
    lines += [
        "how many the broker expelled afterwards; live, the time from the deadline to the finding (which"
    ]
    lines += [
        "has a grace in it), and from the finding to the broker's line. Less than 0 is later than that.",
        "",
    ]
    lines += ["| confidence | claimed | expelled | share | after the deadline p50 / p95 / max | ahead p50 |"]
    lines += ["|---|--:|--:|---|---|---|"]
    for confidence, one in found.items():
        ahead = f"{percentile(one.ahead, 0.5):.1f} s" if one.ahead else ""
        true = share(one.true, one.claimed)
        lines.append(
            f"| {confidence:.1f} | {one.claimed} | {one.true} | {true} | {_delay(one.after)} | {ahead} |"
        )
    return "\n".join(lines)


def _confusion(counts: Mapping[tuple[str, str], int]) -> str:
    """Give the matrix of what became of lost members (rows) against what was said of them (columns)."""
    said = [cause.value for cause in LOSSES] + [UNSURE, NOTHING]
    columns = [name for name in said if any(claimed == name for _, claimed in counts)]
    rows = [cause.value for cause in LOSSES if any(true == cause.value for true, _ in counts)]
    if not rows:
        return "No member was lost."
    lines = ["Members that were lost: what was true (rows), and what was said of them with confidence.", ""]
    lines += ["| | " + " | ".join(columns) + " |", "|---|" + "--:|" * len(columns)]
    for true in rows:
        cells = (str(counts.get((true, claimed), 0) or "") for claimed in columns)
        lines.append(f"| {true} | " + " | ".join(cells) + " |")
    return "\n".join(lines)
