"""What the causes of a departure say: sentences with the numbers that an SRE would check."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rebalance_monitor.coordinator.departure.measured import Silence, Stall, poll_limit
from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.finding import CauseEntry
from rebalance_monitor.coordinator.findings.wording import seconds, who

if TYPE_CHECKING:
    from rebalance_monitor.coordinator.findings.finding import MemberEntry
    from rebalance_monitor.coordinator.state.group_state import Member


def why_of(cause: Cause, seen: Silence) -> str:
    """Say what was measured in one sentence, with the numbers that speak for this cause."""
    if not seen.committed and not seen.means:
        return f"it never committed in its {seconds(seen.elapsed)} of the generation"
    text = _silent(seen)
    if cause is Cause.POLL_INTERVAL_EXCEEDED:
        name = "max.poll.interval, as configured," if seen.interval else "rebalance timeout"
        text += f"; {name} {seconds(poll_limit(seen))}"
    if cause is not Cause.POLL_INTERVAL_EXCEEDED or seen.static:
        text += f"; session timeout {seconds(seen.session)}"
    if seen.heard >= 0 and cause is Cause.SESSION_TIMEOUT:
        text += f"; it acknowledged an epoch {seconds(seen.heard)} before"
    if seen.committed:
        text += f"; commits every {seconds(seen.cadence)} until then"
    if seen.busy is not None:
        text += f"; those that stayed may have been busy for {seconds(seen.busy.most)} before they rejoined"
    if seen.waited:
        text += "; others stopped with it while one that went, too, went on: it may have waited in a barrier"
    if seen.stall is not Stall.NO and not seen.static:
        rest = "its siblings' moved" if seen.stall is Stall.LIKELY else "a stall or no traffic"
        text += f"; {seen.idle + 1} commits without progress, the last one as well: {rest}"
    if not seen.goodbye and cause is Cause.SESSION_TIMEOUT:
        text += "; its client never says goodbye, so a planned stop looks the same"
    return text


def _silent(seen: Silence) -> str:
    until = "it was removed" if seen.wait >= 0 else "the barrier closed"
    return f"silent {seconds(seen.silence)} before {until}"


def maybe_removed(member: Member | MemberEntry, seen: Silence) -> CauseEntry:
    """Make the cause entry of one that left and was back at once."""
    why = f"{_silent(seen)}, and back as a new member within the same barrier, as one that an "
    return CauseEntry(Cause.MEMBER_REMOVED_BY_ADMIN, 0.2, why + "administrator removed", *who(member))
