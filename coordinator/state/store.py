"""The groups of one shard: decoded on first touch, so that a batch pays only for the groups it touches.

A frozen group is the earliest clock at which it is due, and its encoded bytes; `thaw` decodes them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, MutableMapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rebalance_monitor.coordinator.state.group_state import GroupState

Frozen = tuple[int, bytes]
"""(next wake in ms, encoded group)."""


class GroupStore(MutableMapping[str, "GroupState"]):
    """Mapping of group name to state. Groups that were touched are in `live`, the others in `frozen`."""

    __slots__ = ("_thaw", "frozen", "live")

    def __init__(
        self, frozen: dict[str, Frozen] | None = None, thaw: Callable[[bytes], GroupState] | None = None
    ) -> None:
        self.live: dict[str, GroupState] = {}
        self.frozen = frozen or {}
        self._thaw = thaw

    def __getitem__(self, group: str) -> GroupState:
        """Return the group's state, decoding it on first touch; KeyError if there is none."""
        state = self.live.get(group)
        if state is None:
            _, body = self.frozen.pop(group)
            state = self.live[group] = self._decode(body)
        return state

    def get(  # type: ignore[override]  # Mapping allows any default; no caller needs another
        self, group: str, default: GroupState | None = None
    ) -> GroupState | None:
        """Return the group's state or `default`; the mixin's own would raise and catch for every unknown."""
        state = self.live.get(group)
        if state is None:
            return self[group] if group in self.frozen else default
        return state

    def __setitem__(self, group: str, state: GroupState) -> None:
        self.frozen.pop(group, None)
        self.live[group] = state

    def __delitem__(self, group: str) -> None:
        if self.frozen.pop(group, None) is None:
            del self.live[group]

    def __contains__(self, group: object) -> bool:
        return group in self.live or group in self.frozen

    def __iter__(self) -> Iterator[str]:
        yield from list(self.live)
        yield from list(self.frozen)

    def __len__(self) -> int:
        return len(self.live) + len(self.frozen)

    def freeze(
        self,
        groups: Iterable[str],
        encode: Callable[[GroupState], bytes],
        thaw: Callable[[bytes], GroupState],
    ) -> None:
        """Keep live groups as bytes until they are touched; `thaw` is the inverse of `encode`."""
        self._thaw = thaw
        for group in groups:
            state = self.live[group]
            self.frozen[group] = state.wake, encode(state)
            del self.live[group]

    def wakes(self) -> Iterator[tuple[str, int]]:
        """Yield each group and the earliest clock (ms) at which it is due."""
        yield from ((group, state.wake) for group, state in self.live.items())
        yield from ((group, wake) for group, (wake, _) in self.frozen.items())

    def wake_of(self, group: str) -> int | None:
        """Return the earliest clock (ms) at which a group is due, None for an unknown group."""
        if (state := self.live.get(group)) is not None:
            return state.wake
        return self.frozen[group][0] if group in self.frozen else None

    def due(self, now: int) -> list[str]:
        """Return the groups that are due at a clock of `now` ms, by name."""
        found = [group for group, state in self.live.items() if state.wake <= now]
        found += [group for group, (wake, _) in self.frozen.items() if wake <= now]
        return sorted(found)

    def _decode(self, body: bytes) -> GroupState:
        if self._thaw is None:
            raise RuntimeError("a store with frozen groups needs the codec that froze them")
        return self._thaw(body)
