"""Messages of a thread: the present state of a group of alerts, and what is new in it. Pure.

One alert is shown as its newest finding. Several share one message: how many are open, one line each, worst
first, and the next step of the worst. A closed thread is summed up with its duration and its tally.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from rebalance_monitor.alerts.messages import measures, text
from rebalance_monitor.alerts.messages.blocks import (
    Block,
    Bullets,
    Fields,
    Line,
    Message,
    Paragraph,
    Tone,
    bold,
    code,
    faint,
    plain,
)
from rebalance_monitor.alerts.messages.lead import Ended, cause_words, first_cause, joined, shown_cause
from rebalance_monitor.alerts.messages.message import (
    MAX_TITLE,
    NO_LINKS,
    links_of,
    message_of,
    next_step,
    subject_of,
    tone_of,
    what_of,
)
from rebalance_monitor.coordinator.findings.kinds import Scope, Severity

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rebalance_monitor.alerts.incidents.alert import Alert
    from rebalance_monitor.alerts.incidents.tally import Tally
    from rebalance_monitor.alerts.messages.links import Links
    from rebalance_monitor.coordinator.findings.finding import Finding

MAX_LINES = 3
"""Alerts that are listed before the details."""
MAX_ALERTS = 12
_RANK = {severity: rank for rank, severity in enumerate(reversed(Severity))}


def message_of_thread(
    alerts: tuple[Alert, ...], now: int, tally: Tally, links: Links = NO_LINKS, opened_at: int | None = None
) -> Message:
    """Return the message of at least one alert at `now` (ms); `opened_at` is when the thread began."""
    over = all(alert.resolved(now) for alert in alerts)
    if len(alerts) == 1:
        return message_of(alerts[0].finding, links, Ended(_ended_at(alerts[0], now), tally) if over else None)
    ordered = sorted(alerts, key=lambda alert: _order(alert, now))
    firing = [alert for alert in ordered if not alert.resolved(now)]
    blocks: list[Block] = [
        Paragraph(_summed(alerts, opened_at) if over else _open(firing)),
        _list(ordered, now, MAX_LINES),
        Paragraph((bold("Next: "), plain(next_step(ordered[0].finding, over=over)))),
    ]
    if addresses := links_of(ordered[0].finding, replace(links, page=None), over=over):
        blocks.append(Paragraph(addresses))
    details: list[Block] = [_list(ordered, now, MAX_ALERTS)] if len(ordered) > MAX_LINES else []
    if over and (rows := measures.closing(tally)):
        details.insert(0, Fields(tuple((label, (plain(value),)) for label, value in rows)))
    tone = Tone.RESOLVED if over else tone_of(ordered[0].finding)
    return Message(tone, _title(ordered, len(firing)), tuple(blocks), tuple(details))


def _ended_at(alert: Alert, now: int) -> int:
    """Return when an incident ended: its alert may fire for longer, because it explains others."""
    is_known = alert.finding.phase == "resolved"
    return min(now, alert.ends_at, alert.finding.at if is_known else now)


def news_of(findings: tuple[Finding, ...], message: Message, said: str = "") -> Message:
    """Return the reply that says what is new in a thread whose present state is `message`."""
    lines = tuple(_news(finding) for finding in findings)
    blocks: list[Block] = [Paragraph((plain(said),))] if said else []
    if lines:
        blocks.append(Bullets(lines))
    return Message(message.tone, message.title, tuple(blocks))


def _summed(alerts: Iterable[Alert], opened_at: int | None) -> Line:
    began = min(alert.starts_at for alert in alerts) if opened_at is None else opened_at
    ended = max(alert.ends_at for alert in alerts)
    return (plain(f"Lasted {text.duration(max(0, ended - began))}, until {text.moment(ended)}"),)


def _open(firing: list[Alert]) -> Line:
    """Say since when the first of them has been open, and which cause they share."""
    since = text.moment(min(alert.starts_at for alert in firing))
    causes = [first_cause(alert.finding) for alert in firing]
    named = {None if entry is None else (entry.cause, entry.client_id or entry.host) for entry in causes}
    shared: Line = ()
    if len(named) == 1 and causes[0] is not None:
        shared = (*cause_words(causes[0]), plain("; "))
    return joined([(*shared, plain(f"since {since}"))])


def _order(alert: Alert, now: int) -> tuple[bool, int, int]:
    return (alert.resolved(now), _RANK[alert.finding.severity], alert.starts_at)


def _title(ordered: list[Alert], firing: int) -> str:
    """Name the groups and what befalls them, then how many alerts that is."""
    cluster = f"[{text.name(ordered[0].finding.cluster, 40)}]"
    subjects = (_subject(alert.finding) for alert in ordered)
    kinds = (alert.finding.kind.value.replace("_", " ") for alert in ordered)
    what = f"{_some(subjects, 2)}: {_some(kinds, 3)}"
    if not firing:
        return text.cut(f"{cluster} {what} (all {len(ordered)} alerts are over)", MAX_TITLE)
    count = (
        f"{len(ordered)} alerts"
        if firing == len(ordered)
        else f"{firing} of {len(ordered)} alerts still open"
    )
    return text.cut(f"{cluster} {what} ({count})", MAX_TITLE)


def _some(names: Iterable[str], limit: int) -> str:
    """Return the first names, each once, and how many more there are."""
    known = list(dict.fromkeys(names))
    return ", ".join(known[:limit]) + (f" and {len(known) - limit} more" if len(known) > limit else "")


def _subject(finding: Finding) -> str:
    return subject_of(finding, 40).rstrip(":") or ("monitor" if finding.scope is Scope.MONITOR else "cluster")


def _list(ordered: list[Alert], now: int, limit: int) -> Bullets:
    shown = ordered[:limit]
    return Bullets(tuple(_line(alert, now) for alert in shown), len(ordered) - len(shown))


def _line(alert: Alert, now: int) -> Line:
    finding = alert.finding
    over = alert.resolved(now)
    state = f"lasted {text.duration(max(0, alert.ends_at - alert.starts_at))}"
    since = state if over else f"since {text.moment(alert.starts_at)}"
    severity = "resolved" if over else finding.severity.value
    who: Line = (code(subject_of(finding)), plain(" ")) if finding.group is not None else ()
    if not who and subject_of(finding):
        who = (plain(f"{subject_of(finding)} "),)
    return (
        bold(f"{severity} "),
        *who,
        plain(what_of(finding, over=over)),
        faint(f", {since}"),
        *_because(finding),
    )


def _because(finding: Finding) -> Line:
    entry = shown_cause(finding)
    return () if entry is None else (plain("; "), *cause_words(entry))


def _news(finding: Finding) -> Line:
    return (faint(f"{text.moment(finding.at)} "), plain(_without_cluster(finding)), *_because(finding))


def _without_cluster(finding: Finding) -> str:
    who = f"{subject_of(finding)} ".lstrip()
    stopped = text.bounds(finding.stopped_ms_min, finding.stopped_ms_max)
    return f"{who}{what_of(finding)}" + (f", consumption stopped {stopped}" if stopped else "")
