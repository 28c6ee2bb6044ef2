"""A finding as a message; in this order: which group, what, since when, how bad, why, who, what next.

Pure. What is only suspected says so, with its confidence; the sentence of numbers behind a cause is shown as
the detection wrote it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rebalance_monitor.alerts import text
from rebalance_monitor.alerts.blocks import (
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
from rebalance_monitor.alerts.headlines import HEADLINES
from rebalance_monitor.coordinator.kinds import Kind, Severity

if TYPE_CHECKING:
    from rebalance_monitor.coordinator.findings import CauseEntry, Finding, MemberEntry

MAX_CAUSES = 4
MAX_MEMBERS = 8
MAX_GROUPS = 10
MAX_WHY = 500
MAX_TITLE = 150
_TONES = {Severity.CRITICAL: Tone.CRITICAL, Severity.WARNING: Tone.WARNING, Severity.INFO: Tone.INFO}
_HAPPENED = ("joined", "left", "replaced")


def message_of(finding: Finding, runbook: str | None = None) -> Message:
    """Return the message of one finding; `runbook` is the address of the runbook page, if there is one."""
    blocks: list[Block] = [Fields(tuple(_facts(finding)))]
    blocks += _causes(finding)
    blocks += _who(finding)
    blocks += _groups(finding)
    blocks.append(Paragraph(_next(finding, runbook)))
    return Message(_tone(finding), title_of(finding), tuple(blocks))


def title_of(finding: Finding) -> str:
    """Return the title: cluster, group or scope, and what happened, at most 150 code points."""
    said = HEADLINES[finding.kind]
    what = said.resolved if finding.phase == "resolved" and said.resolved else said.opened
    where = f"[{text.name(finding.cluster, 40)}]"
    room = MAX_TITLE - len(where) - len(what) - 2
    who = text.name(finding.group, room) if finding.group is not None else ""
    words = [where, who, what] if who else [where, what]
    return text.cut(" ".join(words), MAX_TITLE)


def _tone(finding: Finding) -> Tone:
    return Tone.RESOLVED if finding.phase == "resolved" else _TONES[finding.severity]


def _facts(finding: Finding) -> list[tuple[str, Line]]:
    rows: list[tuple[str, Line]] = []
    if finding.group is not None:
        rows.append(("Group", (code(text.name(finding.group)),)))
    rows.append(("When", (plain(text.moment(finding.at)), *_since(finding))))
    rows += [(label, (plain(value),)) for label, value in _measures(finding) if value]
    rows.append(("Evidence", (_evidence(finding),)))
    return rows


def _since(finding: Finding) -> Line:
    if finding.opened_at is None or finding.opened_at >= finding.at:
        return ()
    return (faint(f" (for {text.duration(finding.at - finding.opened_at)})"),)


def _measures(finding: Finding) -> list[tuple[str, str | None]]:
    return [
        ("Generation", _generation(finding)),
        ("Members", _members(finding)),
        ("Consumption stopped", text.bounds(finding.stopped_ms_min, finding.stopped_ms_max)),
        ("Joining took", text.bounds(finding.join_ms_min, finding.join_ms_max)),
        ("Sync took", None if finding.sync_ms is None else text.duration(finding.sync_ms)),
        ("In the window", _storm(finding)),
        ("Ended", finding.resolution),
    ]


def _generation(finding: Finding) -> str | None:
    if finding.generation is None:
        return None
    before = finding.previous_generation
    return f"{finding.generation}" if before is None else f"{before} → {finding.generation}"


def _members(finding: Finding) -> str | None:
    parts = []
    if finding.members_affected is not None:
        parts.append(f"{finding.members_affected:,} affected")
    if finding.members_total is not None:
        parts.append(f"{finding.members_total:,} in the group")
    if finding.partitions_affected:
        parts.append(text.count(finding.partitions_affected, "partition"))
    return ", ".join(parts) or None


def _storm(finding: Finding) -> str | None:
    if finding.kind is not Kind.STORM or "count" not in finding.details:
        return None
    window = finding.details.get("window_ms")
    spoken = f" in {text.duration(window)}" if isinstance(window, int) else ""
    return f"{finding.details['count']} generations{spoken}"


def _evidence(finding: Finding) -> Span:
    percent = f"{finding.confidence:.0%}"
    if finding.evidence == "suspected":
        return bold(f"suspected, confidence {percent}")
    return plain(f"{finding.evidence}, confidence {percent}")


def _causes(finding: Finding) -> list[Block]:
    shown = finding.causes[:MAX_CAUSES]
    if not shown:
        return []
    return [Bullets(tuple(_cause(entry) for entry in shown), len(finding.causes) - len(shown))]


def _cause(entry: CauseEntry) -> Line:
    words = entry.cause.value.replace("_", " ")
    line: Line = (bold(words), faint(f" {entry.confidence:.0%}"))
    who = _identity(entry.client_id, entry.host, entry.instance_id)
    if who:
        line += (plain(" — "), *who)
    return (*line, plain(": " + text.cut(text.visible(entry.why), MAX_WHY))) if entry.why else line


def _identity(client_id: str | None, host: str | None, instance_id: str | None) -> Line:
    line: Line = ()
    if client_id:
        line += (code(text.name(client_id)),)
    if instance_id:
        line += (plain(" as "), code(text.name(instance_id)))
    if host:
        line += (plain(" on "), code(text.name(host.lstrip("/"))))
    return line


def _who(finding: Finding) -> list[Block]:
    moved = [member for member in finding.members if member.role in _HAPPENED]
    shown = moved[:MAX_MEMBERS]
    if not shown:
        return []
    return [Bullets(tuple(_member(member) for member in shown), len(moved) - len(shown))]


def _member(member: MemberEntry) -> Line:
    line: Line = (plain(f"{member.role}: "), *_identity(member.client_id, member.host, member.instance_id))
    stale = " (host as of its first start)" if member.host_is_stale else ""
    silence = f", silent {text.duration(member.silence_ms)}" if member.silence_ms is not None else ""
    return (*line, faint(f"{stale}{silence}, {text.count(member.partitions, 'partition')}"))


def _groups(finding: Finding) -> list[Block]:
    shown = finding.groups[:MAX_GROUPS]
    if not shown:
        return []
    more = max(finding.groups_total, len(finding.groups)) - len(shown)
    return [Bullets(tuple((code(text.name(group)),) for group in shown), more)]


def _next(finding: Finding, runbook: str | None) -> Line:
    line: Line = (bold("Next: "), plain(HEADLINES[finding.kind].next_step))
    if runbook is None:
        return line
    return (*line, plain(" "), link("Runbook", f"{runbook}#{finding.kind.value}"))
