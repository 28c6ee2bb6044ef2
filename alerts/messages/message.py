"""A finding as a message; in this order: which group, what, since when, how bad, why, who, what next.

Pure. What is only suspected says so in its title and with its confidence; the sentence of numbers behind a
cause is shown as the detection wrote it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rebalance_monitor.alerts.messages import measures, text
from rebalance_monitor.alerts.messages.blocks import (
    Block,
    Bullets,
    Fields,
    Line,
    Message,
    Paragraph,
    Span,
    Tone,
    bold,
    code,
    faint,
    link,
    plain,
)
from rebalance_monitor.alerts.messages.headlines import HEADLINES, Headline
from rebalance_monitor.alerts.messages.links import Links
from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.kinds import Severity

if TYPE_CHECKING:
    from rebalance_monitor.alerts.incidents.tally import Tally
    from rebalance_monitor.coordinator.findings.finding import CauseEntry, Finding, MemberEntry

OVER = "Nothing to do now; the runbook says how to keep it from coming back."
MAX_CAUSES = 4
MAX_MEMBERS = 8
MAX_GROUPS = 10
MAX_WHY = 500
MAX_TITLE = 150
_TONES = {Severity.CRITICAL: Tone.CRITICAL, Severity.WARNING: Tone.WARNING, Severity.INFO: Tone.INFO}
NO_LINKS = Links()
_HAPPENED = ("joined", "left", "replaced")


def message_of(finding: Finding, links: Links = NO_LINKS, closing: Tally | None = None) -> Message:
    """Return the message of one finding; `closing` sums up the incident that this finding ended."""
    blocks: list[Block] = [Fields(tuple(_facts(finding, closing)))]
    blocks += _causes(finding)
    blocks += _who(finding)
    blocks.append(Paragraph(next_step(finding, links)))
    return Message(tone_of(finding), title_of(finding), tuple(blocks))


def title_of(finding: Finding) -> str:
    """Return the title: cluster, group or scope, and what happened, at most 150 code points."""
    what = what_of(finding)
    where = f"[{text.name(finding.cluster, 40)}]"
    room = MAX_TITLE - len(where) - len(what) - 2
    words = (where, subject_of(finding, room), what)
    return text.cut(" ".join(filter(None, words)), MAX_TITLE)


def subject_of(finding: Finding, room: int = text.MAX_NAME) -> str:
    """Return whom it concerns: a group's name in `room` code points, so many groups, a shard, or nobody."""
    if finding.group is not None:
        return text.name(finding.group, room)
    if finding.groups_total > 0:
        return f"{text.count(finding.groups_total, 'group')}:"
    return "" if finding.shard is None else f"shard {finding.shard}:"


def what_of(finding: Finding) -> str:
    """Return what happened, as it follows the group's name; what is only suspected says so."""
    said = HEADLINES[finding.kind]
    if finding.phase == "resolved":
        return said.resolved or said.opened
    opened = _opened(said, finding)
    return f"{opened} (suspected)" if finding.evidence == "suspected" else opened


def _opened(said: Headline, finding: Finding) -> str:
    number = finding.members_affected or 0
    if said.many is None or number < 2:  # noqa: PLR2004 - the other sentence is about one
        return said.opened
    total = finding.details.get("members_before")
    return said.many.format(number=f"{number:,}", of=f" of {total:,}" if isinstance(total, int) else "")


def tone_of(finding: Finding) -> Tone:
    """Return the colour of a finding: its severity, or green where it ends an incident."""
    return Tone.RESOLVED if finding.phase == "resolved" else _TONES[finding.severity]


def next_step(finding: Finding, links: Links) -> Line:
    """Return the line that says what to do, with the runbook's section and the incident's or group's page."""
    step = OVER if finding.phase == "resolved" else HEADLINES[finding.kind].next_step
    line: Line = (bold("Next: "), plain(step))
    incident = links.incident_of(finding)
    page = ("Incident page", incident) if incident else ("Group page", links.page_of(finding))
    for words, address in (("Runbook", links.runbook_of(finding)), page):
        if address is not None:
            line = (*line, plain(" "), link(words, address))
    return line


