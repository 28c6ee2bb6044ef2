"""Whether departed members had anything to commit, by the ends of their topics.

The operator sends some partitions of each departed member with the offsets that it committed last
(`Departed.places`). The ends say when the record after them came. Until then the member had nothing to
commit, so its silence says nothing; from then on it should have committed. Where no record came, none of the
silence says anything. Ends are sampled every few seconds: the time after the newest sample is not known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from rebalance_monitor.coordinator.departure.evidence import HAD_WORK, MAYBE_WORK, NO_WORK
from rebalance_monitor.coordinator.findings.wording import seconds

if TYPE_CHECKING:
    from collections.abc import Callable

    from rebalance_monitor.coordinator.departure.evidence import Departed

    Came = Callable[[str, int, int], int | None]
    """(topic, partition, offset) -> when (ms) the record there was written, None not known.

    Negative where it had not come then.
    """

# A transaction's marker takes an offset that no consumer reads, perhaps after the last record's commit.
_MARKER = 1


def with_work(one: Departed, ended: int, owned: int, came: Came) -> Departed:
    """Return the member with what the ends say of its work before `ended` (ms).

    `owned`: how many partitions it had.
    """
    if one.work != MAYBE_WORK or not one.places:
        return one
    times = [came(topic, number, offset + _MARKER) for topic, number, offset in one.places]
    known = [at for at in times if at is not None]
    waited = [at for at in known if 0 <= at <= ended]
    since = ended - one.last_active
    if waited:
        return replace(one, work=HAD_WORK, lull=max(0, min(waited) - since))
    if len(known) != owned:
        return one
    until = min(map(abs, known))
    return replace(one, work=NO_WORK) if until >= ended else replace(one, lull=max(one.lull, until - since))


def describe(one: Departed) -> str:
    """Say what the ends have shown, "" where nothing."""
    if not one.places:
        return ""
    if one.work == HAD_WORK:
        return f"; records waited for it from {seconds(one.lull)} after that on"
    return "; no record waited for it" if one.work == NO_WORK else ""
