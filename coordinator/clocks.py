"""By how much the monitor's clock is behind a coordinator's, as looks of the probe prove.

Records bear the time of their coordinator, looks that of the monitor. A look that sees a group in a barrier
came before the record of the generation that ends it, the next one, that sees it there no more, had its
answer after it. So each barrier that a look saw bounds the difference: where both bounds say that looks came
later than they say, the monitor's clock is behind. A clock that is ahead takes nothing from the evidence.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

from rebalance_monitor.coordinator.kinds import Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rebalance_monitor.coordinator.findings import Finding
    from rebalance_monitor.coordinator.lookback import LookBack
    from rebalance_monitor.coordinator.moves import Moves

_KEPT = 16
# One alone may be told of another barrier than the one that was seen.
_AGREED_MS = 1_200
_MOST_AGAINST = 1 / 3
# What clocks that NTP sets differ by, and looks take; judgements allow for as much.
_LEAST_MS = 300
_APART_MS = 3_000
# So soon after the generation before a clock that is ahead may still see the barrier of that one.
_SOON_MS = 2_000


class Clocks:
    """What barriers told of each coordinator's clock; `state` is what `snapshot` returned."""

    def __init__(self, state: Mapping[str, Any] | None = None) -> None:
        # Broker -> by how much (ms) at least and at most the monitor's clock is behind, by its last barriers.
        self._told: dict[str, list[list[int]]] = {
            broker: [list(one) for one in told] for broker, told in (state or {}).items()
        }

        self._then: dict[str, int] = {}

    def snapshot(self) -> dict[str, Any]:
        """JSON-able memory for the ledger."""
        return self._told

    def learn(self, findings: Sequence[Finding], moves: Moves, looked: Callable[[Finding], LookBack]) -> None:
        """Take what looks tell of the barriers of these findings: in their order, however they are cut.

        `looked` gives what looks say of a finding's group.
        """
        self._then = {}
        for one in findings:
            if one.kind is Kind.REBALANCE and one.group_type == "classic" and one.started_at_min is not None:
                broker = str(moves.leader(one.shard))
                # A barrier that was seen before a move has ended with it, unwritten.
                since = max(one.started_at_min, moves.at(one.shard)) + _SOON_MS
                self._take(one.at, since, broker, looked(one))
                self._then[one.id] = self._proven(broker)

    def behind(self, finding: Finding) -> int:
        """Return by how much (ms) the monitor's clock was behind that of a rebalance that was learned from.

        0 where barriers up to it prove nothing.
        """
        return self._then.get(finding.id, 0)

    def _take(self, ended: int, since: int, broker: str, looks: LookBack) -> None:
        last = max((at for at in looks.sightings if since < at <= ended), default=None)
        if last is None:
            return
        after = next((at for at in looks.answered if at > last), None)
        if after is None or after - last > _APART_MS:
            return
        told = self._told.setdefault(broker, [])
        told.append([ended - looks.end(after), ended - last])
        del told[:-_KEPT]

    def _proven(self, broker: str) -> int:
        told = self._told.get(broker, [])
        proofs = sorted((least for least, _ in told if least >= _LEAST_MS), reverse=True)
        # What proves the same differs by no more than the time between two looks.
        agreed = (less for more, less in pairwise(proofs) if more - less <= _AGREED_MS)
        proven = next(agreed, 0)
        if not proven:
            return 0
        most = [most for _, most in told if most >= proven]
        # A clock that was set since, or another barrier than the one that was seen.
        if len(told) - len(most) > _MOST_AGAINST * len(told):
            return 0
        return (proven + min(most)) // 2
