"""Names of groups as labels: whatever they are made of, the page comes out and stays readable."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
from prometheus_client.parser import text_string_to_metric_families as prometheus

from rebalance_monitor.coordinator.findings.kinds import Kind
from rebalance_monitor.dashboard.metrics.collector import exposition
from rebalance_monitor.dashboard.metrics.definitions import PREFIX
from rebalance_monitor.dashboard.view.snapshot import Update
from tests.dashboard.support.scrape import OPENMETRICS, Page
from tests.dashboard.view.test_snapshot import about

if TYPE_CHECKING:
    from collections.abc import Iterable

ANY_NAME = st.text(st.characters(exclude_categories=()), min_size=1, max_size=8)


def exposed(names: Iterable[str], accept: str) -> set[str]:
    """Return the groups that the page names."""
    page = Page()
    groups = {name: {"group": name, "members": 1, "state": "Stable"} for name in names}
    findings = [about(Kind.REBALANCE, group=name, cluster=name) for name in names]
    page.snapshot.apply(Update(groups=groups, findings=findings))
    parse = openmetrics if accept else prometheus
    text = exposition(page.registry, accept)[0].decode()
    return {s.labels["group"] for family in parse(text) for s in family.samples if "group" in s.labels}


@pytest.mark.parametrize("accept", ["", OPENMETRICS])
def test_a_lone_surrogate_in_a_name_is_escaped_and_the_page_comes_out(accept: str) -> None:
    assert exposed(["a\ud800b", "é", "plain"], accept) == {"a\\ud800b", "é", "plain"}


@settings(max_examples=50, deadline=None)
@given(st.sets(ANY_NAME, max_size=4))
def test_no_name_keeps_the_page_from_coming_out(names: set[str]) -> None:
    assert len(exposed(names, "")) <= len(names)


def test_hostile_group_names_stay_one_label() -> None:
    page, name = Page(), 'a"} 1\n# HELP x\\'
    page.snapshot.apply(Update(groups={name: {"members": 1, "generation": 0}}))
    for accept in ("", OPENMETRICS):
        text = exposition(page.registry, accept)[0].decode()
        parse = openmetrics if accept else prometheus
        assert name in labels(parse(text), "group_members")


def labels(families: Iterable[object], name: str) -> set[str]:
    return {
        sample.labels["group"]
        for family in families
        for sample in family.samples  # type: ignore[attr-defined]  # a family of the client library
        if sample.name == PREFIX + name
    }
