"""A finding as a message: title, lead, a few lines to act on, then details. Pure.

At most MAX_LINES lines stand before the details. What is only suspected says so in its title and with its
confidence. The sentence behind a cause is shown as the detection wrote it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from rebalance_monitor.alerts.messages import lead, measures, text
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
from rebalance_monitor.alerts.messages.endings import NOTHING, ended_as, ending_of
from rebalance_monitor.alerts.messages.headlines import BY_CAUSE, HEADLINES
from rebalance_monitor.alerts.messages.lead import Ended
from rebalance_monitor.alerts.messages.links import Links, silence_command
from rebalance_monitor.coordinator.findings.kinds import Kind, Severity
from rebalance_monitor.coordinator.lag.judging.continuing import STANDING
from rebalance_monitor.coordinator.storms.offenders import main_offender

if TYPE_CHECKING:
    from rebalance_monitor.coordinator.findings.finding import CauseEntry, Finding, MemberEntry

MAX_LINES = 7
"""Lines of a message before its details, the title among them."""
MAX_ROWS = 3
MAX_CAUSES = 4
MAX_MEMBERS = 8
MAX_GROUPS = 10
MAX_NAMED = 3
MAX_WHY = 500
MAX_TITLE = 150
_TONES = {Severity.CRITICAL: Tone.CRITICAL, Severity.WARNING: Tone.WARNING, Severity.INFO: Tone.INFO}
NO_LINKS = Links()
_GOES_ON = "Wait for the end of the incident: its partitions have not moved on yet."
_ABOUT_MEMBERS = STANDING | {Kind.MEMBER_SILENT}
"""Kinds whose message names the members of the finding, which may all have stayed."""
_HAPPENED = ("joined", "left", "replaced")
_IN_LEAD, _IN_WHY = frozenset({"Most frequent"}), frozenset({"Silence", "Commits", "Waits for"})
"""Labels of rows that repeat the lead of a storm with an offender, and the sentence behind a cause."""
LabelledLine: TypeAlias = tuple[str, Line]


def message_of(finding: Finding, links: Links = NO_LINKS, ended: Ended | None = None) -> Message:
    """Return the message of one finding; `ended`: the incident is over, though the finding may not say so."""
    if ended is None and finding.phase == "resolved":
        ended = Ended(finding.at)
    rows, more = _rows(finding, ended)
    blocks: list[Block] = [Paragraph(lead.lead(finding, ended))]
    blocks += [Fields(tuple(rows))] if rows else []
    blocks.append(Paragraph((bold("Next: "), plain(next_step(finding, over=ended is not None)))))
    if addresses := links_of(finding, links, over=ended is not None):
        blocks.append(Paragraph(addresses))
    details = [Fields(tuple(more)), *_causes(finding, ended), *_member_blocks(finding)]
    tone = Tone.RESOLVED if ended is not None else _TONES[finding.severity]
    return Message(tone, title_of(finding, over=ended is not None), tuple(blocks), tuple(details))


def title_of(finding: Finding, *, over: bool = False) -> str:
    """Return the title: cluster, group or scope, and what happened, at most 150 code points."""
    what = what_of(finding, over=over)
    where = f"[{text.name(finding.cluster, 40)}]"
    room = MAX_TITLE - len(where) - len(what) - 2
    words = (where, subject_of(finding, room), what)
    return text.cut(" ".join(filter(None, words)), MAX_TITLE)


def subject_of(finding: Finding, room: int = text.MAX_NAME) -> str:
    """Return what is affected: a group in `room` code points, so many groups, a partition, or nothing."""
    if finding.group is not None:
        return text.name(finding.group, room)
    if finding.groups_total > 0:
        return f"{text.count(finding.groups_total, 'group')}:"
    if moved := finding.details.get("moved"):
        return f"{text.count(int(moved), 'offsets partition')}:"
    return "" if finding.shard is None else f"offsets partition {finding.shard}:"


def what_of(finding: Finding, *, over: bool = False) -> str:
    """Return what happened, as it follows the group's name; what is only suspected says so."""
    if over or _is_over(finding):
        return ended_as(finding)
    opened = _opened(finding)
    return f"{opened} (suspected)" if finding.evidence == "suspected" else opened


def _is_over(finding: Finding) -> bool:
    """Whether what it is about has ended, though its incident may go on: under another kind's name."""
    return finding.phase == "resolved" or finding.resolution is not None


def tone_of(finding: Finding) -> Tone:
    """Return the colour of a finding: its severity, or green where it ends an incident."""
    return Tone.RESOLVED if finding.phase == "resolved" else _TONES[finding.severity]


def next_step(finding: Finding, *, over: bool = False) -> str:
    """Return what to do."""
    if over or _is_over(finding):
        then = ending_of(finding).next_step
        return _GOES_ON if finding.phase == "updated" and then == NOTHING else then
    said = HEADLINES[finding.kind]
    spread = (
        said.spread if finding.details.get("worst_client") and not main_offender(finding.details) else None
    )
    entry = lead.first_cause(finding)
    by_cause = None if entry is None else BY_CAUSE.get((finding.kind, entry.cause))
    shared = said.shared if finding.groups_total else None
    return spread or shared or by_cause or said.next_step


def links_of(finding: Finding, links: Links, *, over: bool = False) -> Line:
    """Return the pages of incident and group, the runbook's section, and where to silence what is open.

    Without any address the line says why, and where the runbook is.
    """
    addresses = (
        ("Incident page", links.incident_of(finding)),
        ("Group page", links.page_of(finding)),
        ("Runbook", links.runbook_of(finding)),
        ("Silence 1 h", None if over else links.silence_of(finding)),
    )
    shown = [link(words, address) for words, address in addresses if address is not None]
    if not shown and links.missing:
        return (plain(links.missing.replace("{kind}", finding.kind.value)),)
    spaced = [span for one in shown for span in (plain(" · "), one)]
    return tuple(spaced[1:])


