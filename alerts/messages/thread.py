"""Messages of a thread: the present state of a group of alerts, and what is new in it. Pure.

One alert is told as its newest finding. Several share one message: how many fire, one line each, worst
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
from rebalance_monitor.alerts.messages.message import (
    MAX_TITLE,
    NO_LINKS,
    message_of,
    next_step,
    subject_of,
    tone_of,
    what_of,
)
from rebalance_monitor.coordinator.findings.kinds import Severity
from rebalance_monitor.coordinator.findings.wording import likely

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rebalance_monitor.alerts.incidents.alert import Alert
    from rebalance_monitor.alerts.incidents.tally import Tally
    from rebalance_monitor.alerts.messages.links import Links
    from rebalance_monitor.coordinator.findings.finding import Finding

MAX_ALERTS = 12
_RANK = {severity: rank for rank, severity in enumerate(reversed(Severity))}


def message_of_thread(
    alerts: tuple[Alert, ...], now: int, tally: Tally, links: Links = NO_LINKS, opened_at: int | None = None
) -> Message:
    """Return the message of at least one alert at `now` (ms); `opened_at` is when the thread began."""
    over = all(alert.resolved(now) for alert in alerts)
    if len(alerts) == 1:
        return _single(alerts[0], tally, links, over=over)
    ordered = sorted(alerts, key=lambda alert: _order(alert, now))
    firing = sum(not alert.resolved(now) for alert in alerts)
    blocks: list[Block] = [_list(ordered, now)]
    if over:
        began = min(alert.starts_at for alert in alerts) if opened_at is None else opened_at
        ended = max(alert.ends_at for alert in alerts)
        lasted = ("Lasted", text.duration(max(0, ended - began)))
        rows = [lasted, *measures.closing(tally)]
        blocks.insert(0, Fields(tuple((label, (plain(value),)) for label, value in rows)))
    blocks.append(Paragraph(next_step(ordered[0].finding, replace(links, page=None))))
    tone = Tone.RESOLVED if over else tone_of(ordered[0].finding)
    return Message(tone, _title(ordered, firing), tuple(blocks))


def news_of(findings: tuple[Finding, ...], message: Message, said: str = "") -> Message:
    """Return the reply that says what is new in a thread whose present state is `message`."""
    lines = tuple(_news(finding) for finding in findings)
    blocks: list[Block] = [Paragraph((plain(said),))] if said else []
    if lines:
        blocks.append(Bullets(lines))
    return Message(message.tone, message.title, tuple(blocks))


def _single(alert: Alert, tally: Tally, links: Links, *, over: bool) -> Message:
    made = message_of(alert.finding, links, tally if over else None)
    return Message(Tone.RESOLVED, made.title, made.blocks) if over else made


def _order(alert: Alert, now: int) -> tuple[bool, int, int]:
    return (alert.resolved(now), _RANK[alert.finding.severity], alert.starts_at)


def _title(ordered: list[Alert], firing: int) -> str:
    """Name the groups and what befalls them, then how many alerts that is."""
    cluster = f"[{text.name(ordered[0].finding.cluster, 40)}]"
    subjects = (subject_of(alert.finding, 40).rstrip(":") or "cluster" for alert in ordered)
    kinds = (alert.finding.kind.value.replace("_", " ") for alert in ordered)
    what = f"{_some(subjects, 2)}: {_some(kinds, 3)}"
    if not firing:
        return text.cut(f"{cluster} {what} (all {len(ordered)} alerts are over)", MAX_TITLE)
    count = f"{len(ordered)} alerts" if firing == len(ordered) else f"{firing} of {len(ordered)} alerts fire"
    return text.cut(f"{cluster} {what} ({count})", MAX_TITLE)


def _some(names: Iterable[str], limit: int) -> str:
    """Return the first names, each once, and how many more there are."""
    known = list(dict.fromkeys(names))
    return ", ".join(known[:limit]) + (f" and {len(known) - limit} more" if len(known) > limit else "")


def _list(ordered: list[Alert], now: int) -> Bullets:
    shown = ordered[:MAX_ALERTS]
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
    return (bold(f"{severity} "), *who, plain(what_of(finding)), faint(f", {since}"), *_because(finding))


def _because(finding: Finding) -> Line:
    if not finding.causes:
        return ()
    first = finding.causes[0]
    words = likely(first.cause.value, first.confidence).replace("_", " ")
    named = first.client_id or first.host
    who: Line = (plain(" of "), code(text.name(named))) if named else ()
    return (plain(f"; {words}"), *who)


def _news(finding: Finding) -> Line:
    return (faint(f"{text.moment(finding.at)} "), plain(_without_cluster(finding)), *_because(finding))


def _without_cluster(finding: Finding) -> str:
    who = f"{subject_of(finding)} ".lstrip()
    stopped = text.bounds(finding.stopped_ms_min, finding.stopped_ms_max)
    return f"{who}{what_of(finding)}" + (f", consumption stopped {stopped}" if stopped else "")
