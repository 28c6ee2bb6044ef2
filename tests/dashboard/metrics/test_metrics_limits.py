"""Groups as labels, with a bound: troubled ones have their names, and no count is lost or taken back."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from rebalance_monitor.coordinator.findings.kinds import Kind
from rebalance_monitor.dashboard.metrics.collector import exposition
from rebalance_monitor.dashboard.metrics.definitions import OTHER
from rebalance_monitor.dashboard.metrics.tallies import Limits
from rebalance_monitor.dashboard.view.snapshot import Update
from tests.dashboard.support.scrape import Page
from tests.dashboard.view.test_snapshot import about


def test_a_group_takes_its_series_with_it() -> None:
    page = Page()
    page.snapshot.apply(
        Update(groups={"g": {"members": 2, "generation": 4}}, findings=[about(Kind.REBALANCE, 1)])
    )
    assert any("g" in labels for _, labels in page.samples())
    page.snapshot.apply(Update(removed=["g"]))
    assert not any("g" in labels for _, labels in page.samples())


moves = st.lists(
    st.tuples(st.sampled_from(["summary", "finding", "removed"]), st.integers(0, 9)), min_size=1, max_size=60
)


@settings(max_examples=40, deadline=None)
@given(moves, st.integers(0, 5))
def test_groups_are_bounded_and_no_count_is_lost_or_taken_back(
    done: list[tuple[str, int]], limit: int
) -> None:
    page, before = Page(Limits(deny=("g9",), max_groups=limit)), 0.0
    counts: Counter[str] = Counter()
    for number, (what, which) in enumerate(done):
        group = f"g{which}"
        if what == "summary":
            page.snapshot.apply(Update(groups={group: {"members": 1}}))
        elif what == "finding":
            page.snapshot.apply(Update(findings=[about(Kind.REBALANCE, number, group)]))
            counts[group] += group != "g9"
        else:
            page.snapshot.apply(Update(removed=[group]))
        found = page.samples()
        own = {labels[0] for (name, labels) in found if name.startswith("group_")} - {OTHER}
        assert len(own) <= limit
        assert "g9" not in own
        other = found.get(("group_rebalances_total", (OTHER,)), 0.0)
        assert other >= before
        before = other
        if not any(verb == "removed" for verb, _ in done[: number + 1]):
            assert page.total("group_rebalances_total") == counts.total()


def test_troubled_groups_come_before_quiet_ones() -> None:
    page = Page(Limits(max_groups=2))
    page.snapshot.apply(Update(groups={f"quiet{n}": {"members": 3} for n in range(5)}))
    page.snapshot.apply(Update(findings=[about(Kind.STORM, 1, "loud", phase="opened")]))
    found = page.samples()
    assert found["group_storm_active", ("loud",)] == 1
    assert found["group_members", (OTHER,)] == 12
    assert found["groups_without_series", ()] == 4


def test_trouble_always_has_a_name_and_information_pushes_nobody_out_but_quiet_groups() -> None:
    page = Page(Limits(max_groups=3))

    def happens(kind: Kind, *groups: str) -> set[str]:
        page.snapshot.apply(Update(findings=[about(kind, 1, group) for group in groups]))
        return {labels[0] for name, labels in page.samples() if name == "group_rebalances_total"} - {OTHER}

    page.snapshot.apply(Update(groups={"quiet": {"members": 3}}))
    assert happens(Kind.REBALANCE, "a", "b", "c") == {"a", "b", "c"}
    assert happens(Kind.REBALANCE, "d") == {"a", "b", "c"}
    assert happens(Kind.SESSION_TIMEOUT, "e", "f") == {"c", "e", "f"}
    assert happens(Kind.SESSION_TIMEOUT, "g") == {"e", "f", "g"}
    assert happens(Kind.REBALANCE, "e") == {"e", "f", "g"}
    assert happens(Kind.SESSION_TIMEOUT, "h") == {"e", "g", "h"}


def test_the_end_of_what_a_removed_group_had_open_brings_no_group_back() -> None:
    page = Page()
    page.snapshot.apply(Update(groups={"g": {"state": "Empty"}}))
    page.snapshot.apply(Update(findings=[about(Kind.STORM, 1, "g", phase="opened", incident="s")]))
    page.snapshot.apply(Update(findings=[about(Kind.GROUP_REMOVED, 2, "g")], removed=["g"]))
    page.snapshot.apply(Update(findings=[about(Kind.STORM, 3, "g", phase="resolved", incident="s")]))
    assert list(page.snapshot.known.groups) == []
    assert "g" not in {label for _, labels in page.samples() for label in labels}


def test_groups_that_are_not_allowed_are_summed_up() -> None:
    page = Page(Limits(allow=("orders-*",)))
    page.snapshot.apply(Update(groups={"orders-1": {"members": 1}, "batch": {"members": 5}}))
    assert page.samples()["group_members", (OTHER,)] == 5


def test_a_group_named_like_the_sum_is_part_of_it() -> None:
    page = Page(Limits(max_groups=1))
    page.snapshot.apply(Update(groups={OTHER: {"members": 2, "generation": 3}, "a": {"members": 1}}))
    page.snapshot.apply(Update(groups={"b": {"members": 4}}))
    text = exposition(page.registry, "")[0].decode()
    series = [line.rpartition(" ")[0] for line in text.splitlines() if not line.startswith("#")]
    assert len(series) == len(set(series))
    assert page.samples()["group_members", (OTHER,)] == 6
    page.snapshot.apply(Update(removed=[OTHER]))
    assert page.samples()["group_members", (OTHER,)] == 4
    assert ("group_rebalances_total", (OTHER,)) in page.samples()