def _opened(finding: Finding) -> str:
    said, number = HEADLINES[finding.kind], finding.members_affected or 0
    if finding.kind is Kind.SLOW_SYNC:
        return said.opened.format(sync=text.duration(finding.sync_ms))
    if finding.kind is Kind.PARTITIONS_UNASSIGNED:
        return _unassigned(finding) or said.opened
    if said.many is None or number < 2:  # noqa: PLR2004 - the other sentence is about one
        return said.opened
    total = finding.details.get("members_before")
    return said.many.format(number=f"{number:,}", of=f" of {total:,}" if isinstance(total, int) else "")


def _unassigned(finding: Finding) -> str:
    """Return how many partitions nobody reads, and how many two members read; "" where that is not known."""
    unread, twice = (
        sum(value for name in names if isinstance(value := finding.details.get(name), int))
        for names in (("unread", "skipped", "unowned"), ("twice",))
    )
    parts = [f"leaves {text.count(unread, 'partition')} unread"] if unread else []
    parts += [f"reads {text.count(twice, 'partition')} twice"] if twice else []
    return " and ".join(parts)


def _rows(finding: Finding, ended: Ended | None) -> tuple[list[LabelledLine], list[LabelledLine]]:
    """Return the labelled lines to act on, and the lines for an investigation."""
    groups = [("Groups", _groups(finding))] if finding.groups else []
    groups += [("Member" if len(finding.members) == 1 else "Members", who)] if (who := _who(finding)) else []
    own = measures.key_rows(finding)
    last = [*_worded(measures.more_rows(finding)), ("Evidence", (_evidence(finding),))]
    if ended is not None:
        return [*groups, *_worded(measures.closing(ended.tally))], [*_worded(measures.past(own)), *last]
    entry = lead.shown_cause(finding)
    why = [("Why", _why(entry))] if entry is not None and entry.why else []
    said = _IN_LEAD if main_offender(finding.details) else frozenset()
    later = _IN_WHY if why else frozenset()
    last.append(("Silence 1 h", (code(text.visible(silence_command(finding))),)))
    rows = [*groups, *why, *_worded([row for row in own if row[0] not in said | later])]
    return rows[:MAX_ROWS], [*rows[MAX_ROWS:], *_worded([row for row in own if row[0] in later]), *last]


def _who(finding: Finding) -> Line:
    """Return the members that a finding is about, where no cause in its lead names one."""
    entry = lead.first_cause(finding)
    if finding.kind not in _ABOUT_MEMBERS or (entry is not None and entry.client_id):
        return ()
    named = [lead.identity(one.client_id, one.host, one.instance_id) for one in finding.members[:MAX_NAMED]]
    line = tuple(span for who in named for span in (plain(", "), *who))[1:]
    more = len(finding.members) - len(named)
    return (*line, faint(f" +{more:,} more")) if more > 0 else line


def _worded(rows: list[measures.Row]) -> list[LabelledLine]:
    return [(label, (plain(value),)) for label, value in rows]


def _why(entry: CauseEntry) -> Line:
    return (plain(text.cut(text.visible(entry.why), MAX_WHY)),)


def _evidence(finding: Finding) -> Span:
    if finding.evidence == "suspected":
        return bold(f"suspected, confidence {finding.confidence:.0%}")
    # What was read or derived is certain unless it says otherwise; its cause may be unknown all the same.
    sure = f", confidence {finding.confidence:.0%}" if finding.confidence < 1 else ""
    return plain(f"{finding.evidence}{sure}")


def _causes(finding: Finding, ended: Ended | None) -> list[Block]:
    """List the causes; where the lines before the details say the only one, nothing."""
    shown = finding.causes[:MAX_CAUSES]
    if not shown or (ended is None and len(finding.causes) == 1):
        return []
    listed = Bullets(tuple(_cause(entry) for entry in shown), len(finding.causes) - len(shown))
    return [Paragraph((bold("Causes" if len(finding.causes) > 1 else "Cause"),)), listed]


def _cause(entry: CauseEntry) -> Line:
    line = lead.cause_words(entry)
    return (*line, plain(": "), *_why(entry)) if entry.why else line


def _member_blocks(finding: Finding) -> list[Block]:
    moved = [member for member in finding.members if member.role in _HAPPENED]
    shown = moved[:MAX_MEMBERS]
    if not shown:
        return []
    # A finding lists at most some of them.
    total = max(finding.members_affected or 0, len(moved))
    listed = Bullets(tuple(_member(member) for member in shown), total - len(shown))
    return [Paragraph((bold("Members"),)), listed]


def _member(member: MemberEntry) -> Line:
    line: Line = (
        plain(f"{member.role}: "),
        *lead.identity(member.client_id, member.host, member.instance_id),
    )
    stale = " (host as of its first start)" if member.host_is_stale else ""
    silence = f", no commit for {text.duration(member.silence_ms)}" if member.silence_ms is not None else ""
    return (*line, faint(f"{stale}{silence}, {text.count(member.partitions, 'partition')}"))


def _groups(finding: Finding) -> Line:
    shown = finding.groups[:MAX_GROUPS]
    named = [span for group in shown for span in (plain(", "), code(text.name(group)))]
    more = max(finding.groups_total, len(finding.groups)) - len(shown)
    return (*named[1:], faint(f" +{more:,} more")) if more else tuple(named[1:])
