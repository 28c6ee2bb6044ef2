"""Names of a KIP-848 group's topics, learned from which partitions are committed together."""

from struct import pack

from hypothesis import given, settings
from hypothesis import strategies as st

from rebalance_monitor.coordinator.commits import topic_names
from rebalance_monitor.coordinator.findings.outputs import GroupOut
from rebalance_monitor.coordinator.settings import DetectionSettings
from rebalance_monitor.coordinator.shard import ShardCoordinator, new_shard_state
from rebalance_monitor.coordinator.state.group_state import GroupState, Member, Subscriptions
from rebalance_monitor.coordinator.state.state_machine import Status
from tests.coordinator.support.epochs import A, B, Epochs, compact
from tests.coordinator.support.timeline import T0, P

ONE, TWO = bytes(range(16)), bytes(range(16, 32))


def member(name: str, assigned: list[list[int]]) -> Member:
    return Member(
        member_id=name,
        instance_id=None,
        client_id="c",
        host="/h",
        host_stale=False,
        session_timeout=6_000,
        rebalance_timeout=P,
        family="unknown",
        version=-1,
        subscribed="s",
        joined_at=0,
        assigned=assigned,
        offsets=[-1] * sum(len(one) - 1 for one in assigned),
    )


def group(*shares: list[list[int]]) -> GroupState:
    members = [member(f"m{index}", share) for index, share in enumerate(shares)]
    return GroupState(
        group_type="consumer",
        status=Status.STABLE,
        topics=["id-1", "id-2"],
        subscriptions=Subscriptions(names=["orders", "payments"]),
        members=members,
    )


def told(state: GroupState, *runs: list[tuple[str, int]]) -> list[str]:
    for index, run in enumerate([*runs, []]):
        topic_names.on_run(state, run, 10_000 + index)
    return topic_names.named(state)


def test_commits_of_one_member_in_one_request_distinguish_the_names() -> None:
    state = group([[0, 0, 1, 2], [1, 0]], [[0, 3], [1, 1, 2]])
    assert told(
        state, [("orders", 0), ("orders", 1), ("payments", 0)], [("payments", 1), ("payments", 2)]
    ) == [
        "orders",
        "payments",
    ]
    assert not topic_names.is_ambiguous(state)


def test_names_of_topics_that_are_assigned_alike_need_no_distinction() -> None:
    state = group([[0, 0, 1], [1, 0, 1]], [[0, 2], [1, 2]])
    assert told(state, [("orders", 0), ("payments", 0)], [("orders", 2), ("payments", 2)]) == [
        "orders",
        "payments",
    ]


def test_a_commit_that_fits_no_member_is_no_evidence() -> None:
    state = group([[0, 0, 1]], [[1, 0]])
    assert told(state, [("orders", 9)]) == ["", ""]


def test_a_contradiction_begins_anew() -> None:
    state = group([[0, 0, 1]], [[1, 0]])
    state.subscriptions.aliases = {"orders": ["id-1"]}
    assert told(state, [("payments", 1)]) == ["", ""]


runs = st.lists(st.tuples(st.sampled_from(["orders", "payments", "other"]), st.integers(0, 4)), max_size=6)


@settings(deadline=None)
@given(st.lists(runs, max_size=5), st.data())
def test_a_run_that_is_cut_teaches_the_same(asked: list[list[tuple[str, int]]], data: st.DataObject) -> None:
    whole = group([[0, 0, 1], [1, 0]], [[0, 2, 3], [1, 1]])
    cut = group([[0, 0, 1], [1, 0]], [[0, 2, 3], [1, 1]])
    for at, run in enumerate(asked):
        topic_names.on_run(whole, run, 10_000 + at)
        place = data.draw(st.integers(0, len(run)))
        topic_names.on_run(cut, run[:place], 10_000 + at)
        topic_names.on_run(cut, run[place:], 10_000 + at)
    assert cut.subscriptions == whole.subscriptions


class Pair(Epochs):
    """Members that subscribe to two topics."""

    def share(
        self,
        at: int,
        name: str,
        epoch: int,
        first: tuple[int, ...],
        second: tuple[int, ...],
        two: bytes = TWO,
    ) -> None:
        topics = b"\3"
        for topic, given_ in ((ONE, first), (two, second)):
            topics += topic + bytes([len(given_) + 1]) + pack(f">{len(given_)}i", *given_) + b"\0"
        self.put(at, 8, b"\0\0" + pack(">iib", epoch, epoch - 1, 0) + topics + b"\1\0", name)


def test_commits_of_several_topics_reach_the_members_of_a_kip_848_group() -> None:
    topic = Pair()
    for name in (A, B):
        value = b"\0\0\0\0" + compact("c") + compact("/h") + b"\3" + compact("orders") + compact("payments")
        topic.put(0, 5, value + b"\0" + pack(">i", P) + b"\0\0", name)
    topic.bump(0, 1)
    topic.target(10, 1)
    topic.share(20, A, 1, (0, 1, 2), (0,))
    topic.share(30, B, 1, (3,), (1, 2))
    for at in range(5_000, 12_000, 1_000):
        topic.commit(at, {0: 5, 1: 5, 2: 5}, "orders")
        topic.commit(at, {0: 5}, "payments")
        topic.commit(at + 300, {3: 5}, "orders")
        topic.commit(at + 300, {1: 5, 2: 5}, "payments")
    shard = ShardCoordinator(new_shard_state(7, 0, None), DetectionSettings(), "c1")
    for row in topic.rows:
        shard.on_row(row)
    seen = {m.member_id: (m.commits, m.last_commit) for m in shard.state.groups["g"].members}
    assert all(commits >= 5 for commits, _ in seen.values())
    assert seen[B][1] - seen[A][1] == 300
    said = [out.summary for out in shard.on_clock(T0 + 30_000) if isinstance(out, GroupOut)][-1]
    assert [one["assigned"] for one in said["member_list"]] == [
        {"orders": "0-2", "payments": "0"},
        {"orders": "3", "payments": "1-2"},
    ]
    # They commit when idle, and are silent for half of the session timeout that the broker gives to all.
    counting = [out.summary for out in shard.on_clock(T0 + 45_000) if isinstance(out, GroupOut)][-1]
    assert all(one["deadline"] > T0 + 45_000 for one in counting["member_list"])
