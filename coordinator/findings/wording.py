"""What causes say of a member: sentences with the numbers that an SRE would check."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.finding import CauseEntry

if TYPE_CHECKING:
    from rebalance_monitor.coordinator.findings.finding import MemberEntry
    from rebalance_monitor.coordinator.state.group_state import Member


_MINUTE, _HOUR, _DAY = 60_000, 3_600_000, 86_400_000


def seconds(ms: int) -> str:
    """Return a duration for a sentence: in seconds below ten minutes, above in its two largest units."""
    if ms < 10 * _MINUTE:
        return f"{ms / 1000:.1f} s"
    if ms < _HOUR:
        return _units(ms, _MINUTE, "min", 1_000, "s")
    return _units(ms, _HOUR, "h", _MINUTE, "min") if ms < 2 * _DAY else _units(ms, _DAY, "d", _HOUR, "h")


def _units(ms: int, large: int, name: str, small: int, small_name: str) -> str:
    rest = ms % large // small
    return f"{ms // large} {name}" + (f" {rest} {small_name}" if rest else "")


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, which takes an s but for one."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def likely(cause: str, confidence: float) -> str:
    """Return a cause with how sure it is; how sure it is that none is known is no confidence in a cause."""
    return cause if cause == Cause.UNKNOWN else f"{cause} {confidence:.0%}"


def names_of(member: Member | MemberEntry) -> tuple[str, str, str, str | None]:
    """Return member id, client id, host and instance id, as a cause names them."""
    return member.member_id, member.client_id, member.host, member.instance_id


def entry(member: Member | MemberEntry, cause: Cause, confidence: float, why: str) -> CauseEntry:
    """Make the cause entry that names `member`."""
    return CauseEntry(cause, confidence, why, *names_of(member))


def maybe_removed(member: Member | MemberEntry, silence: int) -> CauseEntry:
    """Make the cause entry of a member that left and was back at once; `silence` in ms."""
    why = f"no commit for {seconds(silence)} before the join phase ended; it rejoined within the same phase, "
    why += "as after a removal by an administrator"
    return CauseEntry(Cause.MEMBER_REMOVED_BY_ADMIN, 0.2, why, *names_of(member))


def joined(member: Member, sizes: tuple[int, int], *, alone: bool) -> CauseEntry:
    """Make the cause entry of a member that joined; `alone`: no member departed in the same join phase.

    `sizes`: of the group before, negative where nobody knows, and now.
    """
    confidence, (before, now) = 0.95 if alone else 0.92, sizes
    why = f"a new member: {f'{before} before, ' if before >= 0 else ''}{now} now"
    return entry(member, Cause.MEMBER_JOINED, confidence, why)


def replaced(before: Member, now: Member) -> CauseEntry:
    """Make the cause entry of a static member that took the place of a process before it."""
    seen, did = max((before.joined_at, "came"), (before.last_commit, "last committed"))
    why = "its instance came back under another member id "
    why += f"{seconds(max(0, now.joined_at - seen))} after the process before it {did}"
    return entry(now, Cause.STATIC_MEMBER_REPLACED, 0.9, why)
