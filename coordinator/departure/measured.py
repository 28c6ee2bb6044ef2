"""What was measured about a member that went: the evidence that `attribution.py` turns into causes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

import msgspec

from rebalance_monitor.decoders.twins import quickly_made, replace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rebalance_monitor.coordinator.findings.finding import Details

MEASURED = "measured"
"""The detail of a rebalance in which the operator sends silences to the driver; nobody else sees it."""

_MOST = 20
# Who is silent for less than this beyond its cadence has left, whenever the barrier began.
_SOON_MS = 1_000


class Stall(Enum):
    """Whether a member that commits while its application is stalled may have been so when it went."""

    NO = "its last commit moved, or too few did not"
    MAYBE = "unmoved for long enough, but its siblings tell nothing else, or there are none"
    LIKELY = "unmoved for long enough while its siblings moved"


@dataclass(frozen=True, slots=True)
class Rejoined:
    """When those that stayed rejoined, as their last commits tell; all in ms.

    The first did so at least `least` before the end of the barrier, and `apart` before the last; `among` so
    many of them tell it. `sure`: how likely it is that these commits do.
    """

    least: int = 0
    apart: int = 0
    among: int = 1
    sure: float = 1.0


@dataclass(frozen=True, slots=True)
class Busy:
    """For how long (ms) at `most` those that stayed may have known of the barrier before the first rejoined.

    All of them were busy then. `sure`: how likely that is.
    """

    most: int
    sure: float = 1.0


@quickly_made
@dataclass(frozen=True, slots=True)
class Silence:
    """What was measured about one member that went; all durations in ms.

    `silence` runs from the last sign of life to the end of the barrier, `elapsed` from the generation before.
    `held` is the least time the barrier was held, `halted` for how long those with traffic had stopped, which
    a barrier may explain or a pause of the traffic; `wait` the most it can have taken where that is known,
    else -1. `means`: whether silence of this member says anything; `committed`: whether it did in the
    generation; `quiet`: how likely it is that it had nothing to commit; `closes`: its client commits on close
    even so; `poll`: whether its client enforces max.poll.interval (None: not known), `goodbye`: sends
    LeaveGroup; `aborted`: generations that failed on the way; `session_early`: heartbeats, not commits, keep
    the session, so it may end this much earlier after the last commit. `stalled`: just before its last commit
    it had been silent for its rebalance timeout. `stall` and `idle`, how many of its commits moved nothing:
    see `Stall`. `waited`: it may have been silent because it waited in the barrier that another member held.
    `hidden`: its client enforces a poll interval that no record holds, `interval`: which is configured (0: it
    is not, or stands in the record as `rebalance`). `heard`: how long ago a record told of
    its newest heartbeat, which its client sends though the application is stalled; -1 for none after its last
    commit. `rejoined`: what the survivors' commits tell; `crowded`: others came or went in the same barrier;
    `by_hand`: how likely it is that it commits after processing, so that its last poll came before its last
    commit; `repeated`: its last commit moved nothing, though its client commits only what is new; `returned`:
    its client and host were back in the same barrier; `worked`: it committed in generations before; `ended`:
    how likely it is, by what else is known, that the barrier waited for nobody but this member, and ended as
    it went. `busy`: see `Busy`; None where one of those that stayed was not.
    """

    session: int
    rebalance: int
    silence: int
    elapsed: int
    cadence: int
    held: int
    wait: int
    static: bool
    means: bool
    committed: bool
    poll: bool | None
    goodbye: bool
    poll_early: float = 0.0
    poll_late: int = 0
    poll_held: bool = False
    aborted: int = 0
    session_early: int = 0
    quiet: float = 0.0
    closes: bool = False
    stalled: bool = False
    stall: Stall = Stall.NO
    idle: int = 0
    waited: bool = False
    hidden: bool = False
    interval: int = 0
    rejoined: Rejoined | None = None
    crowded: bool = True
    by_hand: float = 0.0
    repeated: bool = False
    returned: bool = False
    worked: bool = False
    halted: int = 0
    heard: int = -1
    ended: float = 0.0
    busy: Busy | None = None


def first_end(seen: Silence) -> int:
    """Return the least silence (ms) that one of its limits ends."""
    early = int(seen.poll_early * seen.cadence)
    ends = [seen.session - seen.session_early]
    return min([*ends, poll_limit(seen) - early] if seen.poll is not False else ends)


def poll_limit(seen: Silence) -> int:
    """Return the max.poll.interval (ms) of the member, as far as it is known."""
    return seen.interval or seen.rebalance


def told_interval(seen: Silence, interval: int | None) -> Silence:
    """Judge by an `interval` (ms) that is configured where no record holds it; None where none is."""
    if not interval or not seen.hidden or seen.stall is not Stall.NO:
        return seen
    return replace(seen, hidden=False, interval=interval, poll=True)


def sent_along(seen: Sequence[Silence], *, history: bool) -> Details:
    """Give the detail that the driver needs to judge again those that went, in their order.

    None where looks could change nothing, and in place of each of which they could not.
    """
    sent = [one if _could_change(one) else None for one in seen[:_MOST]]
    return {MEASURED: _encode(sent).decode()} if any(sent) and not history else {}


def _could_change(seen: Silence) -> bool:
    told = seen.means and seen.committed and seen.wait < 0 and not seen.static
    return told and seen.silence > min(max(seen.cadence, 0) + _SOON_MS, first_end(seen) // 2)


def from_text(text: str) -> list[Silence | None]:
    """Read what `sent_along` wrote."""
    return _decode(text)


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(list[Silence | None]).decode
