"""Groups that commit by transactions are recognised by the brokers' answers, and measured by these alone."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalance_monitor.coordinator.commits import positions
from rebalance_monitor.coordinator.lag import asking
from rebalance_monitor.coordinator.lag.board import Board
from rebalance_monitor.coordinator.lag.ends import A_SECOND, AGAIN_MS, EndsSample
from rebalance_monitor.coordinator.lag.measured import EndsSource, Source
from rebalance_monitor.coordinator.state.positions import Positions
from rebalance_monitor.decoders.rows import partition_entry

T0, STEP = 1_795_000_000_000, 5_000


@dataclass
class World:
    """Groups on one topic of two partitions, sampled every 5 s; the brokers answer what they were asked."""

    board: Board = field(default_factory=Board)
    at: int = T0
    end: int = 200
    held: dict[str, Positions] = field(default_factory=dict)
    stable: dict[str, dict[int, int]] = field(default_factory=dict)
    asked: list[tuple[int, tuple[str, ...]]] = field(default_factory=list)

    def write(self, group: str, offset: int, *, ends: bool, partition: int = 0) -> None:
        """Commit an offset: at once, or in a transaction that has not ended."""
        held = self.held.setdefault(group, Positions())
        positions.keep(held, self.at, partition_entry(b"orders", partition), offset.to_bytes(8, "big"))
        if ends:
            self.stable.setdefault(group, {})[partition] = offset

    def pass_by(self, steps: int = 1) -> None:
        for _ in range(steps):
            self.at += STEP
            for group, held in self.held.items():
                self.board.publish(group, positions.copied(held), self.at - 1_000)
            asks = self.board.asks
            self.asked.append((self.at, asks))
            fetched = {group: {"orders": dict(self.stable.get(group, {}))} for group in asks}
            self.board.take(
                EndsSample(
                    self.at, self.at, {"orders": (self.end,) * 2}, fetched=fetched, fetched_at=self.at
                ),
                (),
            )

    def shown(self, group: str) -> tuple[int, int | None, Source]:
        lag = self.board.groups[group].lag
        assert lag is not None
        return lag.topics["orders"].partitions[0].offset, lag.records, lag.source


def test_a_commit_of_an_open_transaction_is_no_position_once_the_brokers_were_asked() -> None:
    world = World()
    world.write("g", 100, ends=True)
    world.pass_by()
    world.write("g", 150, ends=False)
    world.pass_by()
    assert world.shown("g") == (150, 50, Source.TOPIC)
    world.pass_by(4)
    assert world.shown("g") == (100, 100, Source.BROKERS)
    # It ends: the next answer has the offset, and the commit's own time.
    world.stable["g"][0] = 150
    world.pass_by(AGAIN_MS // STEP)
    assert world.shown("g") == (150, 50, Source.BROKERS)
    group = world.board.groups["g"]
    assert group.places.get("orders", 0) == group.written.get("orders", 0) is not None


def test_an_offset_that_no_transaction_has_committed_yet_is_unknown_lag() -> None:
    world = World()
    world.write("g", 100, ends=True, partition=1)
    world.write("g", 150, ends=False)
    world.pass_by(5)
    found = world.board.groups["g"].lag
    assert found is not None
    assert [one.partition for one in found.topics["orders"].partitions] == [1]


def test_changing_the_source_is_no_rewind() -> None:
    world = World()
    world.write("g", 100, ends=True)
    world.pass_by()
    world.write("g", 150, ends=False)
    world.pass_by(6)
    assert world.shown("g")[2] is Source.BROKERS
    assert not world.board.groups["g"].went_back


@given(st.lists(st.tuples(st.integers(0, 200), st.integers(0, 3)), max_size=20))
def test_a_group_without_transactions_is_never_taken_for_one(commits: list[tuple[int, int]]) -> None:
    world = World()
    for offset, steps in commits:
        world.write("g", offset, ends=True)
        world.pass_by(steps)
    world.pass_by(4)
    if "g" in world.held:
        assert world.shown("g")[2] is Source.TOPIC


def test_a_transactional_group_is_asked_every_half_minute_and_another_once_in_a_long_while() -> None:
    world = World()
    world.write("tx", 100, ends=True)
    world.write("plain", 100, ends=True)
    world.pass_by()
    world.write("tx", 150, ends=False)
    world.pass_by(60)
    times = {name: [at for at, groups in world.asked if name in groups] for name in ("tx", "plain")}
    gaps = {after - before for before, after in zip(times["tx"][1:], times["tx"][2:], strict=False)}
    assert gaps == {AGAIN_MS + STEP}
    assert len(times["plain"]) == 1


def test_groups_with_a_hole_behind_a_commit_are_asked_first_and_so_many_a_second_at_most() -> None:
    world = World()
    for number in range(900):
        world.write(f"g{number:03}", 100, ends=True)
        world.held[f"g{number:03}"].marked = number >= 500
    world.pass_by(6)
    asked = [groups for _, groups in world.asked if groups]
    most, in_turn = A_SECOND * STEP // 1000, asking.IN_TURN_A_SECOND * STEP // 1000
    assert all(int(name[1:]) >= 500 for name in (*asked[0], *asked[1]))
    assert max(map(len, asked)) == len(asked[1]) == most
    assert max(sum(int(name[1:]) < 500 for name in groups) for groups in asked) == in_turn


@pytest.mark.parametrize("answers", [True, False])
def test_without_answers_the_topic_s_positions_come_back(answers: bool) -> None:  # noqa: FBT001
    world = World()
    world.write("g", 100, ends=True)
    world.pass_by()
    world.write("g", 150, ends=False)
    world.pass_by(6)
    assert world.shown("g")[2] is Source.BROKERS
    for _ in range(asking.STALE_MS // STEP + 2):
        if not answers:
            world.board.asks = ()
        world.pass_by()
    assert world.shown("g")[2] is (Source.BROKERS if answers else Source.TOPIC)


def test_where_each_number_comes_from_is_said() -> None:
    world = World()
    world.write("g", 100, ends=True)
    world.write("tx", 50, ends=True)
    world.pass_by(2)
    world.write("tx", 100, ends=False)
    world.pass_by(6)
    sources = {
        name: one.lag and (one.lag.source, one.lag.ends_source) for name, one in world.board.groups.items()
    }
    # Positions that are a second older than the ends are compared with the ends of their own time.
    assert sources["g"] == (Source.TOPIC, EndsSource.INTERPOLATED)
    assert sources["tx"] is not None
    assert sources["tx"][0] is Source.BROKERS
    # A group that has published nothing for a while has committed nothing: the newest ends count.
    world.at += 60_000
    world.board.take(EndsSample(world.at, world.at, {"orders": (300, 300)}), ())
    lag = world.board.groups["g"].lag
    assert lag is not None
    assert (lag.source, lag.ends_source) == (Source.TOPIC, EndsSource.BROKERS)
