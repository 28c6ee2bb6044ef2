"""Scores of explanations as confidences, and what is taken from some of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rebalance_monitor.coordinator.findings.causes import Cause

if TYPE_CHECKING:
    from collections.abc import Mapping
    from collections.abc import Set as AbstractSet

# Windows are wider than what clients do: what they favour was true more often than their shares say, and
# where they favour one clearly it nearly always was.
_SHARPER = 1.3
_CLEAR, _CLEARER = 0.68, 2.0


def shared(scores: Mapping[Cause, float], *, is_measured: bool, is_told: bool) -> dict[Cause, float]:
    """Return confidences that sum up to 1; `is_measured`: a silence that means something is behind them.

    `is_told`: what ended the barrier is known.
    """
    if not is_measured:
        return _raised(scores, 1.0)
    shares = _raised(scores, _SHARPER)
    return _raised(shares, _CLEARER) if is_told and max(shares.values()) >= _CLEAR else shares


def _raised(scores: Mapping[Cause, float], power: float) -> dict[Cause, float]:
    most = max(scores.values())
    raised = {cause: (score / most) ** power for cause, score in scores.items()}
    total = sum(raised.values())
    return {cause: score / total for cause, score in raised.items()}


def capped(shares: dict[Cause, float], cap: float, timeouts: AbstractSet[Cause]) -> dict[Cause, float]:
    """Move what timeouts may not claim to `unknown`."""
    over = max((share for cause, share in shares.items() if cause in timeouts), default=0.0)
    if over <= cap:
        return shares
    scale = cap / over
    out = {cause: share * scale if cause in timeouts else share for cause, share in shares.items()}
    out[Cause.UNKNOWN] = out.get(Cause.UNKNOWN, 0.0) + 1 - sum(out.values())
    return out
