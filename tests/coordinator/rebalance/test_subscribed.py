"""Which topics an epoch-based group reads: what its members subscribe to by now, by name or by pattern."""

from struct import pack

from rebalance_monitor.coordinator.findings.kinds import Kind
from rebalance_monitor.coordinator.shard import ShardCoordinator, new_shard_state
from rebalance_monitor.coordinator.state.group_state import GroupState
from tests.coordinator.commits.test_topic_names import ONE, TWO, Pair
from tests.coordinator.support.epochs import SETTINGS, A, B, C, Epochs, compact, pair
from tests.coordinator.support.timeline import P, findings, in_batches, of, text

THREE = bytes(range(32, 48))
DAY = 86_400_000


class Matching(Pair):
    """Members that subscribe to a pattern."""

    def asks(self, at: int, member: str, regex: str, *topics: str) -> None:
        names = bytes([len(topics) + 1]) + b"".join(map(compact, topics))
        value = b"\0\0\0\0" + compact("c") + compact("/h") + names + compact(regex) + pack(">i", P) + b"\0\0"
        self.put(at, 5, value, member)

    def resolved(self, at: int, regex: str, *topics: str) -> None:
        key = pack(">h", 16) + text(self.group) + text(regex)
        names = bytes([len(topics) + 1]) + b"".join(map(compact, topics))
        self.record(at, key, b"\0\0" + names + pack(">qq", 1, at) + b"\0")

    def unused(self, at: int, regex: str) -> None:
        self.record(at, pack(">h", 16) + text(self.group) + text(regex), None)


def read(topic: Epochs) -> GroupState:
    shard = ShardCoordinator(new_shard_state(7, 0, None), SETTINGS, "c1")
    for row in topic.rows:
        shard.on_row(row)
    return shard.state.groups["g"]


def converge(topic: Epochs, at: int, epoch: int, *members: str) -> None:
    topic.bump(at, epoch)
    topic.target(at, epoch)
    for member in members:
        topic.ack(at, member, epoch, (0,))


def test_a_group_that_goes_over_to_other_topics_member_by_member_reads_the_old_ones_no_more() -> None:
    topic = pair()
    topic.metadata(60_000, A, topic="payments")
    converge(topic, 60_000, 3, A, B)
    assert of(findings(topic, SETTINGS), Kind.REBALANCE)[-1].topics == ("orders", "payments")
    topic.leave(70_000, B, 4)
    topic.metadata(71_000, C, topic="payments")
    converge(topic, 71_000, 5, A, C)
    assert of(findings(topic, SETTINGS), Kind.REBALANCE)[-1].topics == ("payments",)


def test_a_group_with_a_new_topic_every_day_reads_the_newest_and_remembers_no_other() -> None:
    topic = Epochs()
    for day in range(40):
        topic.metadata(day * DAY, A, topic=f"events-{day:02}")
        converge(topic, day * DAY, day + 1, A)
    assert of(in_batches(topic, [], clocks=False), Kind.REBALANCE)[-1].topics == ("events-39",)
    state = read(topic)
    assert list(state.subscriptions.topics.values()) == [["events-39"]]


def test_commits_reach_the_members_of_a_group_that_subscribes_by_pattern() -> None:
    topic = Matching()
    topic.asks(0, A, "ord.*")
    topic.resolved(5, "ord.*", "orders")
    converge(topic, 5, 1, A)
    topic.commit(5_000, {0: 7})
    assert of(findings(topic, SETTINGS), Kind.REBALANCE)[0].topics == ("orders",)
    assert read(topic).members[0].last_commit > 0


def test_a_pattern_names_what_it_matches_by_now_for_as_long_as_somebody_asks_for_it() -> None:
    topic = Matching()
    topic.resolved(0, "ord.*", "orders")
    topic.asks(0, A, "ord.*", "bills")
    converge(topic, 5, 1, A)
    assert read(topic).subscriptions.names == ["bills", "orders"]
    topic.resolved(60_000, "ord.*", "orders", "orders-eu")
    assert read(topic).subscriptions.names == ["bills", "orders", "orders-eu"]
    topic.asks(90_000, A, "", "bills")
    topic.unused(90_000, "ord.*")
    assert read(topic).subscriptions.names == ["bills"]


def test_what_the_members_subscribe_to_outlives_a_restart_of_the_monitor() -> None:
    topic = Matching()
    topic.asks(0, A, "ord.*", "bills")
    topic.resolved(5, "ord.*", "orders")
    converge(topic, 5, 1, A)
    topic.metadata(60_000, B, topic="payments")
    converge(topic, 60_000, 2, A, B)
    topic.leave(90_000, A, 3)
    topic.unused(90_000, "ord.*")
    converge(topic, 91_000, 4, B)
    whole = in_batches(topic, [], clocks=False)
    assert of(whole, Kind.REBALANCE)[-1].topics == ("payments",)
    assert all(in_batches(topic, [cut], clocks=False) == whole for cut in range(len(topic.rows)))


def test_commits_of_a_topic_that_was_made_anew_reach_its_members_by_its_new_id() -> None:
    topic = Pair()
    for name in (A, B):
        value = b"\0\0\0\0" + compact("c") + compact("/h") + b"\3" + compact("orders") + compact("payments")
        topic.put(0, 5, value + b"\0" + pack(">i", P) + b"\0\0", name)
    for at, second in ((0, TWO), (60_000, THREE)):
        epoch = 1 + at // 60_000
        topic.bump(at, epoch)
        topic.target(at, epoch)
        topic.share(at + 20, A, epoch, (0, 1, 2), (0,), second)
        topic.share(at + 30, B, epoch, (3,), (1, 2), second)
        for later in range(at + 5_000, at + 12_000, 1_000):
            topic.commit(later, {0: 5, 1: 5, 2: 5}, "orders")
            topic.commit(later, {0: 5}, "payments")
            topic.commit(later + 300, {3: 5}, "orders")
            topic.commit(later + 300, {1: 5, 2: 5}, "payments")
    state = read(topic)
    assert state.subscriptions.aliases == {"orders": [ONE.hex()], "payments": [THREE.hex()]}
    assert all(offset == 5 for member in state.members for offset in member.offsets)
