"""How long a rebalance can have taken: bounds that hold whatever happened between two records."""

from hypothesis import given
from hypothesis import strategies as st

from rebalance_monitor.coordinator.findings.finding import Finding
from rebalance_monitor.coordinator.findings.kinds import Kind
from tests.coordinator.support.timeline import T0, Client, P, Topic, findings

A, B = Client("a-1", (0,)), Client("b-1", (1,), host="/10.0.0.2")


def rebalanced(at: int, number: int, *more: Client) -> Finding:
    """A and B commit until 30 s; their next generation, with `more`, is `number` at `at`."""
    topic = Topic()
    topic.generation(0, 1, [A, B])
    topic.commits(500, 30_000, A)
    topic.commits(600, 30_000, B)
    topic.generation(at, number, [A, B, *more])
    return [one for one in findings(topic.sorted()) if one.kind is Kind.REBALANCE][-1]


@given(st.integers(0, 5), st.data())
def test_a_rebalance_of_several_generations_began_within_the_bounds(failed: int, data: st.DataObject) -> None:
    """Each of them may be held for a rebalance timeout, and those that failed for one more by their sync."""
    phases = data.draw(st.lists(st.integers(0, P), min_size=1 + 2 * failed, max_size=1 + 2 * failed))
    began = 31_000
    found = rebalanced(began + sum(phases) + 20, 2 + failed)
    assert (found.started_at_min or 0) <= T0 + began <= (found.started_at_max or 0)
    assert (found.join_ms_min or 0) <= sum(phases) <= (found.join_ms_max or 0)


def test_a_single_generation_takes_a_rebalance_timeout_at_most() -> None:
    assert rebalanced(62_000, 2).join_ms_max == P


def test_a_newcomer_may_hold_the_join_phase_for_its_own_rebalance_timeout() -> None:
    slow = Client("n-1", (2,), host="/10.0.0.3", rebalance=300_000)
    found = rebalanced(130_000, 2, slow)
    assert (found.started_at_min or 0) <= T0 + 31_000
