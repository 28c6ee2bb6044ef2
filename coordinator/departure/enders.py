"""Which of those that went ended the barrier, where it stayed shut long after the others had rejoined.

A barrier ends as soon as all its members have rejoined. Where those that stayed had done so long before its
end it waited for one of those that went, until that one expired, or said goodbye: a member that had left
before, at its beginning perhaps, is not waited for. So one at least of those that went did so at the end;
which one is told by how well the silence of each fits that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rebalance_monitor.coordinator.departure.attribution import scored
from rebalance_monitor.coordinator.departure.windows import heartbeat
from rebalance_monitor.decoders.twins import replace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rebalance_monitor.coordinator.departure.measured import Silence

_LATE_MS = 1_000
# It may have waited for one that no record has, or a last commit was not that before a member rejoined.
_SURE = 0.95


def told(seen: Sequence[Silence], shut: int) -> list[Silence]:
    """Return each of those that went with the likelihood that it ended the barrier.

    `shut`: for how long (ms) it waited for none of those that stayed.
    """
    if shut <= max((heartbeat(one) for one in seen), default=0) + _LATE_MS:
        return list(seen)
    fits = [_fit(one) for one in seen]
    return [replace(one, ended=_SURE / (1 + sum(fits) - fit)) for one, fit in zip(seen, fits, strict=True)]


def _fit(seen: Silence) -> float:
    """How much likelier its silence is if it ended the barrier than if it did not."""
    return _evidence(replace(seen, ended=1.0)) / _evidence(seen)


def _evidence(seen: Silence) -> float:
    return sum(scored(seen).values())
