"""The past probe samples of one group, for `refine`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rebalance_monitor.coordinator.probe.observed_group import around

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rebalance_monitor.coordinator.probe.answers import Unanswered
    from rebalance_monitor.coordinator.probe.observed_group import Watched


@dataclass(frozen=True, slots=True)
class LookBack:
    """Probe samples of one group; times in ms, ascending.

    `sightings` saw it rebalance, `answered` are those that its coordinator answered, `led` those that saw who
    coordinates. `lists` listed its members, `listed`: member id -> the last that listed it, `forgotten`: the
    last that listed one who is not remembered. `heard` are those that its coordinator answered, though they
    may not list the group, `away` those that it, known by then, left unanswered. `end` gives when the look
    that began then had its last answer.
    """

    sightings: Sequence[int] = ()
    answered: Sequence[int] = ()
    led: Sequence[int] = ()
    lists: Sequence[int] = ()
    listed: Mapping[str, int] = field(default_factory=dict)
    forgotten: int = -1
    heard: Sequence[int] = ()
    away: Sequence[int] = ()
    end: Callable[[int], int] = int


def look_back(
    group: Watched | None, looks: Sequence[int], unanswered: Unanswered, leader: int | None, *, lists: bool
) -> LookBack:
    """Return the samples of a group that `leader` coordinates, None where no sample covers it.

    `lists`: whether the brokers list it to us; of a group that they hide, not seeing it says nothing.
    """
    times = around(group, looks)
    heard = unanswered.by(leader, times)
    return LookBack(
        sightings=group.sightings if group else (),
        answered=heard if lists or group else (),
        led=unanswered.led(looks),
        lists=group.lists if group else (),
        listed=group.listed if group else {},
        forgotten=group.forgotten if group else -1,
        heard=heard,
        away=unanswered.away(leader, times),
        end=unanswered.end,
    )
