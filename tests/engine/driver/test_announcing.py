"""What a job says of itself before its first batch, and of the history while it reads it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from rebalance_monitor.config.model import Settings
from rebalance_monitor.engine.driver.announcing import EVERY_S, HistoryProgress, announce
from rebalance_monitor.engine.topic.facts import TopicFacts

if TYPE_CHECKING:
    from collections.abc import Iterable, MutableMapping


def told(
    begins: dict[int, int], until: dict[int, int], reads: Iterable[dict[int, int]]
) -> tuple[list[bool], list[MutableMapping[str, Any]]]:
    """A batch that takes longer than `EVERY_S` after the other."""
    now = 0.0

    def clock() -> float:
        nonlocal now
        now += EVERY_S
        return now

    with structlog.testing.capture_logs() as logs:
        progress = HistoryProgress(begins, until, clock)
        answers = [progress(ends) for ends in reads]
    return answers, logs


OFFSETS = st.dictionaries(st.integers(0, 3), st.integers(0, 100), min_size=1)


@given(OFFSETS, OFFSETS, st.lists(st.integers(0, 100), max_size=6))
def test_history_is_announced_until_it_has_been_read_and_so_is_its_end(
    begins: dict[int, int], until: dict[int, int], marks: list[int]
) -> None:
    reads = [dict.fromkeys(range(4), mark) for mark in sorted(marks)]
    answers, logs = told(begins, until, [*reads, dict.fromkeys(range(4), 100)])
    anything = sum(max(0, end - begins.get(p, 0)) for p, end in until.items())
    assert sum(answers) == (anything > 0)
    shares = [int(log["share"].rstrip("%")) for log in logs if "share" in log]
    assert shares == sorted(shares)
    assert all(0 <= share <= 100 for share in shares)
    if anything:
        assert (logs[0]["event"], logs[0]["records"]) == ("reading history", anything)
        assert logs[-1]["event"] == "history has been read"
    else:
        assert logs == []


@pytest.mark.parametrize(
    ("web", "page"),
    [
        ({}, "http://127.0.0.1:8377"),
        ({"host": "::1", "port": 80}, "http://[::1]:80"),
        ({"url": "https://monitor.example/"}, "https://monitor.example"),
        ({"enabled": False}, "off (`web.enabled`)"),
    ],
)
def test_the_first_line_names_the_cluster_the_page_and_the_receivers(
    web: dict[str, object], page: str
) -> None:
    alerts = {"receivers": [{"name": "sre", "console": {}}], "route": {"receiver": "sre"}}
    settings = Settings.model_validate({"cluster_name": "orders-eu", "web": web, "alerts": alerts})
    with structlog.testing.capture_logs() as logs:
        announce(settings, TopicFacts("__consumer_offsets", "t", "c", {0: 0, 1: 0}, {0: 3, 1: 0}))
    (said,) = logs
    assert said.items() >= {"cluster": "orders-eu", "page": page, "notifies": "sre", "partitions": 2}.items()
