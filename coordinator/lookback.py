"""What looks of the probe say of one group, by its coordinator's clock: of what has been, for `refine`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rebalance_monitor.coordinator.watched import around

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rebalance_monitor.coordinator.looks import Unanswered
    from rebalance_monitor.coordinator.watched import Watched


@dataclass(frozen=True, slots=True)
class LookBack:
    """Looks at one group; times in ms, ascending.

    `sightings` saw it rebalance, `answered` are those that its coordinator answered, `led` those that saw who
    coordinates. `lists` listed its members, `listed`: member id -> the last that listed it, `forgotten`: the
    last that listed one who is not remembered. `end` gives when the look that began then had its last answer.
    """

    sightings: Sequence[int]
    answered: Sequence[int]
    led: Sequence[int] = ()
    lists: Sequence[int] = ()
    listed: Mapping[str, int] = field(default_factory=dict)
    forgotten: int = -1
    end: Callable[[int], int] = int

    def by_clock(self, behind: int) -> LookBack:
        """Return them by a clock that the one of these times is `behind` (ms)."""
        if not behind:
            return self
        return LookBack(
            sightings=[at + behind for at in self.sightings],
            answered=[at + behind for at in self.answered],
            led=[at + behind for at in self.led],
            lists=[at + behind for at in self.lists],
            listed={name: at + behind for name, at in self.listed.items()},
            forgotten=self.forgotten + behind if self.forgotten >= 0 else self.forgotten,
            end=lambda at: self.end(at - behind) + behind,
        )


def looked_back(
    group: Watched | None, looks: Sequence[int], unanswered: Unanswered, leader: int | None
) -> LookBack:
    """Return what `looks` say of a group that `leader` coordinates, None for one that no look saw."""
    return LookBack(
        sightings=group.sightings if group else (),
        answered=unanswered.by(leader, around(group, looks)),
        led=unanswered.led(looks),
        lists=group.lists if group else (),
        listed=group.listed if group else {},
        forgotten=group.forgotten if group else -1,
        end=unanswered.end,
    )
