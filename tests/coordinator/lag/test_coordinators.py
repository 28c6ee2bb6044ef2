"""Groups whose coordinator does not answer are not judged: nobody can commit to them."""

from hypothesis import given
from hypothesis import strategies as st

from rebalance_monitor.coordinator.findings.kinds import Kind
from rebalance_monitor.coordinator.lag.coordinators import Coordinators
from rebalance_monitor.coordinator.lag.ends import EndsSample
from rebalance_monitor.coordinator.lag.following import News
from rebalance_monitor.coordinator.probe.sample import ProbeSample
from tests.coordinator.lag.world import STEP, World, summary

SHARD = 7


def look(at: int, *, answers: bool = True, epoch: int = 5, broker: int = 1) -> ProbeSample:
    """Two brokers, of which the first coordinates; `answers`: whether that one does."""
    return ProbeSample(at, leaders=((SHARD, broker, epoch),), brokers=((1, answers), (2, True)))


class Watched(World):
    """A world with a probe."""

    def look_on(self, steps: int, *, reads: bool, answers: bool = True, epoch: int = 5) -> list[Kind]:
        found = []
        for _ in range(steps):
            self.ends = [end + 10 for end in self.ends]
            if reads:
                self.commit(dict(enumerate(self.ends)))
            self.lag.board.coordinators.on_sample(look(self.at, answers=answers, epoch=epoch))
            found += self.look()
        return [one.kind for one in found]


def watched() -> Watched:
    world = Watched(shard=SHARD)
    world.look_on(30, reads=True)
    return world


def test_no_member_has_stopped_while_its_coordinator_is_away_nor_at_once_when_it_is_back() -> None:
    world = watched()
    assert not world.look_on(60, reads=False, answers=False)
    assert not world.look_on(3, reads=False)
    assert Kind.CONSUMPTION_STOPPED in world.look_on(60, reads=False)


def test_a_group_that_stands_still_beside_a_coordinator_that_answers_has_stopped() -> None:
    assert Kind.CONSUMPTION_STOPPED in watched().look_on(60, reads=False)


def test_a_coordinator_that_moves_lets_the_windows_begin_anew() -> None:
    world = watched()
    world.look_on(10, reads=False)
    assert not world.look_on(8, reads=False, epoch=6)
    assert Kind.CONSUMPTION_STOPPED in world.look_on(60, reads=False, epoch=6)


def test_a_coordinator_that_only_the_probe_does_not_reach_excuses_no_group() -> None:
    coordinators = Coordinators()
    coordinators.on_sample(look(0))
    coordinators.on_sample(look(1_000, answers=False))
    coordinators.on_commit(SHARD, 60_000)
    coordinators.take_away()
    coordinators.on_commit(SHARD, 65_000)
    assert coordinators.take_away() == set()
    coordinators.on_commit(SHARD + 1, 65_000)
    assert coordinators.take_away() == set()


def test_the_first_commit_of_a_coordinator_that_is_back_says_nothing_of_its_absence() -> None:
    coordinators = Coordinators()
    coordinators.on_sample(look(0))
    coordinators.on_sample(look(1_000, answers=False))
    # It comes before the sample that finds the coordinator back, and before one of the ends in between.
    coordinators.on_commit(SHARD, 72_000)
    assert coordinators.take_away() == {SHARD}


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 2), st.integers(0, 2)), min_size=1, max_size=12))
def test_what_happened_between_two_calls_is_known_at_the_second(seen: list[tuple[bool, int, int]]) -> None:
    coordinators, steady = Coordinators(), look(0, epoch=0)
    coordinators.on_sample(steady)
    for number, (answers, broker, epoch) in enumerate(seen, 1):
        coordinators.on_sample(look(number, answers=answers, broker=broker, epoch=epoch))
    is_steady = all(one == (True, 1, 0) for one in seen)
    assert (coordinators.take_away() == set()) is is_steady


def test_a_cluster_of_which_nothing_answers_is_away_as_a_whole() -> None:
    coordinators = Coordinators()
    coordinators.on_sample(look(0))
    coordinators.on_sample(ProbeSample(1, brokers=((-1, False),)))
    assert coordinators.take_away() == {SHARD}
    coordinators.on_sample(look(2))
    assert coordinators.take_away() == {SHARD}
    assert coordinators.take_away() == set()


def test_a_rebalance_between_two_samples_of_ends_lets_the_windows_begin_anew() -> None:
    def batch(*samples: EndsSample, rebalancing: frozenset[str] = frozenset()) -> list[Kind]:
        at = world.at
        news = News({}, [], rebalancing, samples, {"g": summary()}, at, at)
        return [one.kind for one in world.lag.on_batch([], news)]

    world = World()
    world.run(30)
    world.run(11, reads=())
    batch(rebalancing=frozenset({"g"}))
    found = []
    for _ in range(8):
        world.at += STEP
        world.ends = [end + 10 for end in world.ends]
        found += batch(EndsSample(world.at - 10, world.at, {"orders": tuple(world.ends)}))
    assert not found + world.found
