"""What the commits of those that stayed tell about the moment a join phase began."""

from rebalance_monitor.coordinator.commits.trace import commits_when_idle
from rebalance_monitor.coordinator.findings.kinds import Kind
from rebalance_monitor.coordinator.state.group_state import GroupState, Member
from tests.coordinator.support.timeline import Client, P, S, Topic, findings


def test_a_cooperative_survivor_tells_when_it_rejoined_as_well() -> None:
    """Java commits as it asks to join, cooperative or not, and joins at its next poll."""
    a, b = Client("a-1", (0, 1), "consumer-g-1"), Client("b-1", (2, 3), "consumer-g-2", "/10.0.0.2")
    both = Client("a-1", (0, 1, 2, 3), "consumer-g-1")
    topic = Topic()
    topic.generation(0, 1, [a, b], protocol="cooperative-sticky")
    end = 30_700 + S + 1_900
    topic.commits(500, 30_700 + S, a)
    topic.commits(700, 30_700, b)
    topic.commit(30_700 + S + 700, dict.fromkeys(a.partitions, 100))
    topic.generation(end + 20, 2, [both], protocol="cooperative-sticky")
    found = findings(topic.sorted())
    (named,) = [one for one in found if one.kind is Kind.SESSION_TIMEOUT]
    assert named.confidence > 0.8
    assert named.details["silence_ms"] == S + 1_900


def test_a_client_that_commits_only_what_is_new_does_not_commit_when_idle_for_a_few_repeats() -> None:
    def member(family: str, idle: int, commits: int) -> Member:
        found = Member("m", None, "c", "h", False, S, P, family, 1, "", 0)  # noqa: FBT003 - the host is its own
        found.idle, found.commits = idle, commits
        return found

    state = GroupState()
    assert not commits_when_idle(state, member("librdkafka", 3, 30))
    assert commits_when_idle(state, member("librdkafka", 20, 30))
    assert commits_when_idle(state, member("java", 3, 30))
