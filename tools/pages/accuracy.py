"""Writes docs/accuracy.md and docs/measurements/accuracy.md from the results in docs/accuracy/.

The first is the summary that a reader needs, the second has every table. The results are those of
`make accuracy-full`.
"""

from collections.abc import Iterable
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

from rebalance_monitor.coordinator.findings.kinds import Kind
from rebalance_monitor.lab.scoring import bars
from rebalance_monitor.lab.scoring.page_origin import Origin
from rebalance_monitor.lab.scoring.report import page
from rebalance_monitor.lab.scoring.score import Band, Tally, together
from rebalance_monitor.lab.scoring.scored import Scored
from rebalance_monitor.lab.scoring.statistics import percentile
from rebalance_monitor.lab.suite.accuracy import kept_sections
from tools.pages.templates import ROOT, fill, table

RESULTS = ROOT / "docs" / "accuracy"
_HUNDRED = 100


def measurements_markdown() -> str:
    """Return docs/measurements/accuracy.md: every table, seed and machine load."""
    return page(*_kept(RESULTS))


def accuracy_markdown() -> str:
    """Return docs/accuracy.md: the headline table, calibration, and what is not covered."""
    origin, sections = _kept(RESULTS)
    live, *_, replay = sections
    tables = {
        "ORIGIN": _origin(origin),
        "HEADLINE": _headline(live, replay),
        "VERDICTS": _verdicts(live),
        "CALIBRATION": _calibration(live.losses),
        "QUIET": _quiet(live, replay),
        "DELAYS": _delays(live),
    }
    return fill("accuracy", tables)


@cache
def _kept(folder: Path) -> tuple[Origin, list[Scored]]:
    return kept_sections(folder)


def _origin(origin: Origin) -> str:
    day = f"{datetime.fromtimestamp(origin.days[0] / 1000, UTC):%Y-%m-%d}"
    return (
        f"Measured on {day} by `{origin.command}`: {origin.runs} scenario runs of "
        f"{origin.seconds / 60:.0f} minutes in all, on Kafka {', '.join(origin.brokers)}."
    )


def _headline(live: Scored, replay: Scored) -> str:
    rows = []
    for bar in bars.BARS:
        seen, again = (_pooled(bar, one) for one in (live, replay))
        if seen is not None and again is not None:
            rows.append((_capital(bar.what), *_counts(seen), *_counts(again)))
    return table(("what happened", "found, live", "wrong", "found, replay", "wrong"), rows)


def _pooled(bar: bars.Bar, scored: Scored) -> Tally | None:
    tallies = scored.asked if bar.label in {bars.SESSION, bars.POLL} else scored.tallies
    found = bars.cells(bar, tallies)
    return together(found.values()) if found else None


def _counts(one: Tally) -> tuple[str, str]:
    wrong = f"{one.wrong:,} of {one.claims:,}" if one.claims else "nothing claimed"
    return f"{one.detected:,} of {one.facts:,}", wrong


def _verdicts(live: Scored) -> str:
    found = [row for row in bars.rows(live) if not row.what.startswith("calibration")]
    counts = {verdict: sum(row.verdict is verdict for row in found) for verdict in bars.Verdict}
    missed = [f"{row.what} ({row.cell})" for row in found if row.verdict is bars.Verdict.MISSED]
    text = (
        f"Live, {counts[bars.Verdict.REACHED]} cells reach their bar, {counts[bars.Verdict.TOO_FEW]} hold "
        f"too few truths for a verdict (fewer than {bars.ENOUGH}), and {counts[bars.Verdict.MISSED]} miss it"
    )
    return f"{text}: {'; '.join(missed)}." if missed else f"{text}."


def _calibration(bands: Iterable[Band]) -> str:
    lines = [
        f"- **{one.low:.1f} to {one.low + 0.1:.1f}** (mean {one.stated:.2f}): right {_often(one)}."
        for one in reversed(list(bands))
    ]
    return "\n".join(lines)


def _often(one: Band) -> str:
    """Return how often a band was right, per 100 where there are enough claims to say so."""
    if one.claims < _HUNDRED:
        return f"{one.true} of {one.claims} times"
    return f"{one.true * _HUNDRED // one.claims} of 100 times ({one.true:,} of {one.claims:,})"


def _quiet(live: Scored, replay: Scored) -> str:
    hours = (sum(one.quiet_hours.values()) for one in (live, replay))
    noise = (
        f"{one.noise} in {some:.1f} group-hours" for one, some in zip((live, replay), hours, strict=True)
    )
    return "Warnings about groups to which nothing was done: {} live, {} in the replay.".format(*noise)


def _delays(live: Scored) -> str:
    delays = sorted(
        delay for (label, _), one in live.tallies.items() if label == Kind.REBALANCE for delay in one.delays
    )
    median, most = (percentile(delays, part) for part in (0.5, 0.95))
    return (
        "From the broker's log line to the finding, live, before it is written: "
        f"{median:.1f} s (median), {most:.1f} s (95th percentile), over {len(delays):,} rebalances."
    )


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
