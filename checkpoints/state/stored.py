"""The state of one coordinator as it is kept, read back for `checkpoint groups` and `verify`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rebalance_monitor.checkpoints.state.changelog import newest_file
from rebalance_monitor.checkpoints.state.codec import StateCorruptError, StateVersionError, decode_state

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rebalance_monitor.checkpoints.storage.places import Place
    from rebalance_monitor.coordinator.state.group_state import GroupState
    from rebalance_monitor.coordinator.state.shard_state import ShardState


@dataclass(frozen=True, slots=True)
class StoredShard:
    """The state of one coordinator: its blob and when it was written (ms).

    damage: why the lane it should be in cannot be read, "" where it can; shard and bucket are -1 then.
    """

    shard: int
    bucket: int
    at: int
    blob: bytes
    damage: str = ""

    def state(self) -> ShardState:
        """Decode the blob. Raises StateVersionError, StateCorruptError."""
        if self.damage:
            raise StateCorruptError(self.damage)
        return decode_state(self.blob)

    def groups(self) -> Iterator[tuple[str, GroupState]]:
        """Decode every group of it. Raises as `state` does."""
        state = self.state()
        for name in sorted(state.groups):
            try:
                yield name, state.groups[name]
            except (ValueError, TypeError, IndexError) as error:
                raise StateCorruptError(f"the group {name!r} cannot be read: {error}") from error

    def problem(self) -> str:
        """Say what is wrong with it, "" where every group can be read."""
        try:
            for _ in self.groups():
                pass
        except (StateVersionError, StateCorruptError) as error:
            return str(error)
        return ""


def kept_shards(folder: Place) -> Iterator[StoredShard]:
    """Yield every coordinator of the last state in a changelog, by shard. Raises ChangelogError, OSError."""
    found = newest_file(folder)
    for shard, stored in sorted(found[1].stored.items()) if found else ():
        yield StoredShard(shard, 0, stored.now, stored.blob)
