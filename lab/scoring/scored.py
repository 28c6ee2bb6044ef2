"""Tallies of one way of running the monitor, as the accuracy page shows them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rebalance_monitor.lab.scoring.score import Band, Tally
    from rebalance_monitor.lab.scoring.silences import Silences

LIVE, REPLAY = "live", "replay"

Tallies = Mapping[tuple[str, str], "Tally"]


@dataclass(frozen=True, slots=True)
class Scored:
    """One way of running the monitor over the suites: its tallies, calibration and noise.

    `asked`: the tallies without groups whose limits are nearer than is asked for; `versions`, `limits`: those
    of each broker version, and of each kind of limits (lab/scenario/limits.py).
    `losses`, `others`: calibration of causes that say how a member was lost, and of others that name one.
    `noise`: findings of warning or worse on groups that nothing was done to, over `quiet_hours`, by family.
    `written_s`: ascending, how long batches of live findings took to be written (s).
    """

    name: str
    tallies: Tallies
    asked: Tallies
    versions: Mapping[str, Tallies] = field(default_factory=dict)
    limits: Mapping[str, Tallies] = field(default_factory=dict)
    losses: Sequence[Band] = ()
    others: Sequence[Band] = ()
    confusion: Mapping[tuple[str, str], int] = field(default_factory=dict)
    silences: Mapping[float, Silences] = field(default_factory=dict)
    noise: int = 0
    quiet_hours: Mapping[str, float] = field(default_factory=dict)
    written_s: Sequence[float] = ()
