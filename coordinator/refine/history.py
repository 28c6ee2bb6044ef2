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

    `sightings`: samples that show it rebalancing. `answered`: samples that cover the group and that its
    coordinator answered; `heard`: those that its coordinator answered, with the group or without. `away`:
    samples that its coordinator, known by then, did not answer. `led`: samples that name coordinators.
    `lists`: samples that list its members; `listed`: member id -> the last of them; `forgotten`: the last one
    with a member that is not remembered. `formed`, `failed`: as of `Watched`. `end` returns when the sample
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
    formed: Sequence[int] = ()
    failed: Sequence[int] = ()
    end: Callable[[int], int] = int


def look_back(
    group: Watched | None, samples: Sequence[int], unanswered: Unanswered, leader: int | None, *, lists: bool
) -> LookBack:
    """Return the samples of a group that `leader` coordinates, None where no sample covers it.

    `lists`: whether the brokers list it to us; of a group that they hide, not seeing it says nothing.
    """
    times = around(group, samples)
    heard = unanswered.by(leader, times)
    return LookBack(
        sightings=group.sightings if group else (),
        answered=heard if lists or group else (),
        led=unanswered.led(samples),
        lists=group.lists if group else (),
        listed=group.listed if group else {},
        forgotten=group.forgotten if group else -1,
        heard=heard,
        away=unanswered.away(leader, times),
        formed=group.formed if group else (),
        failed=group.failed if group else (),
        end=unanswered.end,
    )