def _facts(finding: Finding, closing: Tally | None) -> list[tuple[str, Line]]:
    rows: list[tuple[str, Line]] = []
    if finding.group is not None:
        rows.append(("Group", (code(text.name(finding.group)),)))
    if finding.groups:
        rows.append(("Groups", _groups(finding)))
    rows.append(_when(finding))
    rows += [(label, (plain(value),)) for label, value in measures.measures(finding)]
    if closing is not None:
        rows += _summed(closing, {label for label, _ in rows})
    rows.append(("Evidence", (_evidence(finding),)))
    return rows


def _summed(closing: Tally, said: set[str]) -> list[tuple[str, Line]]:
    return [(label, (plain(value),)) for label, value in measures.closing(closing) if label not in said]


def _when(finding: Finding) -> tuple[str, Line]:
    since = finding.opened_at
    if since is None:
        return ("When", (plain(text.moment(finding.at)),))
    lasted = text.duration(finding.at - since) if since < finding.at else ""
    if finding.phase == "resolved":
        return ("Lasted", (plain(lasted or "no time"), faint(f", until {text.moment(finding.at)}")))
    so_long: Line = (faint(f" (for {lasted})"),) if lasted else ()
    return ("Since", (plain(text.moment(since)), *so_long))


def _evidence(finding: Finding) -> Span:
    if finding.evidence == "suspected":
        return bold(f"suspected, confidence {finding.confidence:.0%}")
    # What was read or derived is certain unless it says otherwise; its cause may be unknown all the same.
    sure = f", confidence {finding.confidence:.0%}" if finding.confidence < 1 else ""
    return plain(f"{finding.evidence}{sure}")


def _causes(finding: Finding) -> list[Block]:
    shown = finding.causes[:MAX_CAUSES]
    if not shown:
        return []
    listed = Bullets(tuple(_cause(entry) for entry in shown), len(finding.causes) - len(shown))
    return [Paragraph((bold("Probable cause"),)), listed]


def _cause(entry: CauseEntry) -> Line:
    line: Line = (bold(entry.cause.value.replace("_", " ")), faint(f" {entry.confidence:.0%}"))
    if entry.cause is Cause.UNKNOWN:
        line = (bold("not known"),)
    who = _identity(entry.client_id, entry.host, entry.instance_id)
    if who:
        line += (plain(" — "), *who)
    return (*line, plain(": " + text.cut(text.visible(entry.why), MAX_WHY))) if entry.why else line


def _identity(client_id: str | None, host: str | None, instance_id: str | None) -> Line:
    named = ((" ", client_id), (" as ", instance_id), (" on ", host.lstrip("/") if host else None))
    line = [span for word, name in named if name for span in (plain(word), code(text.name(name)))]
    return (plain(line[0].text.lstrip()), *line[1:]) if line else ()


def _who(finding: Finding) -> list[Block]:
    moved = [member for member in finding.members if member.role in _HAPPENED]
    shown = moved[:MAX_MEMBERS]
    if not shown:
        return []
    # A finding lists at most some of them.
    total = max(finding.members_affected or 0, len(moved))
    listed = Bullets(tuple(_member(member) for member in shown), total - len(shown))
    return [Paragraph((bold("Members"),)), listed]


def _member(member: MemberEntry) -> Line:
    line: Line = (plain(f"{member.role}: "), *_identity(member.client_id, member.host, member.instance_id))
    stale = " (host as of its first start)" if member.host_is_stale else ""
    silence = f", silent {text.duration(member.silence_ms)}" if member.silence_ms is not None else ""
    return (*line, faint(f"{stale}{silence}, {text.count(member.partitions, 'partition')}"))


def _groups(finding: Finding) -> Line:
    shown = finding.groups[:MAX_GROUPS]
    named = [span for group in shown for span in (plain(", "), code(text.name(group)))]
    more = max(finding.groups_total, len(finding.groups)) - len(shown)
    return (*named[1:], faint(f" +{more:,} more")) if more else tuple(named[1:])
