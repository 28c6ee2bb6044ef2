"""The second line of a message: whose fault, since when, how bad; of a resolved incident, how it ended.

Pure. Title and lead answer the first questions of the person on call; every medium shows them first.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from rebalance_monitor.alerts.incidents.tally import Tally
from rebalance_monitor.alerts.messages import text
from rebalance_monitor.alerts.messages.blocks import Line, bold, code, plain
from rebalance_monitor.alerts.messages.endings import ending_of
from rebalance_monitor.coordinator.findings.causes import OF_MONITOR, Cause
from rebalance_monitor.coordinator.findings.kinds import Kind
from rebalance_monitor.coordinator.storms.offenders import NO_OFFENDER, main_offender

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rebalance_monitor.coordinator.findings.finding import CauseEntry, Finding


@dataclass(frozen=True, slots=True)
class Ended:
    """How an incident ended: when (ms), and what was counted while its thread was open."""

    at: int
    tally: Tally = field(default_factory=Tally)


def lead(finding: Finding, ended: Ended | None = None) -> Line:
    """Return the line that follows the title."""
    if ended is not None:
        return joined([_end(finding, ended), _now(finding, ended.tally)])
    return joined([_fault(finding), _since(finding), *_damage(finding)])


def first_cause(finding: Finding) -> CauseEntry | None:
    """Return the likeliest cause that is known; of a storm, that of its main offender where it has one.

    The newest rebalance of a storm may be one in which a member came back: that causes no storm.
    """
    hidden = {Cause.UNKNOWN} | ({Cause.MEMBER_JOINED} if finding.kind is Kind.STORM else set())
    known = [entry for entry in finding.causes if entry.cause not in hidden]
    worst = main_offender(finding.details)
    named = (entry for entry in known if worst is not None and entry.client_id == worst.client_id)
    return next(named, known[0] if known else None)


def shown_cause(finding: Finding) -> CauseEntry | None:
    """Return the first known cause, or that which says why none is known."""
    unknown = (entry for entry in finding.causes if entry.cause is Cause.UNKNOWN)
    return first_cause(finding) or next(unknown, None)


def identity(client_id: str | None, host: str | None, instance_id: str | None = None) -> Line:
    """Return how a member is named: client id, instance id and host, as far as they are known."""
    static = instance_id if instance_id != client_id else None
    named = ((" ", client_id), (" as ", static), (" on ", host.lstrip("/") if host else None))
    line = [span for word, name in named if name for span in (plain(word), code(text.name(name)))]
    return (plain(line[0].text.lstrip()), *line[1:]) if line else ()


def cause_words(entry: CauseEntry) -> Line:
    """Return a cause with its confidence and the member that it names."""
    if entry.cause is Cause.UNKNOWN:
        return (bold("cause unknown"),)
    sure = "" if entry.cause in OF_MONITOR else f" {entry.confidence:.0%}"
    line: Line = (bold(entry.cause.value.replace("_", " ")), plain(sure))
    who = identity(entry.client_id, entry.host, entry.instance_id)
    if not who:
        return line
    of = "" if who[0].text.startswith("on") else " of "
    return (*line, plain(of or " "), *who)


def _fault(finding: Finding) -> Line:
    entry = first_cause(finding)
    if finding.kind is Kind.STORM and finding.details.get("worst_client"):
        return _offender(finding, entry)
    if entry is not None:
        return cause_words(entry)
    return (bold("cause unknown"),) if finding.causes else ()


def _offender(finding: Finding, entry: CauseEntry | None) -> Line:
    worst = main_offender(finding.details)
    if worst is None:
        return (bold(NO_OFFENDER),)
    line: Line = (
        bold("worst offender "),
        *identity(worst.client_id, worst.host),
        plain(f", in {worst.share:.0%} of the rebalances"),
    )
    if entry is None or entry.client_id != worst.client_id:
        return line
    return (*line, plain(f" ({entry.cause.value.replace('_', ' ')} {entry.confidence:.0%})"))


def _since(finding: Finding) -> Line:
    since = finding.opened_at
    if since is None:
        return (plain(f"at {text.moment(finding.at)}"),)
    so_long = f" (for {text.duration(finding.at - since)})" if since < finding.at else ""
    # Its incident goes on under the name of another kind.
    how = f": {ending_of(finding).how}" if finding.phase == "updated" and finding.resolution else ""
    return (plain(f"since {text.moment(since)}{so_long}{how}"),)


def _damage(finding: Finding) -> Iterable[Line]:
    stopped = text.bounds(finding.stopped_ms_min, finding.stopped_ms_max)
    if stopped and not _begins(finding):
        yield (plain(f"consumption stopped {stopped}"),)
    if waited := waited_of(finding):
        yield (plain(waited),)
    hit = [
        text.count(number, noun)
        for number, noun in (
            (finding.members_affected, "member"),
            (finding.partitions_affected, "partition"),
        )
        if number
    ]
    there = [] if finding.members_total is None else [_members(finding.members_total)]
    affected = [f"{' and '.join(hit)} affected"] if hit else []
    if affected or there:
        yield (plain(", ".join([*affected, *there])),)


def waited_of(finding: Finding) -> str:
    """Return how many records waited because of a finding, "" if unknown or if none did."""
    details = finding.details
    peak, before, took = (details.get(name) for name in ("waiting_peak", "waiting_at_stop", "caught_up_ms"))
    if not isinstance(peak, int) or not isinstance(before, int) or peak <= before:
        return ""
    back = f", caught up in {text.duration(took)}" if isinstance(took, int) else ""
    return f"{text.count(peak, 'record')} waited{back}"


def _begins(finding: Finding) -> bool:
    """Whether the group had nothing that could stop: its first generation."""
    return bool(finding.causes) and finding.causes[0].cause is Cause.FIRST_START


def _members(number: int) -> str:
    return f"{text.count(number, 'member') if number else 'no members'} in the group"


def _end(finding: Finding, ended: Ended) -> Line:
    began = finding.at if finding.opened_at is None else finding.opened_at
    until = text.moment(ended.at)
    if finding.opened_at is None:
        return (plain(f"last at {text.moment(began)}, none since"),)
    how = ending_of(finding).how + _waited_for(finding)
    lasted = text.duration(max(0, ended.at - began))
    return (plain(f"lasted {lasted}, until {until}{': ' if how else ''}{how}"),)


def _waited_for(finding: Finding) -> str:
    """Return the members that a rebalance which was stuck had waited for, "" where they are not known."""
    names = finding.details.get("waits_for") if finding.kind is Kind.REBALANCE_STUCK else None
    return f", after waiting for {text.name(str(names))}" if names else ""


def _now(finding: Finding, tally: Tally) -> Line:
    """Return how the group stands now, beside how it stood before."""
    counted = tally if tally.group and tally.group == finding.group else Tally()
    now = counted.members if counted.members is not None else finding.members_total
    if now is None or (finding.phase != "resolved" and counted.members is None):
        return ()
    before = counted.members_before if finding.kind is not Kind.GROUP_EMPTY else 0
    was = "" if before is None or before == now else f", {before:,} before" if before else ", none before"
    return (plain(f"now {text.count(now, 'member') if now else 'no members'}{was}"),)


def joined(parts: Iterable[Line]) -> Line:
    """Return the parts that say something as one sentence, with semicolons between them."""
    line: Line = ()
    for part in parts:
        if part:
            line = (*line, *((plain("; "),) if line else ()), *part)
    first, *rest = line or (plain(""),)
    return (replace(first, text=first.text[:1].upper() + first.text[1:]), *rest)
